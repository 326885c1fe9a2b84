package document

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"lehr.dev/internal/ground/fault"
)

// Path names a field: keys of maps and places in lists, from the outside in.
type Path []string

// ParsePath reads a JSON Pointer (RFC 6901): "/clusters/a/version". In a key
// "/" is written "~1", and "~" "~0". Empty: the whole document.
func ParsePath(text string) (Path, error) {
	refuse := func(reason string) (Path, error) {
		return nil, fault.New(fault.Invalid, "the path %.300q %s", text, reason).
			WithHint(`write it like /clusters/a/version; in a key, write "/" as ~1 and "~" as ~0`)
	}
	switch {
	case text == "":
		return nil, nil
	case text[0] != '/':
		return refuse("does not begin with /")
	case len(text) > MaxPath:
		return refuse("has more than " + strconv.Itoa(MaxPath) + " bytes")
	case !utf8.ValidString(text):
		return refuse("is not UTF-8")
	}
	parts := strings.Split(text[1:], "/")
	if len(parts) > MaxDepth {
		return refuse("is deeper than documents are")
	}
	for i, part := range parts {
		for at := 0; at < len(part); at++ {
			if part[at] == '~' && (at+1 == len(part) || part[at+1] != '0' && part[at+1] != '1') {
				return refuse("has a ~ that is followed by neither 0 nor 1")
			}
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

func (p Path) String() string {
	var text strings.Builder
	for _, part := range p {
		text.WriteByte('/')
		text.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return text.String()
}

// Then is the path of what is in it by that name.
func (p Path) Then(part string) Path { return append(p[:len(p):len(p)], part) }

// Overlaps reports whether one of them is the other, or in it.
func (p Path) Overlaps(other Path) bool {
	for i := range min(len(p), len(other)) {
		if p[i] != other[i] {
			return false
		}
	}
	return true
}

// index is a place in a list of so many elements; false: it is none.
func index(part string, length int) (int, bool) {
	at, err := strconv.Atoi(part)
	return at, err == nil && at >= 0 && at < length && strconv.Itoa(at) == part
}

// display is a path for people.
func (p Path) display() string {
	if len(p) == 0 {
		return "the whole document"
	}
	return p.String()
}
