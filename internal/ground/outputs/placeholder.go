package outputs

import (
	"encoding/json"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Begin of the form in which intent asks for an output, ${output:ASSET#NAME}; $${output: is
// the text itself.
const (
	Begin   = "${output:"
	end     = "}"
	escaped = "$" + Begin
)

// Use is one output that a text asks for.
type Use struct {
	ID
	// Known: its value was filled in.
	Known bool
}

// Fill replaces the placeholders of a text by values. What is not known stays as it is.
// Text that is a JSON object or list is filled in as JSON: a string that is a placeholder
// and nothing else becomes the value, of whatever kind. Elsewhere lists and objects are
// refused, for a text has no form for them.
func Fill(text string, values Values) (filled string, uses []Use, err error) {
	if !strings.Contains(text, Begin) {
		return text, nil, nil
	}
	if isJSON(text) {
		return fillJSON(text, values)
	}
	return fillText(text, values, func(s string) string { return s })
}

func isJSON(text string) bool {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	return (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(text))
}

// Whole is the output that a text asks for and holds nothing else.
func Whole(text string) (o ID, ok bool) {
	inner, begins := strings.CutPrefix(text, Begin)
	inner, ends := strings.CutSuffix(inner, end)
	if !begins || !ends || strings.Contains(inner, end) {
		return ID{}, false
	}
	o, err := ParseID(inner)
	return o, err == nil
}

// fillText replaces within a text; quote makes a value fit to stand there.
func fillText(text string, values Values, quote func(string) string) (string, []Use, error) {
	var filled strings.Builder
	var uses []Use
	for {
		before, rest, ok := strings.Cut(text, Begin)
		if !ok {
			filled.WriteString(text)
			return filled.String(), uses, nil
		}
		if strings.HasSuffix(before, "$") {
			filled.WriteString(before[:len(before)-1] + Begin)
			text = rest
			continue
		}
		filled.WriteString(before)
		name, after, closed := strings.Cut(rest, end)
		if !closed {
			return "", nil, fault.New(fault.Invalid, "%.100q has no }", Begin+rest).WithHint("write ${output:ASSET#NAME}; for the text itself write $$ in place of $")
		}
		o, err := ParseID(name)
		if err != nil {
			return "", nil, fault.New(fault.Invalid, "%.300q names no output: %s", Begin+name+end, err).WithHint("write ${output:ASSET#NAME}; for the text itself write $$ in place of $")
		}
		value, known := values[o]
		uses = append(uses, Use{o, known})
		if !known {
			filled.WriteString(Begin + name + end)
		} else {
			text, err := textOf(o, value)
			if err != nil {
				return "", nil, err
			}
			filled.WriteString(quote(text))
		}
		text = after
	}
}

// textOf is a value within a text.
func textOf(o ID, value json.RawMessage) (string, error) {
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '{', '[':
		return "", fault.New(fault.Invalid, "the output %s is a list or an object, which cannot stand within a text", o).
			WithHint("let the field hold ${output:%s} and nothing else, where it takes such a value", o)
	}
	return string(value), nil
}

// fillJSON replaces within the strings of a JSON text and leaves all other bytes alone.
func fillJSON(text string, values Values) (string, []Use, error) {
	var filled strings.Builder
	var uses []Use
	for {
		open := strings.IndexByte(text, '"')
		if open < 0 {
			filled.WriteString(text)
			return filled.String(), uses, nil
		}
		length := lengthOfString(text[open:])
		literal, after := text[open:open+length], text[open+length:]
		filled.WriteString(text[:open])
		text = after
		if !strings.Contains(literal, Begin) {
			filled.WriteString(literal)
			continue
		}
		if strings.HasPrefix(strings.TrimLeft(after, " \t\r\n"), ":") {
			return "", nil, fault.New(fault.Invalid, "the key %.300s asks for an output", literal).WithHint("ask for outputs in values; for the text itself write $$ in place of $")
		}
		if o, whole := Whole(literal[1 : len(literal)-1]); whole {
			value, ok := values[o]
			uses = append(uses, Use{o, ok})
			if ok {
				filled.Write(value)
			} else {
				filled.WriteString(literal)
			}
			continue
		}
		inner, used, err := fillText(literal[1:len(literal)-1], values, withinString)
		if err != nil {
			return "", nil, err
		}
		uses = append(uses, used...)
		filled.WriteString(`"` + inner + `"`)
	}
}

// lengthOfString is how many bytes the string has with which a valid JSON text begins.
func lengthOfString(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// withinString writes a text as it stands within a JSON string, with only the escapes
// that JSON needs.
func withinString(text string) string {
	var buffer strings.Builder
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // It is a text.
		return ""
	}
	return strings.TrimSuffix(buffer.String()[1:], "\"\n")
}

// Merge lists each output once, in order: known where all that ask for it have it.
func Merge(uses []Use) []Use {
	slices.SortFunc(uses, func(a, b Use) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(uses, func(a, b Use) bool { return a.ID == b.ID })
}
