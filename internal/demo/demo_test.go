package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// TestDefinitionsAreJoined: the reader's sections come to those of the example, and the header stays.
func TestDefinitionsAreJoined(t *testing.T) {
	const first = "lehr: v1\npartition: shop\nsources:\n  a: {dir: .}\nplugins:\n  Job: {run: x}\nchecks:\n  budget: {in_flight: 1}\n"
	const more = "# The reader.\nlehr: v1\npartition: reader\nsources:\n  # Of its own.\n  b: {dir: .}\nplugins:\n  Job: {run: x}\ndelivery:\n  b:\n    versions: b\n"
	const want = "lehr: v1\npartition: shop\nsources:\n  a: {dir: .}\n  # Of its own.\n  b: {dir: .}\nplugins:\n  Job: {run: x}\nchecks:\n  budget: {in_flight: 1}\ndelivery:\n  b:\n    versions: b\n"
	if got := joinDefinitions(first, more); got != want {
		t.Errorf("joined: %s\nwant %s", got, want)
	}
}

// TestProber: the share of failed searches of each second that is over, and of those assets alone that are asked for.
func TestProber(t *testing.T) {
	p, err := newProber()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	at := time.Now().Add(-3 * time.Second)
	for n := range 10 {
		p.add("reader/a", at, n < 2)
		p.add("reader/b", at, true)
		p.add("reader/a", time.Now().Add(time.Minute), true)
	}
	question := fmt.Sprintf(`{"assets": ["reader/a"], "start": %q, "end": %q}`, at.Add(-time.Second).Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339))
	response, err := http.Post(p.url(), "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	want := fmt.Sprintf(`{"samples":[{"at":%q,"value":0.2}]}`, at.UTC().Truncate(time.Second).Format(time.RFC3339)) + "\n"
	if err != nil || string(answer) != want {
		t.Errorf("it answers %s (%v), want %s", answer, err, want)
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
	for _, name := range []string{"lehr", "lehr-caddy", "lehr-sqlschema", "lehr-process", "releases/v1/frontend", "releases/v2/frontend", "releases/v3/frontend", "releases/v4/frontend"} {
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
