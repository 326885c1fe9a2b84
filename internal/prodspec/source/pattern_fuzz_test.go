package source

import (
	"strings"
	"testing"
)

// slowly is what patterns mean, in the fewest words, and in exponential time.
func slowly(segments, name []string) bool {
	switch {
	case len(segments) == 0:
		return len(name) == 0
	case segments[0] == "**" && slowly(segments[1:], name):
		return true
	case len(name) == 0:
		return false
	case segments[0] == "**":
		return !hidden(name[0]) && slowly(segments, name[1:])
	}
	return matchSegment(segments[0], name[0]) && slowly(segments[1:], name[1:])
}

// FuzzPattern: what matches is what is meant, and what is in a folder that no
// match may be in matches nothing.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"**/*.yaml", "a/b.yaml"}, {"**", "x"}, {"a/**/b/**/c", "a/b/b/c/c"}, {"*.yaml", ".x.yaml"}, {"**/.git/**", "a/.git/b"}, {"[a-", "a"}, {"a/../b", "a"}, {"**/**/**/x", "a/b/c/x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := parsePattern(text)
		if err != nil || name == "" || len(text) > 24 || len(name) > 24 {
			return
		}
		parts := strings.Split(name, "/")
		if got, want := p.matches(name), slowly(p.segments, parts); got != want {
			t.Errorf("%q matches %q: %t, want %t", text, name, got, want)
		}
		for i := 1; i < len(parts) && p.matches(name); i++ {
			if folder := strings.Join(parts[:i], "/"); !p.mayBeBelow(folder) {
				t.Errorf("%q matches %q, and nothing below %q", text, name, folder)
			}
		}
	})
}

// A pattern costs no more than its length times the path's.
func TestManyStarsEnd(t *testing.T) {
	p, err := parsePattern(strings.Repeat("**/a/", 1000) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if deep := strings.Repeat("a/", 1000); p.matches(deep+"c") || !p.mayBeBelow(deep+"a") {
		t.Error("what a path of 1000 folders matches is wrong")
	}
}
