package tfplan

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// unknownText stands for what only the apply will tell.
	unknownText = "(known after apply)"
	// mostText of a value is shown; a longer one ends with its digest.
	mostText = 1024
	// mostPath of an address and an attribute.
	mostPath = 1000
)

// leaf is one value of a resource: a text, a number, a bool, or an empty list or map.
type leaf struct {
	// path within the resource, such as tags.env or ingress[0].port.
	path string
	// text for people. Of what is sensitive it is the value itself, as JSON: it is shown to
	// nobody.
	text        string
	isSensitive bool
	isUnknown   bool
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// flatten lists the values of a resource, in the order of their paths. unknown and sensitive
// are as Terraform has them: true for a whole value, or a structure of the same form.
func flatten(value, unknown, sensitive json.RawMessage) (leaves []leaf) {
	f := &flattener{}
	f.walk("", decode(value), decode(unknown), decode(sensitive))
	slices.SortStableFunc(f.leaves, func(a, b leaf) int { return strings.Compare(a.path, b.path) })
	return f.leaves
}

// decode returns nil for what is not there.
func decode(text json.RawMessage) (value any) {
	if len(text) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // A number stays as it is written.
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

type flattener struct{ leaves []leaf }

func (f *flattener) walk(path string, value, unknown, sensitive any) {
	switch {
	case sensitive == true:
		if unknown == true {
			f.add(leaf{path: path, text: unknownText, isUnknown: true})
		} else if value != nil {
			f.add(leaf{path: path, text: canonical(value), isSensitive: true})
		}
		return
	case unknown == true:
		f.add(leaf{path: path, text: unknownText, isUnknown: true})
		return
	}
	switch value := value.(type) {
	case map[string]any:
		f.walkMap(path, value, unknown, sensitive)
	case []any:
		f.walkList(path, value, unknown, sensitive)
	case nil:
		// A value may be null while a part of it is unknown.
		switch parts := unknown.(type) {
		case map[string]any:
			f.walkMap(path, nil, parts, sensitive)
		case []any:
			f.walkList(path, nil, parts, sensitive)
		}
	default:
		f.add(leaf{path: path, text: canonical(value)})
	}
}

func (f *flattener) walkMap(path string, value map[string]any, unknown, sensitive any) {
	unknowns, _ := unknown.(map[string]any)
	marks, _ := sensitive.(map[string]any)
	keys := maps.Clone(value)
	if keys == nil {
		keys = map[string]any{}
	}
	for key, mark := range unknowns {
		if _, ok := keys[key]; !ok && mark != false {
			keys[key] = nil
		}
	}
	if len(keys) == 0 && value != nil && path != "" {
		f.add(leaf{path: path, text: "{}"})
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		below := path + "[" + strconv.Quote(key) + "]"
		if plainKey.MatchString(key) {
			below = strings.TrimPrefix(path+"."+key, ".")
		}
		f.walk(below, value[key], unknowns[key], marks[key])
	}
}

func (f *flattener) walkList(path string, value []any, unknown, sensitive any) {
	unknowns, _ := unknown.([]any)
	marks, _ := sensitive.([]any)
	if len(value) == 0 && len(unknowns) == 0 {
		f.add(leaf{path: path, text: "[]"})
	}
	at := func(list []any, i int) any {
		if i < len(list) {
			return list[i]
		}
		return nil
	}
	for i := range max(len(value), len(unknowns)) {
		f.walk(fmt.Sprintf("%s[%d]", path, i), at(value, i), at(unknowns, i), at(marks, i))
	}
}

func (f *flattener) add(l leaf) { f.leaves = append(f.leaves, l) }

// canonical JSON: equal values have one text.
func canonical(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// clip shortens a text to whole runes and the digest of the whole.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most - 64
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	digest := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s… (%d bytes, sha256 %x)", text[:cut], len(text), digest[:8])
}
