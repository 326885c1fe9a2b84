package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/document"
)

// TestConflict lists what changed since, each path once, and what of it a change is
// about; not more than a header holds.
func TestConflict(t *testing.T) {
	since := []document.Change{{Path: "/b"}, {Path: "/a/x"}, {Path: "/b"}, {Path: "/c"}}
	for name, c := range map[string]struct{ paths, conflicting []string }{
		"all":       {nil, []string{"/a/x", "/b", "/c"}},
		"at":        {[]string{"/b"}, []string{"/b"}},
		"around":    {[]string{"/a"}, []string{"/a/x"}},
		"in":        {[]string{"/c/d"}, []string{"/c"}},
		"elsewhere": {[]string{"/d", "/a/y"}, nil},
	} {
		got, err := document.NewConflict("7", since, c.paths)
		if err != nil {
			t.Fatal(err)
		}
		if got.Revision != "7" || got.More || !slices.Equal(got.Changed, []string{"/a/x", "/b", "/c"}) || !slices.Equal(got.Conflicting, c.conflicting) {
			t.Errorf("%s: %+v, want %v", name, got, c.conflicting)
		}
	}
	var many []document.Change
	for i := range 1000 {
		many = append(many, document.Change{Path: fmt.Sprintf("/%0*d", i%100+1, i)})
	}
	got, err := document.NewConflict("7", many, nil)
	if err != nil || !got.More || len(got.Changed) == 0 || len(strings.Join(got.Changed, "")) > 2000 || len(got.Changed) > 50 {
		t.Errorf("of many: %d paths, more: %t (%v)", len(got.Changed), got.More, err)
	}
}
