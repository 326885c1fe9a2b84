package kubernetes

import (
	"bytes"
	"encoding/json"
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
type converter struct{ left int }

// document converts a whole document.
func (c *converter) document(node *yaml.Node) (any, error) { return c.value(node, "", 0) }

func (c *converter) value(node *yaml.Node, at string, depth int) (any, error) {
	if c.left--; c.left < 0 {
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
	return &problem{node.Line, fmt.Sprintf("values lie within more than %d others%s", maxDepth, in(at)), "is it a manifest? An anchor may hold an alias of itself"}
}

func in(at string) string {
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
	fields := map[string]any{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style == 0 && key.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		name, err := keyOf(key, at)
		if err != nil {
			return nil, err
		}
		if _, twice := fields[name]; twice {
			return nil, &problem{key.Line, fmt.Sprintf("%s is there twice", join(at, name)), "remove one of them: readers differ in which one counts"}
		}
		if fields[name], err = c.value(value, join(at, name), depth+1); err != nil {
			return nil, err
		}
	}
	for _, merge := range merges {
		if err := c.merge(fields, merge, at, depth); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// merge adds what << names, where it is not there yet.
func (c *converter) merge(fields map[string]any, node *yaml.Node, at string, depth int) error {
	value, err := c.value(node, at, depth+1)
	if err != nil {
		return err
	}
	list, is := value.([]any)
	if !is {
		list = []any{value}
	}
	for _, element := range list {
		more, is := element.(map[string]any)
		if !is {
			return &problem{node.Line, fmt.Sprintf("%smerges what has no fields", subject(at)), "write <<: *ANCHOR of a mapping"}
		}
		for name, value := range more {
			if _, own := fields[name]; !own {
				fields[name] = value
			}
		}
	}
	return nil
}

func keyOf(key *yaml.Node, at string) (string, error) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", &problem{key.Line, fmt.Sprintf("%shas a key that is no text", subject(at)), "keys are texts"}
	}
	value, err := scalar(key, at)
	if err != nil {
		return "", err
	}
	switch value := value.(type) {
	case string:
		return value, nil
	case number:
		return string(value), nil
	case bool:
		return strconv.FormatBool(value), nil
	}
	return "", &problem{key.Line, fmt.Sprintf("%shas a key that is no text", subject(at)), "quote it"}
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

var (
	word     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	decimal  = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octal    = regexp.MustCompile(`^[-+]?0[0-7]+$`)
	hexa     = regexp.MustCompile(`^[-+]?0x[0-9a-fA-F]+$`)
	floating = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	// differs is read as a number by some readers of YAML, and as text by others.
	differs = regexp.MustCompile(`^[-+]?(0[ob][0-9_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?)$`)
	// old are truth values of YAML 1.1, and texts of 1.2.
	old = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$`)
	// endless has no JSON.
	endless = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.?(nan|NaN|NAN))$`)
)

const mostDigits = 100

func scalar(node *yaml.Node, at string) (any, error) {
	text := node.Value
	if node.Style&yaml.TaggedStyle != 0 {
		switch node.Tag {
		case "!!str":
			return text, nil
		case "!!int", "!!float", "!!bool", "!!null":
		default:
			return nil, tagged(node, at, "")
		}
	} else if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return text, nil
	}
	ambiguous := func(how string) error {
		return &problem{node.Line, fmt.Sprintf("%sis %s", subject(at), how), "quote a text; write truth values as true and false, and integers in decimal"}
	}
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil, nil
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	switch {
	case old.MatchString(text):
		return nil, ambiguous("yes, no, on or off: a truth value to some readers of YAML, a text to others")
	case endless.MatchString(text):
		return nil, ambiguous("no finite number, and JSON has no other")
	case octal.MatchString(text), hexa.MatchString(text):
		// As kubectl reads them, of YAML 1.1: defaultMode: 0644.
		value, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, ambiguous("a number of more than 64 bits")
		}
		return number(strconv.FormatInt(value, 10)), nil
	case differs.MatchString(text):
		return nil, ambiguous("a number to some readers of YAML, and a text to others")
	case decimal.MatchString(text):
		return integer(text, ambiguous)
	case floating.MatchString(text):
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, ambiguous("a number of more than 64 bits")
		}
		short, err := json.Marshal(value)
		if string(short) == "-0" {
			short = []byte("0")
		}
		return number(short), err
	}
	return text, nil
}

func integer(text string, ambiguous func(string) error) (any, error) {
	sign := ""
	if text[0] == '-' {
		sign = "-"
	}
	digits := strings.TrimLeft(text, "-+")
	switch {
	case len(digits) > 1 && digits[0] == '0':
		return nil, ambiguous("a number to some readers of YAML, and a text to others")
	case len(digits) > mostDigits:
		return nil, ambiguous(fmt.Sprintf("a number of more than %d digits", mostDigits))
	case digits == "0":
		sign = ""
	}
	return number(sign + digits), nil
}

// canonical is a value's canonical JSON.
func canonical(to *bytes.Buffer, value any) {
	switch value := value.(type) {
	case nil:
		to.WriteString("null")
	case bool:
		to.WriteString(strconv.FormatBool(value))
	case number:
		to.WriteString(string(value))
	case string:
		writeText(to, value)
	case []any:
		for i, element := range value {
			to.WriteByte("[,"[min(i, 1)])
			canonical(to, element)
		}
		if len(value) == 0 {
			to.WriteByte('[')
		}
		to.WriteByte(']')
	case map[string]any:
		for i, key := range slices.Sorted(maps.Keys(value)) {
			to.WriteByte("{,"[min(i, 1)])
			writeText(to, key)
			to.WriteByte(':')
			canonical(to, value[key])
		}
		if len(value) == 0 {
			to.WriteByte('{')
		}
		to.WriteByte('}')
	}
}

// writeText escapes what RFC 8785 does, and nothing else.
func writeText(to *bytes.Buffer, text string) {
	const short = "\b\t\n\f\r\"\\"
	to.WriteByte('"')
	for _, c := range []byte(text) {
		if i := strings.IndexByte(short, c); i >= 0 {
			to.WriteByte('\\')
			to.WriteByte(`btnfr"\`[i])
		} else if c < 0x20 {
			fmt.Fprintf(to, `\u%04x`, c)
		} else {
			to.WriteByte(c)
		}
	}
	to.WriteByte('"')
}
