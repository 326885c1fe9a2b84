package manifest

import (
	"strings"
	"testing"
)

// TestUnknownTagsAreRefused: what a tag stands for is not what is written.
func TestUnknownTagsAreRefused(t *testing.T) {
	for _, text := range []string{"a: !vault x\n", "a: 1\nb: !include {c: d}\n", "!x\na: 1\n", "a: [1, !x 2]\n"} {
		if _, err := Parse("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "is not known") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := ParseAll("a.yaml", []byte("b: 1\n---\n"+text)); err == nil || !strings.Contains(err.Error(), "is not known") {
			t.Errorf("%q among others: %v", text, err)
		}
	}
	if _, err := Parse("a.yaml", []byte("a: !!str 1\nb: !!int 2\n")); err != nil {
		t.Error(err)
	}
}
