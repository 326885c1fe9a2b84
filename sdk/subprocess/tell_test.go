package subprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestWhatAProgramWritesIsTold while it runs, by lines, of both streams.
func TestWhatAProgramWritesIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	folder := t.TempDir()
	told := make(chan string, 100)
	command := shell(`echo one; echo two >&2; while ! test -e go; do sleep 0.02; done; printf 'three\r\nhalf'`)
	command.Directory, command.Tell = folder, func(lines string) { told <- lines }
	ended := make(chan error, 1)
	go func() {
		_, err := New(Options{}).Run(t.Context(), command)
		ended <- err
	}()
	var first []string
	for len(first) < 2 {
		first = append(first, strings.Split(<-told, "\n")...)
	}
	if slices.Sort(first); !slices.Equal(first, []string{"one", "two"}) {
		t.Errorf("while it runs is told %q", first)
	}
	if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(told)
	var rest []string
	for lines := range told {
		rest = append(rest, lines)
	}
	if got := strings.Join(rest, "\n"); got != "three\r\nhalf" {
		t.Errorf("at its end is told %q", got)
	}
}

// TestTellingIsBounded: in number of calls, of lines and of bytes, and it ends with the run.
func TestTellingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		teller := newTeller(func(lines string) { told = append(told, lines) })
		stream := teller.stream()
		for i := range 100_000 {
			fmt.Fprintf(stream, "line %d\n", i)
		}
		_, _ = stream.Write([]byte(strings.Repeat("x", 1<<20) + "\xff\n"))
		synctest.Wait()
		if len(told) != 0 {
			t.Fatalf("told at once: %d", len(told))
		}
		teller.end()
		lines := strings.Split(strings.Join(told, "\n"), "\n")
		if len(told) != 1 || len(lines) != mostTold || lines[0] != "line 99801" || len(lines[mostTold-1]) != mostLine {
			t.Errorf("%d calls of %d lines, the first %q", len(told), len(lines), lines[0])
		}
		fmt.Fprintln(stream, "too late")
	})
}
