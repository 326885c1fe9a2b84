package definition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// parser reads YAML nodes and gathers findings, all of them in one go.
type parser struct {
	file  string
	types Types
	// isCommon: the file is a common policy, and no definition.
	isCommon bool
	// selected is what selectors of environments found.
	selected Selected
	findings []intent.Finding
}

// findingRef lets a hint be added to a finding.
type findingRef struct{ finding *intent.Finding }

func (f findingRef) hint(format string, arguments ...any) {
	f.finding.Hint = fmt.Sprintf(format, arguments...)
}

func (p *parser) at(node *yaml.Node, field, format string, arguments ...any) findingRef {
	p.findings = append(p.findings, intent.Finding{
		Rule: "definition", Severity: intent.Error, Message: fmt.Sprintf(format, arguments...),
		File: p.file, Line: node.Line, Column: node.Column, Field: field,
	})
	return findingRef{&p.findings[len(p.findings)-1]}
}

// check turns an error of a value into a finding.
func (p *parser) check(node *yaml.Node, field string, err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		p.at(node, field, "%s", e.Message).hint("%s", e.Hint)
		return
	}
	p.at(node, field, "%s", err)
}

// Limits of a definition, which the server reads itself. Looking for duplicate
// keys takes time in the square of their number.
const (
	MaxBytes = 256 << 10
	maxNodes = 20_000
	// maxFindings are told at once.
	maxFindings = 50
)

// count the nodes of a tree, each once.
func count(node *yaml.Node) int {
	n := 1
	for _, element := range node.Content {
		n += count(element)
	}
	return n
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s+)?line (\d+): `)

// document returns the one mapping of the file, or nil with a finding.
func (p *parser) document(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	if len(data) > MaxBytes {
		p.at(&yaml.Node{Line: 1, Column: 1}, "", "the file has %d bytes, at most %d are read", len(data), MaxBytes).hint("define several partitions, and keep data in sources")
		return nil
	}
	err := decoder.Decode(&document)
	if err == nil && count(&document) > maxNodes {
		p.at(&yaml.Node{Line: 1, Column: 1}, "", "the file holds more than %d keys and values", maxNodes).hint("define several partitions, and keep data in sources")
		return nil
	}
	if err == nil {
		// Decoding into a value refuses duplicate keys and excessive aliases,
		// which nodes alone do not.
		var value map[string]any
		err = document.Decode(&value)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.syntax(err)
		return nil
	}
	if tagged, ok := unknownTag(&document); ok {
		p.at(tagged, "", "the tag %.100s is not known", tagged.Tag).hint("write the value that is meant: nothing here does what a tag asks for")
		return nil
	}
	noMapping := len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode
	if noMapping && p.isCommon {
		p.at(&yaml.Node{Line: 1, Column: 1}, "", "the file holds no common policy").hint("start it with lehr: v1 and rules:; docs/operate/policy.md shows one")
		return nil
	}
	if noMapping {
		p.at(&yaml.Node{Line: 1, Column: 1}, "", "the file does not define a partition").hint("start it with lehr: v1 and partition: <name>; lehr init writes one")
		return nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		p.at(&yaml.Node{Line: max(more.Line, 1), Column: 1}, "", "the file holds more than one document").hint("define one partition per file")
		return nil
	}
	return document.Content[0]
}

func (p *parser) syntax(err error) {
	message, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = strings.TrimPrefix(message, m[0])
	}
	p.at(&yaml.Node{Line: line, Column: 1}, "", "not valid YAML: %s", strings.TrimPrefix(message, "yaml: ")).hint("%s", yamlHint(message))
}

// yamlHint: the reader of YAML names the line at which it gave up, or the one
// that the text around it began at.
func yamlHint(message string) string {
	if strings.Contains(message, "cannot start any token") || strings.Contains(message, "tab character") {
		return "mend the line: indent with spaces, not tabs, and quote a text that begins with @, ` or %"
	}
	return "mend the line, or the next ones: within {…} and […], a text with any of [ ] { } , needs quotes around it"
}

// unknownTag finds a tag that nobody here knows.
func unknownTag(node *yaml.Node) (*yaml.Node, bool) { return document.UnknownTag(node) }

// fields returns the values of a mapping by key, refusing unknown keys.
func (p *parser) fields(node *yaml.Node, path string, allowed []string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	p.eachPair(node, path, func(key, value *yaml.Node) {
		if slices.Contains(allowed, key.Value) {
			values[key.Value] = value
			return
		}
		p.unknown(key, path, allowed)
	})
	return values
}

func (p *parser) unknown(key *yaml.Node, path string, allowed []string) {
	field := join(path, key.Value)
	suggestion := spell.Nearest(key.Value, allowed)
	if suggestion != "" {
		p.at(key, field, "unknown field %s", field).hint("did you mean %s? allowed: %s", suggestion, strings.Join(allowed, ", "))
		return
	}
	p.at(key, field, "unknown field %s", field).hint("allowed: %s", strings.Join(allowed, ", "))
}

// eachPair calls f for every pair of a mapping, in the order of the file. A nil
// node has none.
func (p *parser) eachPair(node *yaml.Node, path string, f func(key, value *yaml.Node)) {
	if node == nil {
		return
	}
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		p.at(node, path, "%s must be a mapping, is %s", path, describe(node)).hint("write %s: {key: value}", path)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		f(node.Content[i], resolve(node.Content[i+1]))
	}
}

func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// text returns a scalar. Numbers and truth values are refused where a name
// belongs, since YAML may have changed them.
func (p *parser) text(node *yaml.Node, path string) string {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" || node.Value == "" {
		p.at(node, path, "%s must be a text, is %s", path, describe(node)).hint("put it in quotes if it is meant as text")
		return ""
	}
	return node.Value
}

// texts returns a list of scalars, or one.
func (p *parser) texts(node *yaml.Node, path string) []string {
	if node.Kind == yaml.ScalarNode {
		return []string{p.text(node, path)}
	}
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		p.at(node, path, "%s must be a list that is not empty, is %s", path, describe(node)).hint("write %s: [a, b]", path)
		return nil
	}
	var list []string
	for i, element := range node.Content {
		list = append(list, p.text(resolve(element), fmt.Sprintf("%s[%d]", path, i)))
	}
	return list
}

// item is the node of a list's element, or the scalar that stands for it.
func item(node *yaml.Node, i int) *yaml.Node {
	if node.Kind == yaml.SequenceNode {
		return node.Content[i]
	}
	return node
}

// number returns a whole number from least.
func (p *parser) number(node *yaml.Node, path string, least uint64) uint32 {
	n, err := strconv.ParseUint(node.Value, 10, 31)
	if node.Kind != yaml.ScalarNode || err != nil || n < least {
		p.at(node, path, "%s must be a whole number from %d, is %s", path, least, describe(node)).hint("write %s: %d", path, max(least, 1))
		return 0
	}
	return uint32(n)
}

func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list of " + strconv.Itoa(len(node.Content))
	}
	if node.Value == "" {
		return "empty"
	}
	return strconv.Quote(node.Value)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
