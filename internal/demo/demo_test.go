package demo

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingIsWrittenOver: a folder with somebody's files is refused.
func TestNothingIsWrittenOver(t *testing.T) {
	folder := t.TempDir()
	mine := filepath.Join(folder, "service.yaml")
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Options{Program: "/nowhere/lehr", Directory: folder, Exit: true, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v", err)
	}
	if content, err := os.ReadFile(mine); err != nil || string(content) != "mine" {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

// TestMissingReleasesAreTold: without the example service beside the program
// the demo says what to do.
func TestMissingReleasesAreTold(t *testing.T) {
	err := Run(t.Context(), Options{Program: "/nowhere/lehr", Directory: filepath.Join(t.TempDir(), "new"), Exit: true, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v", err)
	}
}

// fakeProgram listens and prints a link; nothing that it is asked about serves.
const fakeProgram = `#!/bin/sh
case "$1" in
serve) mkdir -p "${3%/*}" && : > "$3.server.json" && exec sleep 60 ;;
page) echo http://127.0.0.1:7474/login ;;
esac
`

// firstWrite keeps what is written first, and then has the demo end.
type firstWrite struct {
	text string
	end  func()
}

func (w *firstWrite) Write(text []byte) (int, error) {
	if w.text == "" {
		w.text = string(text)
		w.end()
	}
	return len(text), nil
}

// TestThePageComesFirst: the first line has the address of the page, on which all that comes after can be followed.
func TestThePageComesFirst(t *testing.T) {
	programs := t.TempDir()
	for _, name := range []string{"lehr", "lehr-caddy", "lehr-sqlschema", "lehr-process", "releases/v1/frontend", "releases/v2/frontend", "releases/v3/frontend"} {
		path := filepath.Join(programs, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fakeProgram), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, exit := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		first := &firstWrite{end: cancel}
		if err := Run(ctx, Options{Program: filepath.Join(programs, "lehr"), Directory: filepath.Join(t.TempDir(), "new"), Exit: exit, Out: first}); err == nil {
			t.Error("a demo that is ended at its first line returns no error")
		}
		if want := "Follow the demo at http://127.0.0.1:7474/login "; !strings.HasPrefix(first.text, want) {
			t.Errorf("exit %t: the first line is %q, want %q", exit, first.text, want)
		}
	}
}
