package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// moduleCall is a module block's source.
type moduleCall struct {
	name, source string
	line         int
}

// syntaxError of a file.
type syntaxError struct {
	line    int
	message string
}

// moduleCalls finds the module blocks of a .tf or .tf.json file that have a source.
func moduleCalls(name string, text []byte) ([]moduleCall, *syntaxError) {
	if strings.HasSuffix(name, ".json") {
		var file struct {
			Module map[string]struct {
				Source string `json:"source"`
			} `json:"module"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, &syntaxError{1, err.Error()}
		}
		var calls []moduleCall
		for _, name := range slices.Sorted(maps.Keys(file.Module)) {
			calls = append(calls, moduleCall{name, file.Module[name].Source, 1})
		}
		return calls, nil
	}
	s := &scanner{text: text, line: 1}
	return s.calls()
}

// token of Terraform's language, as far as module blocks need it.
type token struct {
	// kind is a word, "text" for a quoted one, or a sign such as "{"; empty: the end.
	kind string
	text string
	line int
}

type scanner struct {
	text []byte
	at   int
	line int
	// depth bounds templates within templates.
	depth int
	err   *syntaxError
}

var (
	wordPattern    = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_-]*`)
	heredocPattern = regexp.MustCompile(`^<<(-?)([\p{L}_][\p{L}\p{N}_-]*)\r?\n`)
)

// calls reads the top level: WORD "label" {…}. In a module's, source = "…".
func (s *scanner) calls() (calls []moduleCall, _ *syntaxError) {
	var open []string
	var header, attribute []token
	for s.err == nil {
		t := s.next()
		switch t.kind {
		case "":
			if len(open) > 0 {
				s.fail("%d of %q are not closed", len(open), "{ [ (")
			}
			return calls, s.err
		case "{", "[", "(":
			if len(open) == 0 && t.kind == "{" && len(header) == 2 && header[0].kind == "module" && header[1].kind == "text" {
				open = append(open, "module")
			} else {
				open = append(open, t.kind)
			}
			attribute = nil
		case "}", "]", ")":
			if len(open) == 0 {
				s.fail("%q closes nothing", t.kind)
				continue
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				header = nil
			}
			attribute = nil
		default:
			if len(open) == 0 {
				if len(header) > 0 && header[0].line != t.line && t.kind != "=" {
					header = nil
				}
				header = append(header, t)
				continue
			}
			if len(open) > 1 || open[0] != "module" {
				continue
			}
			if t.kind == "=" && len(attribute) > 0 {
				attribute = append(attribute[len(attribute)-1:], t)
				continue
			}
			if attribute = append(attribute, t); len(attribute) == 3 && attribute[0].kind == "source" && attribute[1].kind == "=" && t.kind == "text" {
				calls = append(calls, moduleCall{header[1].text, t.text, t.line})
			}
			if len(attribute) > 3 {
				attribute = attribute[len(attribute)-1:]
			}
		}
	}
	return nil, s.err
}

func (s *scanner) fail(format string, arguments ...any) {
	if s.err == nil {
		s.err = &syntaxError{s.line, fmt.Sprintf(format, arguments...)}
	}
}

// next token; of comments and space there is none.
func (s *scanner) next() token {
	for s.at < len(s.text) && s.err == nil {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case c == '\n':
			s.line++
			s.at++
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '#' || bytes.HasPrefix(rest, []byte("//")):
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest, []byte("*/"))
			if end < 0 {
				s.fail("a comment does not end")
				break
			}
			s.line += bytes.Count(rest[:end], []byte("\n"))
			s.at += end + 2
		case c == '"':
			line := s.line
			return token{"text", s.quoted(), line}
		case c == '<' && heredocPattern.Match(rest):
			s.heredoc(heredocPattern.FindSubmatch(rest))
		default:
			if word := wordPattern.Find(rest); word != nil {
				s.at += len(word)
				return token{string(word), "", s.line}
			}
			s.at++
			return token{string(c), "", s.line}
		}
	}
	return token{line: s.line}
}

// maxTemplates is how deep templates may be nested.
const maxTemplates = 100

// quoted text from its first quote on; of what is computed in it nothing is known.
func (s *scanner) quoted() string {
	if s.depth++; s.depth > maxTemplates {
		s.fail("texts are nested too deep")
	}
	defer func() { s.depth-- }()
	var text strings.Builder
	for s.at++; s.at < len(s.text) && s.err == nil; s.at++ {
		switch c := s.text[s.at]; c {
		case '"':
			s.at++
			return text.String()
		case '\n':
			s.fail("a text does not end")
		case '\\':
			s.at++
			if s.at < len(s.text) {
				text.WriteByte(s.text[s.at])
			}
		case '$', '%':
			if strings.HasPrefix(string(s.text[s.at+1:min(s.at+2, len(s.text))]), "{") && s.text[s.at-1] != c {
				s.at += 2
				s.template()
				s.at--
				continue
			}
			text.WriteByte(c)
		default:
			text.WriteByte(c)
		}
	}
	s.fail("a text does not end")
	return ""
}

// template from after its brace to after the one that ends it.
func (s *scanner) template() {
	for open := 1; open > 0 && s.err == nil; {
		switch s.next().kind {
		case "{":
			open++
		case "}":
			open--
		case "":
			s.fail("a template does not end")
		}
	}
}

// heredoc up to the line of its own word.
func (s *scanner) heredoc(match [][]byte) {
	s.at += len(match[0])
	s.line++
	for s.at < len(s.text) {
		line, _, _ := bytes.Cut(s.text[s.at:], []byte("\n"))
		s.at = min(s.at+len(line)+1, len(s.text))
		s.line++
		if string(bytes.TrimSpace(line)) == string(match[2]) {
			return
		}
	}
	s.fail("the text until %s does not end", match[2])
}
