package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/access"
	"lehr.dev/internal/store/sqlite"
)

// starting makes a store where there is not even a folder, or starts on one,
// as a server does, and says what is committed. No disk is watched: all of it
// goes to the system.
func starting(folder string) error {
	if err := sqlite.MakeFolder(folder); err != nil {
		return err
	}
	point, opened := observer(func(text string) { fmt.Println(text) })
	return find("publish").whole(context.Background(), folder, point, func(w *world) {
		fmt.Println(noteOpened)
		opened(w)
		if err := (access.Rendezvous{URL: "http://127.0.0.1:1", Token: "token", PID: 1}).Write(w.path); err != nil {
			panic(err)
		}
	})
}

// call is a call of the system: its name, the path that it is about, or what
// is written to standard output.
type call struct{ name, path string }

var (
	callOfFile   = regexp.MustCompile(`^(\w+)\(\d+<([^>]*)>`)
	callOfRename = regexp.MustCompile(`^(rename\w*)\(.*?"([^"]*)"`)
	callOfOutput = regexp.MustCompile(`^write\(1<[^>]*>, "(.*)\\n"`)
	resumedCall  = regexp.MustCompile(`^<\.\.\. \w+ resumed>`)
)

// trace starts on the folder under strace, and returns the calls in the order
// in which they ended.
func trace(t *testing.T, folder string) (calls []call) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "trace")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "strace", "-f", "-y", "-s", "200", "-o", output,
		"-e", "trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2", executable)
	command.Env = append(os.Environ(), traced+"="+folder)
	if text, err := command.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" && (exec.Command("strace", "-V").Run() != nil || bytes.Contains(text, []byte("Operation not permitted"))) {
			t.Skipf("SKIPPED: strace is not to be had: %v\n%s", err, text)
		}
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	unfinished := map[string]string{}
	for line := range strings.Lines(string(text)) {
		process, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		if begun, ok := strings.CutSuffix(rest, "<unfinished ...>"); ok {
			unfinished[process] = begun
			continue
		}
		if resumedCall.MatchString(rest) {
			rest = unfinished[process]
		}
		for _, pattern := range []*regexp.Regexp{callOfOutput, callOfRename, callOfFile} {
			if found := pattern.FindStringSubmatch(rest); found != nil {
				c := call{name: found[1]}
				if pattern == callOfOutput {
					c.name = "say"
				}
				c.path = found[len(found)-1]
				calls = append(calls, c)
				break
			}
		}
	}
	return calls
}

// unsynced are the files that were written to and not synced since.
func unsynced(calls []call) map[string]bool {
	dirty := map[string]bool{}
	for _, c := range calls {
		switch c.name {
		case "write", "pwrite64":
			dirty[c.path] = true
		case "fsync", "fdatasync":
			delete(dirty, c.path)
		}
	}
	return dirty
}

// TestSystemIsToldToSync looks at what the system is told, rather than at what
// SQLite and Lehr say of it: when a commit is answered its log is synced, so is
// the log of a killed process before the store is open, and so is a file before
// it takes the place of another, and a folder that was made.
func TestSystemIsToldToSync(t *testing.T) {
	if testing.Short() {
		t.Skip("traces a process")
	}
	parent := t.TempDir()
	folder := filepath.Join(parent, "new", "er")
	log := filepath.Join(folder, "lehr.db-wal")
	calls := trace(t, folder)
	commits, renames := 0, 0
	for i, c := range calls {
		switch {
		case c == call{"say", noteCommitted}:
			commits++
			if unsynced(calls[:i])[log] {
				t.Errorf("commit %d is answered before the log is synced", commits)
			}
		case strings.HasPrefix(c.name, "rename"):
			renames++
			if unsynced(calls[:i])[c.path] {
				t.Errorf("%s takes another file's place before it is synced", c.path)
			}
		}
	}
	if commits < 5 || renames != 1 {
		t.Errorf("the trace has %d commits and %d renames: is it read rightly?", commits, renames)
	}
	for _, made := range []string{parent, filepath.Join(parent, "new"), folder} {
		if !slices.Contains(calls, call{"fsync", made}) {
			t.Errorf("the folder %s, in which something was made, was never synced", made)
		}
	}

	killedFolder := scratch(t)
	start := find("publish").start(t)
	if err := start.Write(killedFolder); err != nil {
		t.Fatal(err)
	}
	if _, ended := kill(t, death{Operation: "publish", Folder: killedFolder, At: 60}); ended {
		t.Fatal("it ended before it was killed")
	}
	calls = trace(t, killedFolder)
	log = filepath.Join(killedFolder, "lehr.db-wal")
	calls = calls[:slices.Index(calls, call{"say", noteOpened})]
	if !slices.Contains(calls, call{"pwrite64", log}) || unsynced(calls)[log] {
		t.Errorf("a killed process's log was not written again and synced before the store was open: %v", calls)
	}
}
