package query

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"lehr.dev/document"
)

// appendJSON adds the values of a text that is canonical JSON, as of a Kubernetes
// object: they say all that it says. False: it is another text.
func appendJSON(found []leaf, path, text string) ([]leaf, bool) {
	if len(text) <= len("{}") || text[0] != '{' && text[0] != '[' {
		return found, false
	}
	value, err := document.Parse([]byte(text))
	if err != nil || !bytes.Equal(document.Canonical(value), []byte(text)) {
		return found, false
	}
	return appendWithin(found, path, value), true
}

// word is a key that needs no quotes in a path.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func appendWithin(found []leaf, path string, value any) []leaf {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			below := path + "." + key
			if !word.MatchString(key) {
				below = path + "[" + clip(strconv.Quote(key)) + "]"
			}
			found = appendWithin(found, below, inner)
		}
		if len(v) > 0 {
			return found
		}
	case []any:
		for i, inner := range v {
			found = appendWithin(found, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		if len(v) > 0 {
			return found
		}
	}
	whole := string(document.Canonical(value))
	if text, is := value.(string); is {
		whole = strconv.Quote(text)
	}
	return append(found, leaf{path, clip(whole), whole})
}
