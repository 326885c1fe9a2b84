package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// MaxNodes bounds what one document unfolds to, aliases followed.
const MaxNodes = 1_000_000

// ParseAll reads a file of one or more documents: of YAML, between lines of ---;
// of JSON, one after the other. Documents that are empty are left out, but one
// must not be.
func ParseAll(file string, text []byte) ([]*Document, error) {
	if extension := path.Ext(file); extension == ".json" || extension == ".jsonl" {
		return parseJSON(file, text)
	}
	whole := newDocument(file, nil)
	var list []*Document
	decoder := yaml.NewDecoder(bytes.NewReader(withNewline(text)))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			// Decoding into a value refuses duplicate keys and excessive aliases.
			var value any
			err = node.Decode(&value)
		}
		if err != nil {
			return nil, whole.syntax(text, err)
		}
		if err := whole.refuseTags(&node); err != nil {
			return nil, err
		}
		if len(node.Content) == 1 && node.Content[0].Tag != "!!null" {
			list = append(list, newDocument(file, node.Content[0]))
		}
	}
	if len(list) == 0 {
		return nil, whole.empty()
	}
	return list, nil
}

// parseJSON parts the values of a file, each of which is read as the YAML it is.
func parseJSON(file string, text []byte) ([]*Document, error) {
	var list []*Document
	decoder := json.NewDecoder(bytes.NewReader(text))
	lines, counted := 0, int64(0)
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		end := decoder.InputOffset()
		if err != nil {
			line := 1 + bytes.Count(text[:min(end, int64(len(text)))], []byte("\n"))
			return nil, newDocument(file, nil).syntax(text, fmt.Errorf("line %d: %w", line, err))
		}
		start := end - int64(len(value))
		lines += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		d, err := Parse(file, value)
		if e, ok := errors.AsType[*Error](err); ok {
			for i := range e.Findings {
				e.Findings[i].Line += lines
			}
		}
		if err != nil {
			return nil, err
		}
		column := int(start) - bytes.LastIndexByte(text[:start], '\n') - 1
		move(d.Root, lines, column)
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, newDocument(file, nil).empty()
	}
	return list, nil
}

// move nodes by lines, and those of the first line by columns.
func move(node *yaml.Node, lines, columns int) {
	if node.Line == 1 {
		node.Column += columns
	}
	node.Line += lines
	for _, child := range node.Content {
		move(child, lines, columns)
	}
}

// Part decodes a node of the document, whose path is given, into a message, as
// Decode does the whole.
func (d *Document) Part(node *yaml.Node, path string, message proto.Message, types schema.Types, validator protovalidate.Validator) error {
	budget := MaxNodes
	part := newDocument(d.File, unfolded(node, &budget))
	if budget < 0 {
		return d.Refuse(node, path, "the document unfolds to more than %d values", MaxNodes)
	}
	text, err := yaml.Marshal(part.Root)
	var again yaml.Node
	if err == nil {
		err = yaml.Unmarshal(text, &again)
	}
	part.places = map[position]position{}
	if err != nil || len(again.Content) != 1 || !part.follow(again.Content[0], part.Root) {
		return d.Refuse(node, path, "%s is written in a way that cannot be read: write it in JSON", path)
	}
	part.text, part.prefix = text, path
	return part.Decode(message, types, validator)
}

// unfolded is a copy with aliases followed and without comments.
func unfolded(node *yaml.Node, budget *int) *yaml.Node {
	if *budget--; *budget < 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	if node.Kind == yaml.AliasNode {
		return unfolded(node.Alias, budget)
	}
	result := &yaml.Node{Kind: node.Kind, Style: node.Style, Tag: node.Tag, Value: node.Value, Line: node.Line, Column: node.Column}
	for _, child := range node.Content {
		result.Content = append(result.Content, unfolded(child, budget))
	}
	return result
}

// follow notes where nodes are in the file, and reports whether they are the same.
func (d *Document) follow(copied, node *yaml.Node) bool {
	if copied.Kind != node.Kind || copied.Value != node.Value || copied.ShortTag() != node.ShortTag() || len(copied.Content) != len(node.Content) {
		return false
	}
	d.places[position{copied.Line, copied.Column}] = position{node.Line, node.Column}
	for i := range node.Content {
		if !d.follow(copied.Content[i], node.Content[i]) {
			return false
		}
	}
	return true
}

func newDocument(file string, root *yaml.Node) *Document {
	return &Document{File: file, Root: root, fields: map[position]field{}, nodes: map[string]*yaml.Node{}}
}

func (d *Document) empty() error {
	f := d.Finding(1, 1, "", "%s is empty", d.File)
	f.Hint = "restore its content; to take something away, remove it by name"
	return &Error{Findings: []intent.Finding{f}}
}

func (d *Document) syntax(text []byte, err error) error {
	if f, ok := d.notUTF8(text); ok {
		return &Error{Findings: []intent.Finding{f}}
	}
	message, line := err.Error(), 1
	if match := yamlError.FindStringSubmatch(message); match != nil {
		line, _ = strconv.Atoi(match[1])
		message = match[2]
	}
	f := d.Finding(line, 1, "", "not valid YAML: %s", strings.TrimPrefix(message, "yaml: "))
	f.Hint = "mend the line, or the one before it"
	if twice.MatchString(message) {
		f.Hint = "keep one of the two"
	}
	return &Error{Findings: []intent.Finding{f}}
}

// twice is what the library says of a key that is there already; it has no type for that.
var twice = regexp.MustCompile(`mapping key .* already defined`)

// notUTF8 finds the first byte that is none, unless the file says itself that it is UTF-16.
func (d *Document) notUTF8(text []byte) (f intent.Finding, ok bool) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return f, false
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			begin := bytes.LastIndexByte(text[:at], '\n') + 1
			f = d.Finding(1+bytes.Count(text[:at], []byte("\n")), 1+utf8.RuneCount(text[begin:at]), "", "the byte 0x%02x is no UTF-8", text[at])
			f.Hint = "save the file as UTF-8: iconv -f latin1 -t utf-8, for example"
			return f, true
		}
		at += size
	}
	return f, false
}

// Index is the path of an element of the list at a path.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
