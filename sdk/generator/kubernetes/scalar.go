package kubernetes

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	decimal  = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octal    = regexp.MustCompile(`^[-+]?0[0-7]+$`)
	hexa     = regexp.MustCompile(`^[-+]?0x[0-9a-fA-F]+$`)
	floating = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	// prefixed are numbers to readers that follow Go's syntax, and texts to others.
	prefixed = regexp.MustCompile(`^[-+]?0([bB][01]+|[oO][0-7]+|[xX][0-9a-fA-F]+)$`)
	// truth are truth values of YAML 1.1, and texts of 1.2.
	truth = regexp.MustCompile(`^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$`)
	// endless has no JSON.
	endless = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.?(nan|NaN|NAN))$`)
)

const mostDigits = 100

// scalar reads a scalar as kubectl does, whose reader follows YAML 1.1. What other
// readers, Kustomize's among them, read as something else is refused.
func scalar(node *yaml.Node, at string) (any, error) {
	if node.Style&yaml.TaggedStyle != 0 {
		return explicit(node, at)
	}
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return node.Value, nil
	}
	return plain(node, at)
}

// explicit reads a scalar that has a tag. Its text must be a value of the tag.
func explicit(node *yaml.Node, at string) (any, error) {
	switch node.Tag {
	case "!!str":
		return node.Value, nil
	case "!!int", "!!float", "!!bool", "!!null":
	default:
		return nil, tagged(node, at, "")
	}
	value, err := plain(node, at)
	if err != nil {
		return nil, err
	}
	fits := false
	switch value := value.(type) {
	case nil:
		fits = node.Tag == "!!null"
	case bool:
		fits = node.Tag == "!!bool"
	case number:
		whole := !floating.MatchString(node.Value) || decimal.MatchString(node.Value)
		fits = node.Tag == "!!float" || node.Tag == "!!int" && whole
		if exact, err := strconv.ParseFloat(string(value), 64); fits && node.Tag == "!!float" && err == nil {
			return shortest(exact)
		}
	}
	if !fits {
		return nil, &problem{node.Line, fmt.Sprintf("%shas the tag %s, and is no such value", subject(at), node.Tag), "write the value without the tag"}
	}
	return value, nil
}

// plain reads a scalar without quotes.
func plain(node *yaml.Node, at string) (any, error) {
	text := node.Value
	ambiguous := func(reason string) error {
		return &problem{node.Line, fmt.Sprintf("%sis %s", subject(at), reason), "quote a text; write truth values as true and false, and integers in decimal"}
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
	case truth.MatchString(text):
		return nil, ambiguous("yes, no, on or off, or y or n alone: a truth value to some readers of YAML, a text to others")
	case endless.MatchString(text):
		return nil, ambiguous("no finite number, and JSON has no other")
	case octal.MatchString(text), hexa.MatchString(text):
		// As kubectl reads them, of YAML 1.1: defaultMode: 0644.
		value, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, ambiguous("a number of more than 64 bits")
		}
		return number(strconv.FormatInt(value, 10)), nil
	case prefixed.MatchString(text), separated(text):
		return nil, ambiguous("a number to some readers of YAML, and a text to others")
	case decimal.MatchString(text):
		return integer(text, ambiguous)
	case floating.MatchString(text):
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, ambiguous("a number of more than 64 bits")
		}
		return shortest(value)
	}
	return text, nil
}

// separated reports whether a text is a number once its _ are left out, as YAML 1.1
// allows.
func separated(text string) bool {
	digits := strings.ReplaceAll(text, "_", "")
	if digits == text || !strings.ContainsAny(text[:1], "+-.0123456789") {
		return false
	}
	return decimal.MatchString(digits) || floating.MatchString(digits) || prefixed.MatchString(digits)
}

// shortest is the shortest text that is read as the same float.
func shortest(value float64) (any, error) {
	short, err := json.Marshal(value)
	if string(short) == "-0" {
		short = []byte("0")
	}
	return number(short), err
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
	if _, err := strconv.ParseInt(sign+digits, 10, 64); err != nil {
		return nil, ambiguous(fmt.Sprintf("an integer outside of %d to %d, which kubectl and Kubernetes round", math.MinInt64, math.MaxInt64))
	}
	return number(sign + digits), nil
}

// keyOf is the text of a key: the one that all readers give it.
func keyOf(key *yaml.Node, at string) (string, error) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", &problem{key.Line, fmt.Sprintf("%shas a key that is no text", subject(at)), "keys are texts"}
	}
	value, err := scalar(key, at)
	if p, ok := err.(*problem); ok {
		return "", &problem{p.line, fmt.Sprintf("%shas the key %.63q, which %s", subject(at), key.Value, strings.TrimPrefix(p.message, subject(at))), "quote the key"}
	}
	switch value := value.(type) {
	case string:
		return value, nil
	case number, bool:
		if name, _ := kubectlKey(key); name == key.Value {
			return name, nil
		}
		return "", &problem{key.Line, fmt.Sprintf("%shas the key %.63q, which is a number or a truth value that readers of YAML write in different ways", subject(at), key.Value), "quote the key"}
	}
	return "", &problem{key.Line, fmt.Sprintf("%shas a key that is no text", subject(at)), "quote it"}
}

// kubectlKey is the text that kubectl and Helm give a key, so that two keys with one
// text are one field to them. A key that is no scalar has none.
func kubectlKey(key *yaml.Node) (name string, ok bool) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", false
	}
	text := key.Value
	if key.Style != 0 {
		return text, true
	}
	switch text {
	case "", "~", "null", "Null", "NULL":
		return "null", true
	case "true", "True", "TRUE":
		return "true", true
	case "false", "False", "FALSE":
		return "false", true
	}
	if truth.MatchString(text) {
		return strconv.FormatBool(strings.ContainsAny(text[:1], "yY") || strings.EqualFold(text, "on")), true
	}
	if !strings.ContainsAny(text[:1], "+-.0123456789") {
		return text, true
	}
	bare := strings.ReplaceAll(text, "_", "")
	if whole, err := strconv.ParseInt(bare, 0, 64); err == nil {
		return strconv.FormatInt(whole, 10), true
	}
	if floating.MatchString(bare) {
		if value, err := strconv.ParseFloat(bare, 64); err == nil {
			// 32 bits, as in sigs.k8s.io/yaml.
			return strconv.FormatFloat(value, 'g', -1, 32), true
		}
	}
	return text, true
}
