package jsonvalue

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Canonical is the one text of a value: keys sorted by their bytes, no spaces, and
// each number as canonicalNumber writes it. Equal values have equal texts.
func Canonical(value any) string {
	var buffer bytes.Buffer
	write(&buffer, value)
	return buffer.String()
}

// Equal reports whether two values are the same; 1, 1.0 and 1e0 are.
func Equal(a, b any) bool { return Canonical(a) == Canonical(b) }

func write(buffer *bytes.Buffer, value any) {
	switch value := value.(type) {
	case nil:
		buffer.WriteString("null")
	case bool:
		buffer.WriteString(strconv.FormatBool(value))
	case json.Number:
		buffer.WriteString(canonicalNumber(string(value)))
	case string:
		writeText(buffer, value)
	case []any:
		buffer.WriteByte('[')
		for i, element := range value {
			if i > 0 {
				buffer.WriteByte(',')
			}
			write(buffer, element)
		}
		buffer.WriteByte(']')
	case map[string]any:
		buffer.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(value)) {
			if i > 0 {
				buffer.WriteByte(',')
			}
			writeText(buffer, key)
			buffer.WriteByte(':')
			write(buffer, value[key])
		}
		buffer.WriteByte('}')
	}
}

// writeText escapes what JSON needs, and leaves <, > and & as they are.
func writeText(buffer *bytes.Buffer, text string) {
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // A text in memory is always written.
	buffer.Truncate(buffer.Len() - 1)
}

// plainDigits is how many zeros a number is written out with, rather than with an exponent.
const plainDigits = 40

// canonicalNumber writes a JSON number in one way, exactly: no zeros that say nothing,
// and an exponent only where plain digits would be long.
func canonicalNumber(text string) string {
	sign, rest := "", text
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	exponent := 0
	if at := strings.IndexAny(rest, "eE"); at >= 0 {
		parsed, err := strconv.Atoi(strings.TrimPrefix(rest[at+1:], "+"))
		if err != nil {
			return text // Its exponent is beyond all use: only the same text equals it.
		}
		exponent, rest = parsed, rest[:at]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return "0"
	case exponent >= 0 && exponent <= plainDigits:
		return sign + trimmed + strings.Repeat("0", exponent)
	case exponent < 0 && -exponent <= len(trimmed)+plainDigits:
		padded := strings.Repeat("0", max(0, 1-exponent-len(trimmed))) + trimmed
		return sign + padded[:len(padded)+exponent] + "." + padded[len(padded)+exponent:]
	}
	return sign + trimmed + "e" + strconv.Itoa(exponent)
}
