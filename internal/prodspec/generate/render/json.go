package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/prodspec/generate/manifest"
)

// jsonProblem is what is wrong with a value, and where.
type jsonProblem struct {
	node          *yaml.Node
	message, hint string
}

// jsonWriter writes a node of YAML or JSON as canonical JSON: keys sorted, no spaces,
// numbers with all their digits. It refuses what readers of YAML differ about.
type jsonWriter struct {
	buffer bytes.Buffer
	values int
}

// canonicalJSON returns the text of a node; problem is nil, or what is wrong.
func canonicalJSON(node *yaml.Node) (text string, problem *jsonProblem) {
	w := &jsonWriter{}
	problem = w.value(node, "", 0)
	return w.buffer.String(), problem
}

const maxJSONDepth = 200

func (w *jsonWriter) value(node *yaml.Node, at string, depth int) *jsonProblem {
	node = resolve(node)
	if w.values++; w.values > manifest.MaxNodes || depth > maxJSONDepth {
		return &jsonProblem{node, fmt.Sprintf("it holds more than %d values, or values within more than %d others", manifest.MaxNodes, maxJSONDepth), "split it, and write out what aliases repeat"}
	}
	switch node.Kind {
	case yaml.MappingNode:
		return w.mapping(node, at, depth)
	case yaml.SequenceNode:
		w.buffer.WriteByte('[')
		for i, element := range node.Content {
			if i > 0 {
				w.buffer.WriteByte(',')
			}
			if problem := w.value(element, manifest.Index(at, i), depth+1); problem != nil {
				return problem
			}
		}
		w.buffer.WriteByte(']')
		return nil
	}
	return w.scalar(node, at)
}

func (w *jsonWriter) mapping(node *yaml.Node, at string, depth int) *jsonProblem {
	type field struct {
		name  string
		value *yaml.Node
	}
	var fields []field
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Style == 0 && key.Tag != "!!str" && key.Tag != "!!int" {
			return &jsonProblem{key, fmt.Sprintf("the key %q below %q is no text", key.Value, at), "quote a key that is meant as a text, and write out what << would merge"}
		}
		fields = append(fields, field{key.Value, node.Content[i+1]})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	w.buffer.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			if f.name == fields[i-1].name {
				return &jsonProblem{f.value, fmt.Sprintf("%s is there twice", manifest.Join(at, f.name)), "remove one"}
			}
			w.buffer.WriteByte(',')
		}
		w.text(f.name)
		w.buffer.WriteByte(':')
		if problem := w.value(f.value, manifest.Join(at, f.name), depth+1); problem != nil {
			return problem
		}
	}
	w.buffer.WriteByte('}')
	return nil
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	// jsonTruth are truth values to readers of YAML 1.1, and texts to others.
	jsonTruth = regexp.MustCompile(`^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$`)
)

func (w *jsonWriter) scalar(node *yaml.Node, at string) *jsonProblem {
	isPlain := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	switch {
	case node.Tag == "!!null":
		w.buffer.WriteString("null")
	case node.Tag == "!!bool":
		w.buffer.WriteString(strings.ToLower(node.Value))
	case node.Tag == "!!int" || node.Tag == "!!float":
		if !jsonNumber.MatchString(node.Value) {
			return &jsonProblem{node, fmt.Sprintf("%s is %s, which JSON does not have", at, node.Value), "write the number in decimal, or quote it if a text is meant"}
		}
		w.buffer.WriteString(node.Value)
	case isPlain && jsonTruth.MatchString(node.Value):
		return &jsonProblem{node, fmt.Sprintf("%s is %s, a text to some readers and true or false to others", at, node.Value), "write true or false, or quote it if a text is meant"}
	default:
		w.text(node.Value)
	}
	return nil
}

// text escapes what JSON needs, and leaves <, > and & as they are.
func (w *jsonWriter) text(text string) {
	encoder := json.NewEncoder(&w.buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // A text in memory is always written.
	w.buffer.Truncate(w.buffer.Len() - 1)
}
