package kubernetes

import (
	"fmt"
	"maps"
	"slices"
)

// Compare lists the fields in which two objects differ, by their paths. More
// than most are not listed.
func Compare(a, b Object, most int) []string {
	var paths []string
	compare(a.value, b.value, "", &paths, most)
	return paths
}

func compare(a, b any, at string, paths *[]string, most int) {
	if len(*paths) >= most {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				_, ok := a[key]
				_, inB := b[key]
				if ok != inB {
					*paths = append(*paths, join(at, key))
					continue
				}
				compare(a[key], b[key], join(at, key), paths, most)
			}
			return
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				compare(a[i], b[i], fmt.Sprintf("%s[%d]", at, i), paths, most)
			}
			return
		}
	default:
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return
			}
		}
	}
	*paths = append(*paths, at)
}
