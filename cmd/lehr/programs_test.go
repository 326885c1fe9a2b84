package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
	"lehr.dev/test/building"
)

// TestExamplesForProgramsRun runs what docs/use/programs.md shows against a real
// server, and compares what it prints.
func TestExamplesForProgramsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs, and watches for five seconds")
	}
	for _, needed := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("there is no %s here to run the examples with", needed)
		}
	}
	folder, programs := t.TempDir(), t.TempDir()
	lehr, example := filepath.Join(programs, "lehr"), filepath.Join(programs, "example")
	for program, of := range map[string]string{lehr: ".", example: "../../examples/client"} {
		if err := (building.Program{Of: of}).At(program); err != nil {
			t.Fatal(err)
		}
	}
	stdoutOf(t, folder, lehr, "init", "-p", "hello", ".")
	ctx, cancel := context.WithCancel(t.Context())
	serving := exec.CommandContext(ctx, lehr, "serve", "-p", "lehr.yaml")
	serving.Dir, serving.Stderr = folder, os.Stderr
	serving.Cancel = func() error { return serving.Process.Signal(os.Interrupt) }
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	published(t, filepath.Join(folder, ".lehr", "lehr.db"))

	text := documents(t)["docs/use/programs.md"]
	script, want := "", ""
	for _, block := range regexp.MustCompile("(?s)```(sh|json)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if block[1] == "sh" {
			script += block[2]
		} else {
			want += block[2]
		}
	}
	compare(t, stdoutOf(t, folder, "bash", "-c", script), want)

	_, program, _ := strings.Cut(text, "```go\n")
	program, after, _ := strings.Cut(program, "```")
	source, err := os.ReadFile("../../examples/client/main.go")
	if err != nil || string(source) != program {
		t.Errorf("docs/use/programs.md does not show examples/client/main.go as it is (%v)", err)
	}
	_, want, _ = strings.Cut(after, "$ go run ./examples/client\n")
	want, _, _ = strings.Cut(want, "```")
	compare(t, stdoutOf(t, folder, example), want)
	if text, err := os.ReadFile(filepath.Join(folder, "hello.jsonl")); err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("it exported %q, %v", text, err)
	}
}

// published waits for the first incarnation.
func published(t *testing.T, store string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := client.Discover(store, intent.Actor{Name: "test", Origin: "cli"})
		if err == nil {
			_, err = c.Incarnations.GetIncarnation(t.Context(), &apipb.GetIncarnationRequest{Id: "hello@1"})
			c.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there was no incarnation within %s: %v", patience, err)
		}
	}
}

func stdoutOf(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	command.Dir, command.Stderr = folder, os.Stderr
	command.Env = append(os.Environ(), "LEHR_SERVER=", "LEHR_TOKEN=", "LEHR_STORE=", "no_proxy=*")
	output, err := command.Output()
	if err != nil {
		t.Errorf("%s: %v", program, err)
	}
	return string(output)
}

// compare holds what was printed to what a document shows, where … is anything.
func compare(t *testing.T, got, want string) {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		t.Errorf("the document shows\n%s\nand it is\n%s", want, got)
	}
}
