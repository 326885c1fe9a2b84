package document

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"lehr.dev/internal/ground/fault"
)

// Apply carries an edit's operations out on a content and returns the new one.
// Invalid says which operation cannot be, and why. Nil is a document that is not
// there: only the whole of it can be set.
func Apply(content []byte, operations []Operation) ([]byte, error) {
	if len(operations) == 0 {
		return nil, fault.New(fault.Invalid, "the edit changes nothing: it has no operations").WithHint("name a path and its value")
	}
	if len(operations) > MaxOperations {
		return nil, fault.New(fault.Invalid, "the edit has %d operations, at most %d are carried out at once", len(operations), MaxOperations).
			WithHint("set a map that holds several of the fields, or make several edits")
	}
	value, err := parseContent(content)
	if err != nil {
		return nil, err
	}
	for _, o := range operations {
		path, err := ParsePath(o.Path)
		if err != nil {
			return nil, err
		}
		if o.Value == nil {
			value, err = remove(value, path, 0)
		} else {
			var wanted any
			if wanted, err = Parse(o.Value); err == nil {
				value, err = set(value, path, 0, wanted)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if value == absent {
		return nil, fault.New(fault.Invalid, "an edit cannot remove the whole document").WithHint("to delete it: lehr document delete NAME --reason WHY")
	}
	return encodeContent(value)
}

// EncodeOperations is their JSON. Invalid: a value that is none.
func EncodeOperations(operations []Operation) ([]byte, error) {
	for _, o := range operations {
		if o.Value == nil {
			continue
		}
		if _, err := Parse(o.Value); err != nil {
			return nil, fault.New(fault.Invalid, "%.300s cannot be set: %w", o.Path, err)
		}
	}
	return json.Marshal(operations)
}

// nothing is the value of what is not there.
type nothing struct{}

var absent any = nothing{}

func parseContent(content []byte) (any, error) {
	if content == nil {
		return absent, nil
	}
	return Parse(content)
}

// set returns the value with what is at the path being another; at is how much
// of the path was walked.
func set(value any, path Path, at int, wanted any) (any, error) {
	if at == len(path) {
		return wanted, nil
	}
	part := path[at]
	switch v := value.(type) {
	case nothing:
		if part == "-" {
			return nil, fault.New(fault.Invalid, "%s cannot be set: there is no list at %s", path, path[:at].display()).
				WithHint("set the list as a whole: '%s:=[%s]'", path[:at], Canonical(wanted))
		}
		inner, err := set(absent, path, at+1, wanted)
		return map[string]any{part: inner}, err
	case map[string]any:
		current, ok := v[part]
		if !ok {
			current = absent
		}
		inner, err := set(current, path, at+1, wanted)
		next := maps.Clone(v)
		next[part] = inner
		return next, err
	case []any:
		if part == "-" {
			inner, err := set(absent, path, at+1, wanted)
			return append(slices.Clone(v), inner), err
		}
		i, ok := index(part, len(v))
		if !ok {
			return nil, noElement(path, at, len(v))
		}
		inner, err := set(v[i], path, at+1, wanted)
		next := slices.Clone(v)
		next[i] = inner
		return next, err
	}
	return nil, fault.New(fault.Invalid, "%s cannot be set: what is at %s is %s, neither a map nor a list", path, path[:at].display(), kind(value)).
		WithHint("set %s as a whole, or mend the path", path[:at].display())
}

func remove(value any, path Path, at int) (any, error) {
	if at == len(path) {
		return absent, nil
	}
	part := path[at]
	missing := fault.New(fault.Invalid, "%s cannot be removed: it is not there", path).WithHint("lehr document get NAME shows what is")
	switch v := value.(type) {
	case map[string]any:
		current, ok := v[part]
		if !ok {
			return nil, missing
		}
		inner, err := remove(current, path, at+1)
		next := maps.Clone(v)
		if next[part] = inner; inner == absent {
			delete(next, part)
		}
		return next, err
	case []any:
		i, ok := index(part, len(v))
		if !ok {
			return nil, noElement(path, at, len(v))
		}
		inner, err := remove(v[i], path, at+1)
		next := slices.Clone(v)
		if next[i] = inner; inner == absent {
			next = slices.Delete(next, i, i+1)
		}
		return next, err
	}
	return nil, missing
}

func noElement(path Path, at, length int) error {
	return fault.New(fault.Invalid, "%s names no element of the list at %s, which has %d", path, path[:at].display(), length).
		WithHint(`elements are counted from 0; "-" is the one behind the last`)
}

func kind(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case nil:
		return "null"
	}
	return "a number"
}

// Compare lists what differs between two contents, in the order of the paths.
func Compare(before, after []byte) ([]Change, error) {
	a, err := parseContent(before)
	if err != nil {
		return nil, err
	}
	b, err := parseContent(after)
	if err != nil {
		return nil, err
	}
	return compare(nil, nil, a, b), nil
}

func compare(changes []Change, path Path, a, b any) []Change {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Sorted(maps.Keys(a))
		for key := range b {
			if _, ok := a[key]; !ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			changes = compare(changes, path.Then(key), valueOf(a, key), valueOf(b, key))
		}
		return changes
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			changes = compare(changes, path.Then(strconv.Itoa(i)), a[i], b[i])
		}
		return changes
	}
	change := Change{Path: path.String(), Before: printed(a), After: printed(b)}
	if bytes.Equal(change.Before, change.After) && (change.Before == nil) == (change.After == nil) {
		return changes
	}
	return append(changes, change)
}

func valueOf(all map[string]any, key string) any {
	if value, ok := all[key]; ok {
		return value
	}
	return absent
}

func printed(value any) []byte {
	if value == absent {
		return nil
	}
	return Canonical(value)
}

// at finds what is at a path; absent: nothing.
func at(value any, path Path) any {
	for _, part := range path {
		switch v := value.(type) {
		case map[string]any:
			value = valueOf(v, part)
		case []any:
			i, ok := index(part, len(v))
			if !ok {
				return absent
			}
			value = v[i]
		default:
			return absent
		}
	}
	return value
}

// Before is a content as it was before changes, which are exactly what made it.
func Before(content []byte, changes []Change) ([]byte, error) {
	value, err := parseContent(content)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		path, err := ParsePath(c.Path)
		if err != nil {
			return nil, err
		}
		if value, err = restore(value, path, c.Before); err != nil {
			return nil, err
		}
	}
	if value == absent {
		return nil, nil
	}
	return Canonical(value), nil
}

func restore(value any, path Path, previous []byte) (any, error) {
	if previous == nil {
		return remove(value, path, 0)
	}
	restored, err := Parse(previous)
	if err != nil {
		return nil, err
	}
	return set(value, path, 0, restored)
}

// Revert gives the fields of a content that differ between before and after the
// values of before. Touched are those that are not as after has them: then
// nothing is reverted.
func Revert(content, before, after []byte) (reverted []byte, touched []string, err error) {
	now, err := parseContent(content)
	if err != nil {
		return nil, nil, err
	}
	expected, err := parseContent(after)
	if err != nil {
		return nil, nil, err
	}
	changes, err := Compare(before, after)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		path, err := ParsePath(c.Path)
		if err != nil {
			return nil, nil, err
		}
		if !bytes.Equal(printed(at(now, path)), c.After) || (at(now, path) == absent) != (c.After == nil) || shifted(now, expected, path) {
			touched = append(touched, c.Path)
			continue
		}
		if len(touched) > 0 {
			continue
		}
		if now, err = restore(now, path, c.Before); err != nil {
			return nil, nil, err
		}
	}
	if len(touched) > 0 || now == absent {
		return nil, touched, nil
	}
	reverted, err = encodeContent(now)
	return reverted, nil, err
}

// shifted reports whether a list on the way has another length by now, so that
// a place in it may be another's, or whether the way itself is not there.
func shifted(now, expected any, path Path) bool {
	for i := range path {
		a, b := at(now, path[:i]), at(expected, path[:i])
		if listA, ok := a.([]any); ok {
			listB, ok := b.([]any)
			if !ok || len(listA) != len(listB) {
				return true
			}
		}
		if a == absent {
			return true
		}
	}
	return false
}

// Touches lists those of the changes that are at, in or around one of the paths.
func Touches(changes []Change, paths []string) (touched []Change, err error) {
	for _, c := range changes {
		path, err := ParsePath(c.Path)
		if err != nil {
			return nil, err
		}
		for _, text := range paths {
			target, err := ParsePath(text)
			if err != nil {
				return nil, err
			}
			if path.Overlaps(target) {
				touched = append(touched, c)
				break
			}
		}
	}
	return touched, nil
}

// At finds what is at a path of a value.
func At(value any, path Path) (inner any, ok bool) {
	if inner = at(value, path); inner == absent {
		return nil, false
	}
	return inner, true
}

// ValueAt returns what a field of a content holds; ok: it is there and not null.
func ValueAt(content []byte, pointer string) (value any, ok bool, err error) {
	whole, err := Parse(content)
	if err != nil {
		return nil, false, err
	}
	path, err := ParsePath(pointer)
	if err != nil {
		return nil, false, err
	}
	value, ok = At(whole, path)
	return value, ok && value != nil, nil
}

// TextAt returns what a field of a content holds, a text as it is and other values as JSON; ok:
// it is there and not null.
func TextAt(content []byte, pointer string) (text string, ok bool, err error) {
	whole, err := Parse(content)
	if err != nil {
		return "", false, err
	}
	return TextOf(whole, pointer)
}

// TextOf is TextAt of a content that was parsed.
func TextOf(content any, pointer string) (text string, ok bool, err error) {
	path, err := ParsePath(pointer)
	if err != nil {
		return "", false, err
	}
	value, ok := At(content, path)
	if !ok || value == nil {
		return "", false, nil
	}
	if text, isText := value.(string); isText {
		return text, true, nil
	}
	return string(Canonical(value)), true, nil
}
