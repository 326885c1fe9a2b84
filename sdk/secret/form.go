package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxLines of a value are looked for one by one.
const maxLines = 200

// formsOf lists how a value may be written in a message, each once. The caller wipes
// them.
func formsOf(value []byte) (forms [][]byte) {
	add := func(form []byte) {
		if len(form) >= shortest && !slices.ContainsFunc(forms, func(f []byte) bool { return bytes.Equal(f, form) }) {
			forms = append(forms, form)
		}
	}
	if len(value) < shortest {
		return nil
	}
	add(bytes.Clone(value))
	text := string(value)
	for _, quoted := range quotedForms(text) {
		add([]byte(quoted))
	}
	add([]byte(url.QueryEscape(text)))
	add([]byte(url.PathEscape(text)))
	add([]byte(strings.ToLower(url.QueryEscape(text))))
	add([]byte(hex.EncodeToString(value)))
	add([]byte(strings.ToUpper(hex.EncodeToString(value))))
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			add(base64Core(encoding, value, offset))
		}
	}
	// A log may have a line of a key at a time.
	lines := bytes.Split(value, []byte("\n"))
	if len(lines) > 1 {
		for _, line := range lines[:min(len(lines), maxLines)] {
			add(bytes.Clone(bytes.TrimSpace(line)))
		}
	}
	return forms
}

// quotedForms are those of JSON and of Go, without their quotes.
func quotedForms(text string) (forms []string) {
	inner := func(quoted string) string { return strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`) }
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) == nil {
		forms = append(forms, inner(strings.TrimSuffix(plain.String(), "\n")))
	}
	if escaped, err := json.Marshal(text); err == nil {
		forms = append(forms, inner(string(escaped)))
	}
	return append(forms, inner(strconv.Quote(text)), inner(strconv.QuoteToASCII(text)))
}

// base64Core is what the base64 of a longer content shows of the value, when the value
// begins offset bytes behind a group of three. Letters that also depend on what stands
// beside the value are left out.
func base64Core(encoding *base64.Encoding, value []byte, offset int) []byte {
	padded := append(make([]byte, offset, offset+len(value)), value...)
	encoded := []byte(encoding.EncodeToString(padded))
	clear(padded)
	first := 0
	if offset > 0 {
		first = offset + 1
	}
	last := len(encoded)
	if len(padded)%3 != 0 {
		last--
	}
	if last <= first {
		return nil
	}
	return encoded[first:last]
}
