package scenario

import (
	"strings"
	"testing"
)

// FuzzArchive: a script is read whole, whatever is in it.
func FuzzArchive(f *testing.F) {
	for _, seed := range []string{"tick 5m\n-- a --\nx\n", "-- --\n", "why 'a b' \"c # d\" # e", "--  --\n-- x --", "\x00\xff '"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := parseArchive(text)
		size := 0
		for name, content := range a.files {
			if strings.TrimSpace(name) == "" {
				t.Error("a file has no name")
			}
			size += len(content)
		}
		if size > len(text)+1 {
			t.Errorf("%d bytes hold files of %d", len(text), size)
		}
		for _, line := range a.script {
			for _, word := range words(line) {
				if len(word) > len(line) {
					t.Errorf("%q holds %q", line, word)
				}
			}
		}
	})
}
