package workflow

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/rule"
)

// Value of an input or an output. Its text is canonical, so that equal values are equal.
type Value struct {
	Type rule.Scalar `json:"type"`
	Text string      `json:"text"`
}

// maxValue bounds the text of a value, in bytes: guards compare them, and runs keep them.
const maxValue = 4096

var scalars = []rule.Scalar{rule.ScalarString, rule.ScalarInt, rule.ScalarNumber, rule.ScalarBool, rule.ScalarTime}

// ParseValue reads the text of a value.
func ParseValue(scalar rule.Scalar, text string) (Value, error) {
	if len(text) > maxValue {
		return Value{}, fault.New(fault.Invalid, "a value has %d bytes, at most %d are kept", len(text), maxValue).WithHint("keep it elsewhere, and give its name")
	}
	canonical, err := text, error(nil)
	switch scalar {
	case rule.ScalarString:
	case rule.ScalarInt:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		canonical = strconv.FormatInt(n, 10)
	case rule.ScalarNumber:
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		canonical = strconv.FormatFloat(n, 'g', -1, 64)
	case rule.ScalarBool:
		if text != "true" && text != "false" {
			err = fault.New(fault.Invalid, "it is neither true nor false")
		}
	case rule.ScalarTime:
		var t time.Time
		t, err = time.Parse(time.RFC3339, text)
		canonical = t.UTC().Format(time.RFC3339Nano)
	default:
		return Value{}, fault.New(fault.Invalid, "%q is not a type", scalar).WithHint("write %s", typeNames)
	}
	if err != nil {
		return Value{}, fault.New(fault.Invalid, "%.100q is not a %s", text, typeWords[scalar]).WithHint("%s", typeHints[scalar])
	}
	return Value{scalar, canonical}, nil
}

// typeNames are the types of inputs and outputs, as people read them.
const typeNames = "string, int, number, bool or time"

var typeWords = map[rule.Scalar]string{
	rule.ScalarInt: "whole number", rule.ScalarNumber: "number", rule.ScalarBool: "bool", rule.ScalarTime: "time",
}

var typeHints = map[rule.Scalar]string{
	rule.ScalarInt: "write digits, such as 3", rule.ScalarNumber: "write a number, such as 0.5",
	rule.ScalarBool: "write true or false", rule.ScalarTime: "write it as 2026-11-28T14:00:00Z",
}

// native is a value as guards compare it.
func (v Value) native() any {
	switch v.Type {
	case rule.ScalarInt:
		n, _ := strconv.ParseInt(v.Text, 10, 64)
		return n
	case rule.ScalarNumber:
		n, _ := strconv.ParseFloat(v.Text, 64)
		return n
	case rule.ScalarBool:
		return v.Text == "true"
	case rule.ScalarTime:
		t, _ := time.Parse(time.RFC3339Nano, v.Text)
		return t
	}
	return v.Text
}

// placeholder of a value within a text of an action.
var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// placeholders of a text: the names in it.
func placeholders(text string) []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.TrimSpace(found[1]))
	}
	return names
}

// fill puts values in for placeholders. What is not known is returned by its name.
func fill(text string, values map[string]Value) (filled, missing string) {
	filled = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimSpace(found[2 : len(found)-1])
		value, ok := values[name]
		if !ok {
			missing = name
		}
		return value.Text
	})
	return filled, missing
}
