package query

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"lehr.dev/internal/ground/document"
)

// appendJSON adds the values of a text that is canonical JSON, as of a Kubernetes
// object: they say all that it says. False: it is another text.
func appendJSON(list []leaf, path, text string) ([]leaf, bool) {
	if len(text) <= len("{}") || text[0] != '{' && text[0] != '[' {
		return list, false
	}
	value, err := document.Parse([]byte(text))
	if err != nil || !bytes.Equal(document.Canonical(value), []byte(text)) {
		return list, false
	}
	return appendWithin(list, path, value), true
}

// word is a key that needs no quotes in a path.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func appendWithin(list []leaf, path string, value any) []leaf {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			fieldPath := path + "." + key
			if !word.MatchString(key) {
				fieldPath = path + "[" + clip(strconv.Quote(key)) + "]"
			}
			list = appendWithin(list, fieldPath, inner)
		}
		if len(v) > 0 {
			return list
		}
	case []any:
		for i, inner := range v {
			list = appendWithin(list, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		if len(v) > 0 {
			return list
		}
	}
	whole := string(document.Canonical(value))
	if text, ok := value.(string); ok {
		whole = strconv.Quote(text)
	}
	return append(list, leaf{path, clip(whole), whole})
}
