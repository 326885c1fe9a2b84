package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const two = `{"id": "a", "type": "acme.v1.Shelf", "payload": {"books": 3}}
---
type: Shelf
payload:
  books: 4
  plank_width: 7.5
`

func TestExampleOfOwnTypes(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "acme/v1/shelf.proto", `edition = "2023"; package acme.v1; import "acme/v1/plank.proto"; message Shelf { uint32 books = 1; double plank_width = 2; Plank plank = 3; }`)
	write(t, folder, "acme/v1/plank.proto", `edition = "2023"; package acme.v1; message Plank {}`)
	set, err := Types(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	example, err := Read(write(t, t.TempDir(), "example.yaml", two), set)
	if err != nil {
		t.Fatal(err)
	}
	fields := example.Second.ProtoReflect().Descriptor().Fields()
	if got := example.Second.ProtoReflect().Get(fields.ByName("plank_width")).Float(); got != 7.5 {
		t.Errorf("plank_width is %v", got)
	}
	if got := example.First.ProtoReflect().Get(fields.ByName("books")).Uint(); got != 3 {
		t.Errorf("books is %v", got)
	}
}

func TestBadExamplesSayWhy(t *testing.T) {
	set, err := Types(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"one":         {"type: Job\npayload: {name: a}", "document 2 of the example"},
		"three":       {strings.Repeat("---\ntype: Job\npayload: {name: a}\n", 3), "more than two"},
		"no type":     {"payload: {}", "no type"},
		"no payload":  {"type: Job", "no payload"},
		"other type":  {"type: acme.v1.Shelf\npayload: {}", "acme.v1.Shelf"},
		"other field": {"type: Job\npayload: {nam: a}", "nam"},
		"no yaml":     {"\tx", "document 1"},
	} {
		_, err := Read(write(t, t.TempDir(), "example.yaml", c.text), set)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
	if _, err := Types(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder without types is taken")
	}
	broken := t.TempDir()
	write(t, broken, "a.proto", "edition = \"2023\";\npackage a;\nmessage A { Unknown b = 1; }")
	if _, err := Types(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "a.proto:3") {
		t.Errorf("%v", err)
	}
}
