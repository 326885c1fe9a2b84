package document

import (
	"strings"

	"lehr.dev/internal/ground/fault"
)

// ReadLiteral returns the JSON of the value that a person means by a text for the field at a path of a document: JSON,
// unless a text is there now, or the text is no JSON. So 1.10 stays a text where a text is. A new field whose value could
// be a number or a text, such as 1.10, is refused.
func ReadLiteral(content any, path Path, literal string) ([]byte, error) {
	json, err := Canonicalize([]byte(literal))
	current, ok := At(content, path)
	_, isText := current.(string)
	isQuoted := strings.HasPrefix(literal, `"`)
	if err != nil || ok && isText && !isQuoted {
		return Canonical(literal), nil
	}
	if !ok && string(json) != literal && strings.Trim(literal, "+-.0123456789eE") == "" {
		return nil, fault.New(fault.Invalid, "%s: is %s a text or the number %s?", path, literal, json).
			WithHint(`write "%s" in quotes for the text, or %s for the number`, literal, json)
	}
	return json, nil
}
