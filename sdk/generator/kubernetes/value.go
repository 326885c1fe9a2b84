package kubernetes

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// problem is what is wrong with a value.
type problem struct {
	line          int
	message, hint string
}

func (p *problem) Error() string { return p.message }

// number is a number's canonical text.
type number string

// converter makes values of nodes: map[string]any, []any, string, number, bool
// and nil, as kubectl reads them. What readers of YAML differ about is refused.
// left bounds values of a manifest, those of aliases each time.
type converter struct{ budget int }

// document converts a whole document.
func (c *converter) document(node *yaml.Node) (any, error) { return c.value(node, "", 0) }

func (c *converter) value(node *yaml.Node, at string, depth int) (any, error) {
	if c.budget--; c.budget < 0 {
		return nil, &problem{node.Line, fmt.Sprintf("the file holds more than %d values, aliases counted each time", maxValues), "split it, and write out what aliases repeat"}
	}
	if depth > maxDepth {
		return nil, tooDeep(node, at)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return c.value(node.Alias, at, depth+1)
	case yaml.MappingNode:
		return c.mapping(node, at, depth)
	case yaml.SequenceNode:
		if err := tagged(node, at, "!!seq"); err != nil {
			return nil, err
		}
		list := make([]any, len(node.Content))
		for i, element := range node.Content {
			var err error
			if list[i], err = c.value(element, fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return scalar(node, at)
}

func tooDeep(node *yaml.Node, at string) error {
	if len(at) > 60 {
		at = at[:60] + "…"
	}
	return &problem{node.Line, fmt.Sprintf("values lie within more than %d others%s", maxDepth, location(at)), "is it a manifest? An anchor may hold an alias of itself"}
}

func location(at string) string {
	if at == "" {
		return ""
	}
	return " in " + at
}

func tagged(node *yaml.Node, at, tag string) error {
	if node.Style&yaml.TaggedStyle != 0 && node.Tag != tag {
		return &problem{node.Line, fmt.Sprintf("%shas the tag %s, which Kubernetes does not know", subject(at), node.Tag), "write the value without it; binary data as text in base64"}
	}
	return nil
}

func subject(at string) string {
	if at == "" {
		return "the document "
	}
	return at + " "
}

func (c *converter) mapping(node *yaml.Node, at string, depth int) (any, error) {
	if err := tagged(node, at, "!!map"); err != nil {
		return nil, err
	}
	fields, lines, merged := map[string]any{}, map[string]int{}, 0
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if isMerge(key) {
			if merged > 0 {
				return nil, &problem{key.Line, fmt.Sprintf("%shas << twice: it was at line %d before", subject(at), merged), "write one: <<: [*FIRST, *SECOND], of which the first counts"}
			}
			merged = key.Line
			if err := c.merge(fields, value, at, depth); err != nil {
				return nil, err
			}
			continue
		}
		name, err := keyOf(key, at)
		if err != nil {
			return nil, err
		}
		if first, duplicate := lines[name]; duplicate {
			return nil, &problem{key.Line, fmt.Sprintf("%s is there twice: it was at line %d before", join(at, name), first), twiceHint}
		}
		lines[name] = key.Line
		if fields[name], err = c.value(value, join(at, name), depth+1); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// isMerge reports whether a key is <<, which adds the fields of another mapping.
func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style == 0 && key.Tag == "!!merge"
}

// merge adds what << names. Fields that follow replace what it adds. One that it has
// and that was written before is refused: kubectl takes the merged value, and
// Kustomize the written one.
func (c *converter) merge(fields map[string]any, node *yaml.Node, at string, depth int) error {
	value, err := c.value(node, at, depth+1)
	if err != nil {
		return err
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	added := map[string]any{}
	for _, element := range list {
		more, ok := element.(map[string]any)
		if !ok {
			return &problem{node.Line, fmt.Sprintf("%smerges what has no fields", subject(at)), "write <<: *ANCHOR of a mapping"}
		}
		for name, value := range more {
			if _, earlier := added[name]; !earlier {
				added[name] = value
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if _, ok := fields[name]; ok {
			return &problem{node.Line, fmt.Sprintf("%s is written before << adds it: readers differ in which one counts", join(at, name)), "write << before the mapping's own fields, which then count"}
		}
		fields[name] = added[name]
	}
	return nil
}

// join is the path of a field. A key that is no word is quoted, and cut.
func join(at, name string) string {
	if !word.MatchString(name) {
		return fmt.Sprintf("%s[%.63q]", at, name)
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

var word = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// canonical is a value's canonical JSON.
func canonical(buffer *bytes.Buffer, value any) {
	switch value := value.(type) {
	case nil:
		buffer.WriteString("null")
	case bool:
		buffer.WriteString(strconv.FormatBool(value))
	case number:
		buffer.WriteString(string(value))
	case string:
		writeText(buffer, value)
	case []any:
		for i, element := range value {
			buffer.WriteByte("[,"[min(i, 1)])
			canonical(buffer, element)
		}
		if len(value) == 0 {
			buffer.WriteByte('[')
		}
		buffer.WriteByte(']')
	case map[string]any:
		for i, key := range slices.Sorted(maps.Keys(value)) {
			buffer.WriteByte("{,"[min(i, 1)])
			writeText(buffer, key)
			buffer.WriteByte(':')
			canonical(buffer, value[key])
		}
		if len(value) == 0 {
			buffer.WriteByte('{')
		}
		buffer.WriteByte('}')
	}
}

// writeText escapes what RFC 8785 does, and nothing else.
func writeText(buffer *bytes.Buffer, text string) {
	const short = "\b\t\n\f\r\"\\"
	buffer.WriteByte('"')
	for _, c := range []byte(text) {
		if i := strings.IndexByte(short, c); i >= 0 {
			buffer.WriteByte('\\')
			buffer.WriteByte(`btnfr"\`[i])
		} else if c < 0x20 {
			fmt.Fprintf(buffer, `\u%04x`, c)
		} else {
			buffer.WriteByte(c)
		}
	}
	buffer.WriteByte('"')
}
