// Package statement splits SQL into statements and says what each declares.
// It knows how far a statement goes and how it begins; what it means is for
// the database engine to say. Whatever is not a declaration is refused, with
// the line and what to do. It is pure; the plugin's engines call it, and the
// renderer that reads dumps.
package statement

import (
	"slices"
	"strings"
)

// Limits of what is read.
const (
	MaxBytes      = 256 << 10
	MaxStatements = 1000
)

// Kind of what a statement declares.
type Kind string

const (
	Table    Kind = "table"
	Index    Kind = "index"
	View     Kind = "view"
	Function Kind = "function"
	Trigger  Kind = "trigger"
	Grant    Kind = "grant"
	Enum     Kind = "enum"
	Domain   Kind = "domain"
	Sequence Kind = "sequence"
	// Constraint is a constraint, Preset a default or an identity, that ALTER
	// TABLE gives to a table that is declared before, as pg_dump writes them.
	Constraint Kind = "constraint"
	Preset     Kind = "preset"
	// Owner says which column a sequence goes with.
	Owner Kind = "owner"
	// Unchecked has functions made without a look at their bodies, which may name
	// what is declared behind them.
	Unchecked Kind = "unchecked"
)

// Statement is one declaration.
type Statement struct {
	Kind Kind
	// Name is what it declares or, of an owner, the sequence; empty for a grant,
	// a preset and what leaves functions unchecked.
	Name string
	// Tables are what an index or a trigger is on, or a grant is about.
	Tables []string
	// References are the tables that its foreign keys name.
	References []string
	// Text is the statement without its semicolon.
	Text   string
	Line   int
	Tokens []Token
}

// Label says for people what the statement does.
func (s Statement) Label() string {
	switch s.Kind {
	case Constraint:
		return "ALTER TABLE " + s.Tables[0] + " ADD CONSTRAINT " + s.Name
	case Preset:
		return "ALTER TABLE " + s.Tables[0] + " ALTER COLUMN"
	case Owner:
		return "ALTER SEQUENCE " + s.Name + " OWNED BY"
	case Enum:
		return "CREATE TYPE " + s.Name
	case Grant:
		return "GRANT"
	}
	return "CREATE " + strings.ToUpper(string(s.Kind)) + " " + s.Name
}

// Parse splits SQL into its declarations.
func Parse(dialect Dialect, sql string) ([]Statement, error) {
	if len(sql) > MaxBytes {
		return nil, fail(1, "it has %d bytes, and %d is the most: divide it among several assets", len(sql), MaxBytes)
	}
	tokens, err := Scan(dialect, sql)
	if err != nil {
		return nil, err
	}
	var statements []Statement
	for _, part := range Split(tokens) {
		one, err := Read(dialect, sql, part)
		if err != nil {
			return nil, err
		}
		statements = append(statements, one)
		if len(statements) > MaxStatements {
			return nil, fail(one.Line, "there are more than %d statements: divide them among several assets", MaxStatements)
		}
	}
	if len(statements) == 0 {
		return nil, fail(1, "it declares nothing: write CREATE TABLE or the like, or use a Turndown addon to remove what is there")
	}
	return statements, checkNames(dialect, statements)
}

// Read says what one statement of the SQL declares.
func Read(dialect Dialect, sql string, tokens []Token) (Statement, error) {
	one, err := read(dialect, tokens)
	one.Text = sql[tokens[0].Start:tokens[len(tokens)-1].End]
	one.Tokens, one.Line = tokens, tokens[0].Line
	return one, err
}

// Split divides tokens at semicolons, and at commands of psql. The body of an SQLite trigger and of a
// PostgreSQL function with BEGIN ATOMIC holds some of its own: there, only
// the one after END, which itself follows a semicolon or the beginning, ends
// the statement.
func Split(tokens []Token) [][]Token {
	var parts [][]Token
	var part []Token
	body := false
	for i, token := range tokens {
		if token.Class == Command && len(part) == 0 {
			parts = append(parts, tokens[i:i+1])
			continue
		}
		if !token.Is(";") {
			part = append(part, token)
			body = body || len(part) > 1 && opensBody(part)
			continue
		}
		if body && !closesBody(tokens[:i]) {
			part = append(part, token)
			continue
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
		part, body = nil, false
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

func opensBody(part []Token) bool {
	last, before := part[len(part)-1], part[len(part)-2]
	if last.Is("atomic") && before.Is("begin") {
		return true
	}
	if !last.Is("begin") || !part[0].Is("create") {
		return false
	}
	return part[1].Is("trigger") || len(part) > 2 && part[2].Is("trigger") && (part[1].Is("temp") || part[1].Is("temporary"))
}

func closesBody(before []Token) bool {
	n := len(before)
	if n < 2 || !before[n-1].Is("end") {
		return false
	}
	return before[n-2].Is(";") || before[n-2].Is("atomic") || before[n-2].Is("begin")
}

// checkNames refuses two declarations of one name, and what is on a table
// that is not declared.
func checkNames(dialect Dialect, statements []Statement) error {
	lines := map[string]int{}
	relations := map[string]bool{}
	for _, s := range statements {
		key := fold(dialect, s.Name)
		switch s.Kind {
		case Trigger:
			key = "trigger " + key
			if dialect == PostgreSQL {
				key += " on " + s.Tables[0]
			}
		case Grant, Function, Preset, Owner, Unchecked:
			key = ""
		case Constraint:
			key = "constraint " + key + " on " + s.Tables[0]
		default:
			relations[key] = true
		}
		if key == "" {
			continue
		}
		if lines[key] > 0 {
			return fail(s.Line, "%s is declared in line %d already: keep one of them", s.Name, lines[key])
		}
		lines[key] = s.Line
	}
	for _, s := range statements {
		for _, table := range s.References {
			if line := lines[table]; dialect == PostgreSQL && line > s.Line {
				return fail(s.Line, "%s %s refers to %s, which is declared in line %d: declare %s first", s.Kind, s.Name, table, line, table)
			}
		}
		for _, table := range s.Tables {
			if !relations[fold(dialect, table)] {
				return fail(s.Line, "this %s is on %s, which the sql does not declare: declare the table in the same asset, for what is not declared is never touched", s.Kind, table)
			}
		}
	}
	return nil
}

// Declares reports whether the statements declare a table or view of the name.
func Declares(dialect Dialect, statements []Statement, name string) bool {
	return slices.ContainsFunc(statements, func(s Statement) bool {
		return (s.Kind == Table || s.Kind == View) && fold(dialect, s.Name) == fold(dialect, name)
	})
}

// fold makes two spellings of one name equal. PostgreSQL's names are folded
// when they are read.
func fold(dialect Dialect, name string) string {
	if dialect == SQLite {
		return strings.ToLower(name)
	}
	return name
}
