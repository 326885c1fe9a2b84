package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
)

// Limits of one manifest.
const (
	maxDepth  = 200
	maxValues = 1_000_000
)

// reader is one reading of manifests.
type reader struct {
	settings Settings
	objects  []Object
	findings []Finding

	// lost are objects that are wrong, by the finding that says so.
	lost map[int]*kubernetespb.Object

	// Of index: ids by what others name objects by, and definitions by kind.
	ids     map[key]string
	defined map[string]string
	// autoscalers by what they scale; nil: not looked for yet.
	autoscalers map[key]string
	// places of objects in the order of hooks and waves, by ids.
	places map[string]int
	// atPlace are the ids of each.
	atPlace [][]string
}

// manifest reads one, and says what of it cannot be read.
func (r *reader) manifest(m Manifest) {
	if problem, hint := encoding(m.Text); problem != "" {
		r.unknown(m, 1, hint, "%s", problem)
		return
	}
	next := documents(m.File, m.Text)
	values := &converter{budget: maxValues}
	for {
		document, err := next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			found := syntax(err, m.Text)
			r.unknown(m, found.line, found.hint, "%s", found.message)
			return
		}
		value, err := values.document(document)
		if problem, ok := errors.AsType[*problem](err); ok {
			o := identity(document)
			if o == nil || r.skipped(m, o) {
				if o == nil {
					r.unknown(m, problem.line, problem.hint, "%s", problem.message)
				}
				continue
			}
			r.lose(o, m, problem.line, problem.hint, "%s", problem.message)
			continue
		}
		r.document(m, document, value)
	}
}

// wrong says what is wrong at a line of the manifest's text.
func (r *reader) wrong(m Manifest, line int, hint, format string, arguments ...any) {
	r.find(m, line, false, hint, format, arguments...)
}

// leave leaves out what could be no asset.
func (r *reader) leave(m Manifest, line int, hint, format string, arguments ...any) {
	r.wrong(m, line, hint, format, arguments...)
	r.findings[len(r.findings)-1].LeftOut = true
}

// unknown leaves out what may be an asset, and cannot say which.
func (r *reader) unknown(m Manifest, line int, hint, format string, arguments ...any) {
	r.leave(m, line, hint, format, arguments...)
	r.findings[len(r.findings)-1].Unknown = true
}

// lose leaves out an object, of which only the cluster is not known yet.
func (r *reader) lose(o *kubernetespb.Object, m Manifest, line int, hint, format string, arguments ...any) {
	r.leave(m, line, hint, format, arguments...)
	if r.lost == nil {
		r.lost = map[int]*kubernetespb.Object{}
	}
	r.lost[len(r.findings)-1] = o
}

// identity is what a document says that it is, if that can be read; else nil.
func identity(document *yaml.Node) *kubernetespb.Object {
	metadata := child(document, "metadata")
	o := &kubernetespb.Object{
		ApiVersion: scalarOf(child(document, "apiVersion")), Kind: scalarOf(child(document, "kind")),
		Name: scalarOf(child(metadata, "name")), Namespace: scalarOf(child(metadata, "namespace")),
	}
	group, _, hasGroup := strings.Cut(o.ApiVersion, "/")
	if o.ApiVersion == "" || !kindPattern.MatchString(o.Kind) || hasGroup && !segmentPattern.MatchString(group) || !isObjectName(o.Name) || o.Namespace != "" && !segmentPattern.MatchString(o.Namespace) {
		return nil
	}
	return o
}

// child is the value of a key that a mapping has once.
func child(node *yaml.Node, key string) (found *yaml.Node) {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != key {
			continue
		}
		if found != nil {
			return nil
		}
		found = node.Content[i+1]
	}
	return found
}

func scalarOf(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}

func (r *reader) find(m Manifest, line int, warning bool, hint, format string, arguments ...any) {
	f := Finding{File: m.File, Line: line, Warning: warning, Message: fmt.Sprintf(format, arguments...), Hint: hint}
	if m.Rendered {
		f.Line = m.Line
		if line > 0 && !warning {
			f.Message = fmt.Sprintf("in line %d of what it renders: %s", line, f.Message)
		}
	}
	r.findings = append(r.findings, f)
}

// encoding says what keeps text from being read as UTF-8.
func encoding(text []byte) (message, hint string) {
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return "the file begins with a byte order mark", "save it as UTF-8 without one"
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return "the file is UTF-16", "save it as UTF-8"
	case !utf8.Valid(text):
		return "the file is not UTF-8", "save it as UTF-8, and keep binary data out of manifests"
	}
	return "", ""
}

// isJSON reports whether text is, as YAML's own {a: 1} is not.
func isJSON(text []byte) bool {
	if begins := bytes.TrimSpace(text); len(begins) == 0 || begins[0] != '{' {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var one json.RawMessage
		if err := decoder.Decode(&one); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// jsonDocuments reads JSON, which is almost YAML, but for tabs and escapes.
func jsonDocuments(text []byte) func() (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	// Lines are counted as they are passed: once through the text.
	line, counted := 1, 0
	currentLine := func() int {
		offset := int(decoder.InputOffset())
		line += bytes.Count(text[counted:offset], []byte("\n"))
		counted = offset
		return line
	}
	var read func(depth int) (*yaml.Node, error)
	read = func(depth int) (*yaml.Node, error) {
		token, err := decoder.Token()
		if err != nil {
			if depth > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err != io.EOF {
				err = &problem{line: currentLine(), message: "not valid JSON: " + jsonReason(err), hint: "kubectl apply --dry-run=client -f FILE says the same"}
			}
			return nil, err
		}
		node := &yaml.Node{Kind: yaml.ScalarNode, Line: currentLine()}
		switch token := token.(type) {
		case json.Delim:
			if depth > maxDepth {
				return nil, tooDeep(node, "")
			}
			node.Kind = yaml.SequenceNode
			if token == '{' {
				node.Kind = yaml.MappingNode
			}
			for decoder.More() {
				element, err := read(depth + 1)
				if err != nil {
					return nil, err
				}
				node.Content = append(node.Content, element)
			}
			_, err := decoder.Token()
			if err != nil {
				return nil, &problem{line: currentLine(), message: "not valid JSON: " + jsonReason(err), hint: "kubectl apply --dry-run=client -f FILE says the same"}
			}
		case string:
			node.Value, node.Style = token, yaml.DoubleQuotedStyle
		case json.Number:
			node.Value = token.String()
		case bool:
			node.Value = strconv.FormatBool(token)
		case nil:
			node.Value = "null"
		}
		return node, nil
	}
	return func() (*yaml.Node, error) { return read(0) }
}

func jsonReason(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "it ends in the middle"
	}
	return quoted.ReplaceAllString(err.Error(), "a text")
}

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	// quoted may be a piece of a secret.
	quoted = regexp.MustCompile("'[^']*'|\"[^\"]*\"|`[^`]*`")
)

// syntax is what a person is told of text that is no YAML.
func syntax(err error, text []byte) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	line := 1
	if parts := yamlLine.FindStringSubmatch(message); parts != nil {
		line, _ = strconv.Atoi(parts[1])
		message = message[len(parts[0]):]
	}
	switch {
	case strings.Contains(message, "cannot start any token"):
		return &problem{line, "not valid YAML: a character that may not stand there, for example a tab", "indent by spaces, and quote texts that begin with @ ` or %"}
	case strings.Contains(message, "unknown anchor"):
		// The parser does not say where.
		alias := "*" + strings.Trim(quoted.FindString(message), "'")
		preceding, _, _ := strings.Cut(string(text), alias)
		return &problem{1 + strings.Count(preceding, "\n"), "not valid YAML: an alias of no anchor", "write the value instead, or quote a text that begins with *"}
	case strings.Contains(message, "exceeded max depth"):
		return &problem{line, fmt.Sprintf("values lie within more than %d others", maxDepth), "is it a manifest?"}
	}
	return &problem{line, "not valid YAML: " + quoted.ReplaceAllString(message, "a text"), "quote texts with special characters, and indent by spaces"}
}
