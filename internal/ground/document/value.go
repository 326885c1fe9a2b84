package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lehr.dev/internal/ground/fault"
)

// Values are nil, bool, json.Number, string, []any and map[string]any.

// Parse reads JSON. What could be read in two ways is refused: keys that are
// there twice, text that is not UTF-8, numbers beyond those of a float64, and
// anything after the value.
func Parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, invalid("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := parse(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("there is something after the value")
	}
	return value, nil
}

func invalid(reason string) *fault.Error {
	return fault.New(fault.Invalid, "this is no value of a document: %s", reason).WithHint("write JSON: a map, a list, a text in quotes, a number, true, false or null")
}

func parse(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil, invalid("it ends early")
	}
	if err != nil {
		return nil, invalid(strings.TrimPrefix(err.Error(), "json: "))
	}
	if depth > MaxDepth {
		return nil, invalid("more than " + strconv.Itoa(MaxDepth) + " maps and lists are in each other")
	}
	switch t := token.(type) {
	case json.Number:
		return Number(string(t))
	case json.Delim:
		if t == '[' {
			return parseList(decoder, depth)
		}
		return parseMap(decoder, depth)
	}
	return token, nil
}

func parseList(decoder *json.Decoder, depth int) (any, error) {
	list := []any{}
	for decoder.More() {
		item, err := parse(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := decoder.Token()
	if err != nil {
		return nil, invalid("a list does not end")
	}
	return list, nil
}

func parseMap(decoder *json.Decoder, depth int) (any, error) {
	all := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, invalid(strings.TrimPrefix(err.Error(), "json: "))
		}
		key, _ := token.(string) // The decoder accepts nothing else.
		if _, duplicate := all[key]; duplicate {
			return nil, invalid("the key " + strconv.Quote(key) + " is there twice")
		}
		if all[key], err = parse(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	if err != nil {
		return nil, invalid("a map does not end")
	}
	return all, nil
}

// maxDigits of a number.
const maxDigits = 1000

// Number is a number as documents have it: integers with all of their digits,
// others as the nearest float64 in its shortest form.
func Number(text string) (json.Number, error) {
	if len(text) > maxDigits {
		return "", invalid("a number has more than " + strconv.Itoa(maxDigits) + " digits")
	}
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			text = "0"
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", invalid("the number " + text + " is too large")
	}
	if f == 0 {
		f = 0 // And not -0.
	}
	short, err := json.Marshal(f)
	if err != nil {
		return "", invalid("the number " + text + " cannot be kept")
	}
	return json.Number(short), nil
}

// Canonical prints a value: keys sorted, no space, one form for each value.
func Canonical(value any) []byte { return appendValue(nil, value, "", "") }

// Pretty prints a value for people, one field a line, and a newline.
func Pretty(value any) []byte { return append(appendValue(nil, value, "\n", "  "), '\n') }

// Indented prints a value of which each line but the first begins with the
// prefix, and what is in a map or list with a step more.
func Indented(value any, prefix, step string) []byte { return appendValue(nil, value, prefix, step) }

// appendValue begins lines with line, and inner ones with step beyond; an empty
// step: there are none.
func appendValue(dst []byte, value any, line, step string) []byte {
	open := func(bracket byte, count int, item func(i int)) {
		dst = append(dst, bracket)
		for i := range count {
			if i > 0 {
				dst = append(dst, ',')
			}
			if step != "" {
				dst = append(append(dst, line...), step...)
			}
			item(i)
		}
		if step != "" && count > 0 {
			dst = append(dst, line...)
		}
		dst = append(dst, bracket+2) // ']' and '}' come two after.
	}
	inner := line
	if step != "" {
		inner += step
	}
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		open('{', len(keys), func(i int) {
			dst = append(appendText(dst, keys[i]), ':')
			if step != "" {
				dst = append(dst, ' ')
			}
			dst = appendValue(dst, v[keys[i]], inner, step)
		})
	case []any:
		open('[', len(v), func(i int) { dst = appendValue(dst, v[i], inner, step) })
	case json.Number:
		dst = append(dst, v...)
	case string:
		dst = appendText(dst, v)
	case bool:
		dst = strconv.AppendBool(dst, v)
	case nil:
		dst = append(dst, "null"...)
	}
	return dst
}

// appendText escapes what JSON must, and what would not be seen.
func appendText(dst []byte, text string) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // A text can be encoded.
	return append(dst, bytes.ReplaceAll(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), []byte{0x7f}, []byte(`\u007f`))...)
}

// Canonicalize parses JSON and prints it, and holds it to the limits.
func Canonicalize(text []byte) ([]byte, error) {
	value, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return encodeContent(value)
}

// encodeContent is a document's content, within the limits.
func encodeContent(value any) ([]byte, error) {
	if depth(value) > MaxDepth {
		return nil, invalid("more than " + strconv.Itoa(MaxDepth) + " maps and lists are in each other")
	}
	content := Canonical(value)
	if len(content) > MaxBytes {
		return nil, fault.New(fault.Invalid, "the document would have %d bytes, at most %d are kept", len(content), MaxBytes).
			WithHint("part it into several documents, or keep it in git")
	}
	return content, nil
}

func depth(value any) (most int) {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			most = max(most, depth(inner)+1)
		}
	case []any:
		for _, inner := range v {
			most = max(most, depth(inner)+1)
		}
	}
	return most
}
