package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/spell"
)

// Limits of a definition.
const (
	MaxBytes       = 256 << 10
	maxMachines    = 64
	maxStates      = 64 // of one machine
	maxTransitions = 256
	// maxNames bounds the inputs, the facts and the signals, each: every guard is held to
	// all of them.
	maxNames = 256
	// maxNodes are keys and values of the file. Looking for keys that come twice takes time in
	// the square of their number.
	maxNodes    = 20_000
	maxFindings = 50
)

// page shows what can be written.
const page = "docs/use/workflows.md"

// Finding is something that is wrong with a definition, and the way there.
type Finding struct {
	intent.Finding
	// Trace gets there from the start of a run; empty: it is wrong as it is written.
	Trace []Move `json:"trace,omitempty"`
}

// Read a definition from YAML. It is strict, and tells everything that is wrong with it with
// its line; with an error among the findings there is no definition.
func Read(file string, data []byte) (*Definition, []Finding) {
	r := &reader{file: file, definition: &Definition{File: file}}
	return r.read(data)
}

func (r *reader) read(data []byte) (*Definition, []Finding) {
	root := r.root(data)
	if root == nil {
		return nil, r.findings
	}
	r.readDefinition(root)
	if !hasErrors(r.findings) {
		r.findings = append(r.findings, r.definition.resolve()...)
	}
	if len(r.findings) > maxFindings {
		r.findings = r.findings[:maxFindings]
	}
	if hasErrors(r.findings) {
		return nil, r.findings
	}
	r.definition.digest = r.definition.computeDigest()
	return r.definition, r.findings
}

func hasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == intent.Error })
}

// reader gathers findings, all of them in one go.
type reader struct {
	file       string
	definition *Definition
	findings   []Finding
}

// fail adds an error at a node.
func (r *reader) fail(node *yaml.Node, hint, format string, arguments ...any) {
	r.findings = append(r.findings, Finding{Finding: intent.Finding{
		Rule: "workflow", Severity: intent.Error, Message: fmt.Sprintf(format, arguments...), Hint: hint,
		File: r.file, Line: max(node.Line, 1), Column: node.Column,
	}})
}

// check turns an error of a value into a finding.
func (r *reader) check(node *yaml.Node, field string, err error) {
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		r.fail(node, cause.Hint, "%s: %s", field, cause.Message)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s+)?line (\d+): `)

// root is the one mapping of the file; nil: there is a finding.
func (r *reader) root(data []byte) *yaml.Node {
	first := &yaml.Node{Line: 1}
	if len(data) > MaxBytes {
		r.fail(first, "write several workflows", "the file has %d bytes, at most %d are read", len(data), MaxBytes)
		return nil
	}
	if !utf8.Valid(data) {
		r.fail(first, "save it as UTF-8", "the file is not written in UTF-8")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, more yaml.Node
	err := decoder.Decode(&root)
	if err == nil && countNodes(&root) > maxNodes {
		r.fail(first, "write several workflows", "the file holds more than %d keys and values", maxNodes)
		return nil
	}
	if err == nil {
		// Decoding into a value refuses keys that come twice and aliases that explode.
		err = root.Decode(new(map[string]any))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		text := err.Error()
		if found := yamlLine.FindStringSubmatch(text); found != nil {
			first.Line, _ = strconv.Atoi(found[1])
		}
		r.fail(first, page+" shows a workflow", "the file cannot be read: %s", yamlLine.ReplaceAllString(text, ""))
		return nil
	}
	if tagged, ok := document.UnknownTag(&root); ok {
		r.fail(tagged, "write the value that is meant: nothing here does what a tag asks for", "the tag %.100s is not known", tagged.Tag)
		return nil
	}
	if len(root.Content) != 1 {
		r.fail(first, "start it with workflow: v1 and name:; "+page+" shows one", "the file holds no workflow")
		return nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.fail(&yaml.Node{Line: max(more.Line, 1)}, "write one workflow per file", "the file holds more than one document")
		return nil
	}
	return root.Content[0]
}

// countNodes of a tree, each once.
func countNodes(node *yaml.Node) int {
	n := 1
	for _, element := range node.Content {
		n += countNodes(element)
	}
	return n
}

// keys of a mapping, and what reads each.
type keys map[string]func(node *yaml.Node)

// mapping reads the keys of a mapping, and tells of others.
func (r *reader) mapping(node *yaml.Node, field string, known keys) {
	r.pairs(node, field, func(key, value *yaml.Node) {
		read := known[key.Value]
		if read == nil {
			names := slices.Sorted(maps.Keys(known))
			hint := "it has " + strings.Join(names, ", ")
			if near := spell.Nearest(key.Value, names); near != "" {
				hint = "is " + near + " meant? " + hint
			}
			r.fail(key, hint, "%s has no key %.100q", field, key.Value)
			return
		}
		read(value)
	})
}

// pairs of a mapping.
func (r *reader) pairs(node *yaml.Node, field string, each func(key, value *yaml.Node)) {
	node = resolveAlias(node)
	if node.Kind != yaml.MappingNode {
		r.fail(node, page+" shows one", "%s is no mapping", field)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		each(node.Content[i], resolveAlias(node.Content[i+1]))
	}
}

func resolveAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// text of a scalar.
func (r *reader) text(node *yaml.Node, field string) string {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		r.fail(node, "write a text", "%s is no text", field)
		return ""
	}
	if len(node.Value) > maxValue {
		r.fail(node, "shorten it", "%s has %d bytes, at most %d are read", field, len(node.Value), maxValue)
		return ""
	}
	return node.Value
}

// into reads a text into a field.
func (r *reader) into(target *string, field string) func(*yaml.Node) {
	return func(node *yaml.Node) { *target = r.text(node, field) }
}

// texts of a list, or one text.
func (r *reader) texts(node *yaml.Node, field string) []string {
	if node.Kind == yaml.ScalarNode {
		return []string{r.text(node, field)}
	}
	if node.Kind != yaml.SequenceNode {
		r.fail(node, "write [a, b]", "%s is no list", field)
		return nil
	}
	list := []string{}
	for _, element := range node.Content {
		list = append(list, r.text(resolveAlias(element), field))
	}
	return list
}

func (r *reader) truth(node *yaml.Node, field string) bool {
	if node.Tag != "!!bool" {
		r.fail(node, "write true or false", "%s is %.100q, neither true nor false", field, node.Value)
	}
	return node.Value == "true"
}

func (r *reader) duration(node *yaml.Node, field string) time.Duration {
	d, err := time.ParseDuration(r.text(node, field))
	if err != nil || d <= 0 || d > 366*24*time.Hour {
		r.fail(node, "write it as 30m or 12h, at most 8784h", "%s is %.100q, no duration", field, node.Value)
	}
	return d
}

// choice of one of some words.
func choice[T ~string](r *reader, node *yaml.Node, field string, known ...T) T {
	value := T(r.text(node, field))
	if !slices.Contains(known, value) {
		names := make([]string, len(known))
		for i, k := range known {
			names[i] = string(k)
		}
		hint := "write " + strings.Join(names, ", ")
		if near := spell.Nearest(string(value), names); near != "" {
			hint = "is " + near + " meant? " + hint
		}
		r.fail(node, hint, "%s is %.100q", field, string(value))
	}
	return value
}

var (
	identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	stateName  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	// reserved words of CEL are no parts of a path.
	reserved = []string{
		"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
		"namespace", "null", "package", "return", "true", "var", "void", "while",
	}
)

// name of something that guards read.
func (r *reader) name(node *yaml.Node, what string) string {
	switch {
	case !identifier.MatchString(node.Value):
		r.fail(node, "write small letters, digits and _, beginning with a letter", "%.100q is no name of %s", node.Value, what)
	case slices.Contains(reserved, node.Value):
		r.fail(node, "choose another name", "%.100q is no name of %s: it is a word of the expressions of guards", node.Value, what)
	}
	return node.Value
}

func (r *reader) readType(node *yaml.Node, field string) rule.Scalar {
	return choice(r, node, field, scalars...)
}
