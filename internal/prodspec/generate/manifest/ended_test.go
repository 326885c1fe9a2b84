package manifest_test

import (
	"testing"

	"lehr.dev/internal/prodspec/generate/manifest"
)

// TestTextWithoutANewlineAtItsEnd: a block scalar keeps its own, and text of two bytes a
// character stays whole.
func TestTextWithoutANewlineAtItsEnd(t *testing.T) {
	for text, want := range map[string]string{
		"|\n  a":                   "a\n",
		"|-\n  a":                  "a",
		"a":                        "a",
		"\xff\xfev\x00a\x00":       "va",
		"\xfe\xff\x00v\x00a":       "va",
		"\xff\xfev\x00a\x00\n\x00": "va",
	} {
		d, err := manifest.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if d.Root.Value != want {
			t.Errorf("%q is read as %q, want %q", text, d.Root.Value, want)
		}
	}
}
