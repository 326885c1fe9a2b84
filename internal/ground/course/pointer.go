package course

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Pointer is a JSON Pointer with places that each asset fills in.
type Pointer struct {
	text string
	path document.Path
}

// place is what looks like one; filled is what can be filled in.
var (
	place  = regexp.MustCompile(`\{[^{}]*\}`)
	filled = regexp.MustCompile(`^\{(id|scope|scope\.[^{}]+|label\.[^{}]+)\}$`)
)

// ParsePointer reads one. Invalid says what is wrong.
func ParsePointer(text string) (Pointer, error) {
	path, err := document.ParsePath(text)
	if err != nil {
		return Pointer{}, err
	}
	if len(path) == 0 {
		return Pointer{}, fault.New(fault.Invalid, "the pointer names the whole document").WithHint("write the field that is set, as /clusters/{scope.cluster}/version")
	}
	for _, part := range path {
		if part == "-" {
			return Pointer{}, fault.New(fault.Invalid, "the pointer %.300q names the place behind a list's end, a place of which the next edit makes another", text).
				WithHint("write the field that is set, as /clusters/{scope.cluster}/version")
		}
		for _, placeholder := range place.FindAllString(part, -1) {
			if !filled.MatchString(placeholder) {
				return Pointer{}, fault.New(fault.Invalid, "for %s in the pointer %.300q nothing is put in", placeholder, text).
					WithHint("known are {id}, {scope}, {scope.NAME} and {label.NAME} of the asset, as in /clusters/{scope.cluster}/version")
			}
		}
		if strings.ContainsAny(place.ReplaceAllString(part, ""), "{}") {
			return Pointer{}, fault.New(fault.Invalid, "a brace of the pointer %.300q has no other", text).WithHint("write it like /clusters/{scope.cluster}/version")
		}
	}
	return Pointer{text, path}, nil
}

// Of an asset. Invalid when it has not what is to be put in.
func (p Pointer) Of(asset intent.Asset) (string, error) {
	scopes, labels, err := impacts(asset)
	if err != nil {
		return "", err
	}
	var missing error
	lack := func(format string, arguments ...any) {
		if missing == nil {
			missing = fault.New(fault.Invalid, "the pointer %s has no value for asset %s, which %s", p.text, asset.ID, fmt.Sprintf(format, arguments...)).
				WithHint("give the asset that scope or label, or leave it out of the rollout's select")
		}
	}
	fill := func(placeholder string) string {
		kind, name, _ := strings.Cut(placeholder[1:len(placeholder)-1], ".")
		source := labels
		switch {
		case kind == "id":
			return string(asset.ID)
		case kind == "scope" && name == "" && len(scopes) != 1:
			lack("has %d scopes", len(scopes))
			return ""
		case kind == "scope" && name == "":
			return scopes[slices.Collect(maps.Keys(scopes))[0]]
		case kind == "scope":
			source = scopes
		}
		value, ok := source[name]
		if !ok {
			lack("has no %s %s", kind, name)
		}
		return value
	}
	path := make(document.Path, len(p.path))
	for i, part := range p.path {
		if path[i] = place.ReplaceAllStringFunc(part, fill); path[i] == "-" {
			lack("puts - there, the place behind a list's end")
		}
	}
	return path.String(), missing
}
