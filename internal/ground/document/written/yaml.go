package written

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
)

// maxNodes bounds what a file unfolds to.
const maxNodes = 200_000

// parseYAML reads YAML with where each value is written.
func parseYAML(text []byte) (*node, error) {
	if !utf8.Valid(text) || bytes.HasPrefix(text, []byte("\ufeff")) {
		return nil, errors.New("it is not UTF-8 without a byte order mark")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var read yaml.Node
	switch err := decoder.Decode(&read); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	}
	if tagged, ok := document.UnknownTag(&read); ok {
		return nil, fmt.Errorf("line %d: the tag %s is not known", tagged.Line, strconv.Quote(tagged.Tag))
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	p := &yamlParser{text: text, lines: []int{0}, budget: maxNodes}
	for i, b := range text {
		if b == '\n' {
			p.lines = append(p.lines, i+1)
		}
	}
	if len(read.Content) != 1 {
		return nil, errors.New("it is empty")
	}
	return p.node(read.Content[0], -1, false, 0)
}

type yamlParser struct {
	text   []byte
	lines  []int
	budget int
}

// offset of a place that is told as a line and a column of characters.
func (p *yamlParser) offset(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(p.lines) {
		return 0, fmt.Errorf("line %d is not there", n.Line)
	}
	at := p.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(p.text) {
			return 0, fmt.Errorf("line %d has no column %d", n.Line, n.Column)
		}
		_, size := utf8.DecodeRune(p.text[at:])
		at += size
	}
	return at, nil
}

// node reads a value that is in something indented so far.
func (p *yamlParser) node(y *yaml.Node, parent int, flow bool, depth int) (*node, error) {
	if p.budget--; p.budget < 0 || depth > document.MaxDepth {
		return nil, errors.New("it unfolds to more than is read")
	}
	start, err := p.offset(y)
	if err != nil {
		return nil, err
	}
	n := &node{start: start, end: start, flow: flow}
	switch y.Kind {
	case yaml.AliasNode:
		n.kind, n.end = alias, start+1+len(y.Value)
		target, err := p.node(y.Alias, -1, false, depth+1)
		if err == nil {
			n.value = target.value
		}
		return n, err
	case yaml.MappingNode, yaml.SequenceNode:
		return n, p.collection(n, y, depth)
	}
	if n.value, err = scalarValue(y); err != nil {
		return nil, fmt.Errorf("line %d: %w", y.Line, err)
	}
	return n, p.extent(n, y, parent)
}

func (p *yamlParser) collection(n *node, y *yaml.Node, depth int) error {
	n.indent, n.flow = y.Column-1, y.Style&yaml.FlowStyle != 0
	if y.Kind == yaml.SequenceNode {
		n.kind = list
		values := []any{}
		for _, item := range y.Content {
			inner, err := p.node(item, n.indent, n.flow, depth+1)
			if err != nil {
				return err
			}
			if len(n.values) > 0 && inner.start < n.values[len(n.values)-1].end {
				return fmt.Errorf("line %d: where an element lies is not clear", item.Line)
			}
			n.values, values = append(n.values, inner), append(values, inner.value)
		}
		n.value = values
	} else if err := p.mapping(n, y, depth); err != nil {
		return err
	}
	if len(n.values) > 0 {
		n.end = max(n.values[len(n.values)-1].end, n.start)
	}
	if !n.flow {
		return nil
	}
	return p.close(n)
}

func (p *yamlParser) mapping(n *node, y *yaml.Node, depth int) error {
	n.kind = mapping
	values := map[string]any{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		if y.Content[i].Tag == "!!merge" {
			return fmt.Errorf("line %d: merge keys (<<) are not edited", y.Content[i].Line)
		}
		if y.Content[i].Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key is no text", y.Content[i].Line)
		}
		key, err := p.node(y.Content[i], n.indent, n.flow, depth+1)
		if err != nil {
			return err
		}
		name := y.Content[i].Value
		if _, duplicate := values[name]; duplicate {
			return fmt.Errorf("line %d: the key %q is there twice", y.Content[i].Line, name)
		}
		inner, err := p.node(y.Content[i+1], n.indent, n.flow, depth+1)
		if err != nil {
			return err
		}
		if err := p.ordered(n, key, inner, y.Content[i].Line); err != nil {
			return err
		}
		key.value, values[name] = name, inner.value
		n.keys, n.values = append(n.keys, key), append(n.values, inner)
	}
	n.value = values
	return nil
}

// ordered holds a key and its value to the order in which they are written, so
// that what is between them can be told; keys that begin with "?" are refused.
func (p *yamlParser) ordered(n, key, inner *node, line int) error {
	last := n.start
	if len(n.values) > 0 {
		last = n.values[len(n.values)-1].end
	}
	colon := key.end
	for colon < len(p.text) && (p.text[colon] == ' ' || p.text[colon] == '\t') {
		colon++
	}
	if !n.flow && (colon >= len(p.text) || p.text[colon] != ':') || key.start < last || key.start == key.end {
		return fmt.Errorf("line %d: a key is written in a way that is not edited", line)
	}
	if inner.start == inner.end {
		inner.start, inner.end = max(inner.start, key.end), max(inner.end, key.end)
	}
	if inner.start < key.end {
		return fmt.Errorf("line %d: where a value lies is not clear", line)
	}
	return nil
}

// close finds the bracket that ends a collection, behind its last element.
func (p *yamlParser) close(n *node) error {
	at := n.end
	if len(n.values) == 0 {
		for at < len(p.text) && p.text[at] != '{' && p.text[at] != '[' {
			at++ // A tag or an anchor is before it.
		}
		at++
	}
	for at < len(p.text) {
		switch p.text[at] {
		case ' ', '\t', '\r', '\n', ',', ':', '?':
		case '#':
			for at < len(p.text) && p.text[at] != '\n' {
				at++
			}
			continue
		case '}', ']':
			n.end = at + 1
			return nil
		default:
			return fmt.Errorf("the end of what begins at byte %d is not found", n.start)
		}
		at++
	}
	return fmt.Errorf("the end of what begins at byte %d is not found", n.start)
}

var decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)

// scalarValue is what a scalar means in JSON.
func scalarValue(y *yaml.Node) (any, error) {
	switch y.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(y.Value, "true"), nil
	case "!!float":
		if !decimal.MatchString(y.Value) {
			f, err := strconv.ParseFloat(y.Value, 64)
			if short, shortErr := json.Marshal(f); err == nil && shortErr == nil {
				return document.Number(string(short))
			}
			return nil, fmt.Errorf("%.100q is no finite number", y.Value)
		}
		fallthrough // An integer too large for the parser.
	case "!!int":
		if n, ok := new(big.Int).SetString(strings.TrimPrefix(y.Value, "+"), 0); ok && len(y.Value) < 1000 {
			return json.Number(n.String()), nil
		}
		return nil, fmt.Errorf("%.100q is no whole number", y.Value)
	case "!!str", "!!timestamp":
		return y.Value, nil
	}
	return nil, fmt.Errorf("the tag %s is not known", strconv.Quote(y.Tag))
}

// extent finds where a scalar ends.
func (p *yamlParser) extent(n *node, y *yaml.Node, parent int) error {
	rest := p.text[n.start:]
	switch {
	case y.Anchor != "" || y.Style&yaml.TaggedStyle != 0:
		// Its content is found behind them.
		for n.start < len(p.text) && (p.text[n.start] == '&' || p.text[n.start] == '!') {
			for n.start < len(p.text) && strings.IndexByte(" \t\r\n", p.text[n.start]) < 0 {
				n.start++
			}
			for n.start < len(p.text) && strings.IndexByte(" \t", p.text[n.start]) >= 0 {
				n.start++
			}
		}
		rest = p.text[n.start:]
		n.end = n.start
	case len(rest) == 0:
		return nil
	}
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		n.quote = '"'
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\\' {
				i++
			} else if rest[i] == '"' {
				n.end = n.start + i + 1
				return nil
			}
		}
	case y.Style&yaml.SingleQuotedStyle != 0:
		n.quote = '\''
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\'' && i+1 < len(rest) && rest[i+1] == '\'' {
				i++
			} else if rest[i] == '\'' {
				n.end = n.start + i + 1
				return nil
			}
		}
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		n.quote = '|'
		n.end = n.start + blockEnd(rest, parent)
		return nil
	case y.Value == "":
		return nil // Nothing is written for null.
	default:
		return p.plain(n, y)
	}
	return fmt.Errorf("line %d: the end of a text is not found", y.Line)
}

// plain is a scalar without quotes; it may go on for several lines.
func (p *yamlParser) plain(n *node, y *yaml.Node) error {
	rest := p.text[n.start:]
	if bytes.HasPrefix(rest, []byte(y.Value)) {
		n.end = n.start + len(y.Value)
		return nil
	}
	// Lines are folded to one space each, and empty ones to newlines: the words
	// are in the order in which they are written.
	at := 0
	for _, word := range strings.Fields(y.Value) {
		for at < len(rest) && strings.IndexByte(" \t\r\n", rest[at]) >= 0 {
			at++
		}
		if !bytes.HasPrefix(rest[at:], []byte(word)) {
			return fmt.Errorf("line %d: the end of a text is not found", y.Line)
		}
		at += len(word)
	}
	n.end = n.start + at
	return nil
}

// blockEnd is the length of a literal or folded text, whose lines are indented
// further than what it is in; without the last newline, and empty lines behind.
func blockEnd(rest []byte, parent int) int {
	end := bytes.IndexByte(rest, '\n')
	if end < 0 {
		return len(rest)
	}
	last := end
	for at := end + 1; at < len(rest); {
		next := bytes.IndexByte(rest[at:], '\n')
		line := rest[at:]
		if next >= 0 {
			line = rest[at : at+next]
		}
		blank := len(bytes.TrimSpace(line)) == 0
		if !blank && len(line)-len(bytes.TrimLeft(line, " ")) <= parent {
			break
		}
		if at += len(line); !blank {
			last = at
		}
		at++
	}
	if last > 0 && rest[last-1] == '\r' {
		last--
	}
	return last
}
