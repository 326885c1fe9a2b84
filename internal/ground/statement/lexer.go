package statement

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Dialect is how an engine writes SQL.
type Dialect int

const (
	SQLite Dialect = iota
	PostgreSQL
)

// Class of a token.
type Class int

const (
	// Word is a keyword, or a name without quotes.
	Word Class = iota
	// Name is a quoted name.
	Name
	// Text is a string.
	Text
	// Number is a number.
	Number
	// Symbol is one character of any other kind.
	Symbol
	// Command is a line for psql, which begins with a backslash.
	Command
)

// Token is the smallest part of a statement. Comments are none.
type Token struct {
	Class Class
	// Value is a name without its quotes, or the token as it is written.
	Value string
	// Start and End are its place in the text, Line counts from 1.
	Start, End, Line int
}

// Is reports whether the token is the keyword or symbol.
func (t Token) Is(word string) bool {
	return (t.Class == Word || t.Class == Symbol) && strings.EqualFold(t.Value, word)
}

// Error is a fault of the SQL text, with the line it is in.
type Error struct {
	Line    int
	Message string
	// Kind: no object of this kind is managed, whatever is said of it.
	Kind bool
}

func (e *Error) Error() string { return fmt.Sprintf("line %d of sql: %s", e.Line, e.Message) }

func fail(line int, format string, arguments ...any) *Error {
	return &Error{Line: line, Message: fmt.Sprintf(format, arguments...)}
}

type lexer struct {
	dialect  Dialect
	text     string
	at, line int
	tokens   []Token
}

// Scan splits SQL into tokens.
func Scan(dialect Dialect, text string) ([]Token, error) {
	l := &lexer{dialect: dialect, text: text, line: 1}
	for {
		if err := l.space(); err != nil {
			return nil, err
		}
		if l.at >= len(l.text) {
			return l.tokens, nil
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
}

func (l *lexer) rest() string { return l.text[l.at:] }

// advance moves to the place and counts lines.
func (l *lexer) advance(end int) {
	l.line += strings.Count(l.text[l.at:end], "\n")
	l.at = end
}

// space skips white space and comments.
func (l *lexer) space() error {
	for l.at < len(l.text) {
		switch {
		case strings.IndexByte(" \t\r\n\f", l.text[l.at]) >= 0:
			l.advance(l.at + 1)
		case strings.HasPrefix(l.rest(), "--"):
			end := strings.IndexByte(l.rest(), '\n')
			if end < 0 {
				end = len(l.rest())
			}
			l.advance(l.at + end)
		case strings.HasPrefix(l.rest(), "/*"):
			if err := l.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// comment skips a comment in /* */. PostgreSQL's nest.
func (l *lexer) comment() error {
	depth, i := 1, l.at+2
	for depth > 0 {
		switch rest := l.text[min(i, len(l.text)):]; {
		case rest == "":
			return fail(l.line, "a comment begins here with /* and does not end: close it with */")
		case strings.HasPrefix(rest, "*/"):
			depth, i = depth-1, i+2
		case l.dialect == PostgreSQL && strings.HasPrefix(rest, "/*"):
			depth, i = depth+1, i+2
		default:
			i++
		}
	}
	l.advance(i)
	return nil
}

func (l *lexer) next() error {
	c := l.text[l.at]
	switch {
	case c == 0:
		return fail(l.line, "it holds a NUL byte: remove it")
	case c == '\'':
		return l.quoted(Text, '\'', l.at, false)
	case c == '"':
		return l.quoted(Name, '"', l.at, false)
	case c == '`' && l.dialect == SQLite:
		return l.quoted(Name, '`', l.at, false)
	case c == '[' && l.dialect == SQLite:
		return l.quoted(Name, ']', l.at, false)
	case c == '$' && l.dialect == PostgreSQL:
		return l.dollar()
	case isDigit(c):
		l.add(Number, l.span(func(c byte) bool { return isWordByte(c) || c == '.' }))
	case isWordStart(c):
		return l.word()
	case c == '\\' && l.dialect == PostgreSQL && l.betweenStatements():
		l.add(Command, l.at+len(strings.TrimRight(l.untilNewline(), "\r")))
	case c == '\\':
		return fail(l.line, `\ outside of a string: commands of psql are not SQL; remove it`)
	default:
		l.add(Symbol, l.at+1)
		if c == ';' && l.dialect == PostgreSQL {
			l.rows()
		}
	}
	return nil
}

// betweenStatements reports whether this is the beginning of a line, and of what
// may be a statement: there psql reads its own commands.
func (l *lexer) betweenStatements() bool {
	if l.at > 0 && l.text[l.at-1] != '\n' {
		return false
	}
	if len(l.tokens) == 0 {
		return true
	}
	last := l.tokens[len(l.tokens)-1]
	return last.Is(";") || last.Class == Command
}

func (l *lexer) untilNewline() string {
	line, _, _ := strings.Cut(l.rest(), "\n")
	return line
}

// rows skips the rows behind COPY … FROM stdin, which are no SQL.
func (l *lexer) rows() {
	n := len(l.tokens)
	if n < 4 || !l.tokens[n-2].Is("stdin") || !l.tokens[n-3].Is("from") {
		return
	}
	first := n - 2
	for first > 0 && !l.tokens[first-1].Is(";") && l.tokens[first-1].Class != Command {
		first--
	}
	if !l.tokens[first].Is("copy") {
		return
	}
	if end := strings.Index(l.rest(), "\n\\.\n"); end >= 0 {
		l.advance(l.at + end + len("\n\\.\n"))
	}
}

// word is a word, or a string with a prefix such as E” or X”.
func (l *lexer) word() error {
	end := l.span(isWordByte)
	prefix := strings.ToLower(l.text[l.at:end])
	if end < len(l.text) && l.text[end] == '\'' {
		switch {
		case prefix == "x", l.dialect == PostgreSQL && (prefix == "b" || prefix == "n"):
			return l.quoted(Text, '\'', end, false)
		case l.dialect == PostgreSQL && prefix == "e":
			return l.quoted(Text, '\'', end, true)
		}
	}
	if l.dialect == PostgreSQL && prefix == "u" && strings.HasPrefix(l.text[end:], "&") && len(l.text) > end+1 && strings.IndexByte(`'"`, l.text[end+1]) >= 0 {
		return fail(l.line, "names and strings with U& are not understood: write the characters themselves")
	}
	l.add(Word, end)
	return nil
}

func (l *lexer) span(in func(byte) bool) int {
	end := l.at + 1
	for end < len(l.text) && in(l.text[end]) {
		end++
	}
	return end
}

func (l *lexer) add(class Class, end int) {
	if class == Symbol { // whole runes
		for end < len(l.text) && !utf8.RuneStart(l.text[end]) {
			end++
		}
	}
	l.tokens = append(l.tokens, Token{Class: class, Value: l.text[l.at:end], Start: l.at, End: end, Line: l.line})
	l.advance(end)
}

// quoted reads from an opening quote to its end. A doubled quote stands for
// itself, but not in [name].
func (l *lexer) quoted(class Class, end byte, open int, backslashes bool) error {
	value := strings.Builder{}
	for i := open + 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == 0:
			return fail(l.line, "it holds a NUL byte: remove it")
		case backslashes && c == '\\' && i+1 < len(l.text):
			i++
		case c == end && end != ']' && i+1 < len(l.text) && l.text[i+1] == end:
			value.WriteByte(c)
			i++
		case c == end:
			token := Token{Class: class, Value: l.text[l.at : i+1], Start: l.at, End: i + 1, Line: l.line}
			if class == Name {
				token.Value = value.String()
			}
			l.tokens = append(l.tokens, token)
			l.advance(i + 1)
			return nil
		default:
			value.WriteByte(c)
		}
	}
	what := "a string"
	if class == Name {
		what = "a quoted name"
	}
	return fail(l.line, "%s begins here and does not end: close it with %c", what, end)
}

// dollar reads a string in $tag$.
func (l *lexer) dollar() error {
	end := l.at + 1
	for end < len(l.text) && isWordByte(l.text[end]) && l.text[end] != '$' {
		end++
	}
	if end >= len(l.text) || l.text[end] != '$' || end > l.at+1 && isDigit(l.text[l.at+1]) {
		l.add(Symbol, l.at+1)
		return nil
	}
	tag := l.text[l.at : end+1]
	close := strings.Index(l.text[end+1:], tag)
	if close < 0 {
		return fail(l.line, "a string begins here with %s and does not end: close it with %s", tag, tag)
	}
	l.add(Text, end+1+close+len(tag))
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordStart(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

func isWordByte(c byte) bool { return isWordStart(c) || isDigit(c) || c == '$' }
