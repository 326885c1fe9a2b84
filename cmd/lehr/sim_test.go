package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
)

// simulate gives the command to this program.
func simulate(t *testing.T, args ...string) (out, problems string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	terminal := cli.Terminal{Out: &o, Err: &e, Getenv: func(string) string { return "" }}
	code = cli.Run(t.Context(), local(), terminal, append([]string{"sim"}, args...))
	return o.String(), e.String(), code
}

func TestSimRunsSeeds(t *testing.T) {
	args := []string{"--seed", "4", "--runs", "2", "--hours", "0.2", "--json", "--workers", "1"}
	once, problems, code := simulate(t, args...)
	again, _, _ := simulate(t, args...)
	if code != 0 || once != again || strings.Count(once, "\n") != 3 || !strings.Contains(once, `"hash"`) {
		t.Errorf("exit code %d, not the same again, or not three lines:\n%s%s%s", code, once, again, problems)
	}
}

func TestSimPlaysAScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "one.txtar")
	for text, want := range map[string]int{
		"start\nuntil settled\nlehr get assets\n> job/a\n": 0,
		"start\nuntil settled\nlehr get assets\n> job/z\n": 1,
	} {
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, problems, code := simulate(t, script); code != want || strings.Contains(out, "NOT SO") != (want == 1) {
			t.Errorf("exit code %d, wanted %d:\n%s%s", code, want, out, problems)
		}
	}
	if _, problems, code := simulate(t, "none.txtar"); code != 1 || !strings.Contains(problems, "cannot read the script") {
		t.Errorf("exit code %d: %s", code, problems)
	}
}

// TestSimulateAUsersPartition: the one that "lehr init" writes.
func TestSimulateAUsersPartition(t *testing.T) {
	folder := t.TempDir()
	terminal := cli.Terminal{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Getenv: func(string) string { return "" }}
	if code := cli.Run(t.Context(), local(), terminal, []string{"init", folder + "/hello"}); code != 0 {
		t.Fatal(terminal.Err)
	}
	definition := filepath.Join(folder, "hello", "lehr.yaml")
	out, problems, code := simulate(t, "--partition", definition, "--seed", "2", "--hours", "0.5", "--story")
	if code != 0 || !strings.Contains(problems, "Nothing real is touched") || !strings.Contains(out, "Nothing that Lehr promises was broken") {
		t.Errorf("exit code %d:\n%s%s", code, out, problems)
	}
	if !strings.Contains(out, "of greeting/english (") {
		t.Errorf("nothing was pushed:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(folder, "hello", "production")); err == nil {
		t.Error("something real was made")
	}
	if err := os.WriteFile(definition, []byte("lehr: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, problems, code := simulate(t, "--partition", definition); code != 1 || strings.Contains(problems, "Nothing real is touched") {
		t.Errorf("exit code %d: %s", code, problems)
	}
}
