package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/test/pgserver"
)

// longProgram makes one asset whose push has an effect each tenth of a second, for two
// minutes.
const longProgram = `
def generate(ctx):
    service = yaml("source/service.yaml")
    return [asset("long", lehr.command.v1.Command(
        diff = ["/bin/sh", "-c", "exit 2"],
        push = ["/bin/sh", "-c", "i=0; while [ $i -lt 1200 ]; do echo $i >> \"$1\"; i=$((i+1)); sleep 0.1; done", "sh", service["production"] + "/effects"],
    ))]
`

// longPush serves a world whose store is on a small disk of its own, until a push is
// under way.
func longPush(t *testing.T) (w *world, disk string) {
	w = newWorld(t, partition{name: "long", program: longProgram})
	disk = t.TempDir()
	mount(t, disk, "size=6m")
	w.store = filepath.Join(disk, "lehr.db")
	w.want(values{})
	w.serve()
	w.await("a push is under way", func() string {
		if w.effects() < 5 {
			return "it has few effects"
		}
		return ""
	})
	return w, disk
}

func (w *world) effects() int {
	text, _ := os.ReadFile(filepath.Join(w.production, "effects"))
	return strings.Count(string(text), "\n")
}

// stopped: effects end soon after the stop was asked for, and none comes after.
func (w *world) stopped(since time.Time) {
	w.Helper()
	count, quiet := w.effects(), time.Now()
	w.await("effects end", func() string {
		if now := w.effects(); now != count {
			count, quiet = now, time.Now()
		}
		if time.Since(quiet) < 3*time.Second {
			return fmt.Sprintf("the last of %d was %s ago", count, time.Since(quiet))
		}
		return ""
	})
	w.Logf("the last effect was %s after the stop was asked for", quiet.Sub(since).Round(10*time.Millisecond))
}

// fillUp leaves no room on a disk, nor in the store's own file.
func (w *world) fillUp(disk string) (ballast string) {
	w.Helper()
	ballast = fill(w.T, disk)
	w.await("a write is refused", func() string {
		if _, err := w.lehr("hold", "long", "--reason", strings.Repeat("fill ", 2000)); err != nil {
			return unmatched(err.Error(), `disk is full`)
		}
		return "it was accepted"
	})
	fill(w.T, disk)
	return ballast
}

// A stop reaches a push under way where the disk is full: it is kept beside the store,
// outlives the server, and is in the store once there is room; only then it ends.
func TestStopOnAFullDisk(t *testing.T) {
	t.Parallel()
	w, disk := longPush(t)
	ballast := w.fillUp(disk)
	since := time.Now()
	told, err := w.lehr("stop", "--reason", "fire")
	if err != nil || unmatched(told, `kept in the file beside the store`) != "" {
		t.Fatalf("%s %v", told, err)
	}
	w.stopped(since)
	if told, err := w.lehr("resume", "--reason", "over"); err == nil {
		t.Errorf("its end, which cannot be recorded, is accepted: %s", told)
	}
	if told, err := w.lehr("get", "stops"); err != nil || unmatched(told, `fire`) != "" {
		t.Errorf("%s %v", told, err)
	}
	w.kill()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.production, "effects")); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.await("the store has the stop", func() string {
		told, err := w.lehr("get", "audit", "--global")
		return unmatched(told+text(err), `stop.*fire`)
	})
	if w.effects() > 0 {
		t.Error("the next server pushed, though a stop is in force")
	}
	if told, err := w.lehr("resume", "--reason", "over"); err != nil {
		t.Fatalf("%s %v", told, err)
	}
	w.await("it is pushed again", func() string {
		if w.effects() == 0 {
			return "it has no effect"
		}
		return ""
	})
}

// A stop of one partition reaches it where nothing can be written, the reserve neither: the
// running server obeys, and says that a restart forgets it.
func TestStopWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	w, disk := longPush(t)
	err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	if errors.Is(err, syscall.EBUSY) {
		// What is open for writing keeps it from being read-only. No room, and no reserve, is
		// the same to a stop.
		if err := os.Truncate(w.store+".brake", 0); err != nil {
			t.Fatal(err)
		}
		w.fillUp(disk)
	} else if err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	told, err := w.lehr("stop", "long", "--reason", "fire")
	if err != nil || unmatched(told, `in force, not written yet; a restart forgets it`) != "" {
		t.Fatalf("%s %v", told, err)
	}
	w.stopped(since)
}

// A stop is answered, and holds, where the database is gone or does not answer; it is
// written when the database is back, by the server that was told or by the next one,
// which finds it in the file beside its store.
func TestStopWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"the same server": false, "the next server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgserver.New(t)
			database.Start()
			url := database.Database()
			w := newWorld(t, partition{name: "long", program: longProgram})
			w.want(values{})
			w.serve("--database", url)
			w.await("a push is under way", func() string {
				if w.effects() < 5 {
					return "it has few effects"
				}
				return ""
			})
			since := time.Now()
			back := func() { database.Signal(syscall.SIGCONT) }
			if restarted {
				database.Crash()
				back = func() { database.Start() }
			} else {
				database.Signal(syscall.SIGSTOP)
			}
			told, err := w.lehr("stop", "--reason", "fire")
			if err != nil || unmatched(told, `kept in the file beside the store`) != "" {
				t.Fatalf("%s %v", told, err)
			}
			w.stopped(since)
			if err := os.Remove(filepath.Join(w.production, "effects")); err != nil {
				t.Fatal(err)
			}
			if restarted {
				w.kill()
			}
			back()
			if restarted {
				w.serve("--database", url)
			}
			w.await("the database has the stop", func() string {
				told, err := w.lehr("get", "audit", "--global")
				return unmatched(told+text(err), `stop.*fire`)
			})
			w.await("what waits says why", func() string { return unmatched(w.why("long"), `fire`) })
			if w.effects() > 0 {
				t.Error("it pushed, though a stop is in force")
			}
			if told, err := w.lehr("resume", "--reason", "over"); err != nil {
				t.Fatalf("%s %v", told, err)
			}
			w.await("it is pushed again", func() string {
				if w.effects() == 0 {
					return "it has no effect"
				}
				return ""
			})
		})
	}
}

// TestATokenStopsWithoutTheDatabase: the tokens are in the database that hangs, and whoever
// bore one the day before stops their partition all the same (S18).
func TestATokenStopsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	database := pgserver.New(t)
	database.Start()
	w := newWorld(t, partition{name: "long", program: longProgram})
	w.edit(w.definition, "mode: enforce", "mode: enforce\naccess: {operator: [user:oncall], viewer: [user:guest]}")
	w.want(values{})
	w.serve("--database", database.Database())
	w.await("a push is under way", func() string {
		if w.effects() < 5 {
			return "it has few effects"
		}
		return ""
	})
	at, err := access.ReadRendezvous(w.store)
	if err != nil {
		t.Fatal(err)
	}
	as := map[string][]string{}
	for _, name := range []string{"oncall", "guest"} {
		made, err := w.lehr("auth", "token", "create", "--owner", name, "--description", "a laptop", "-o", "json")
		var token struct{ Secret string }
		if err == nil {
			err = json.Unmarshal([]byte(made), &token)
		}
		if err != nil {
			t.Fatalf("%s %v", made, err)
		}
		as[name] = append(os.Environ(), "LEHR_TOKEN="+token.Secret, "LEHR_SERVER="+at.URL)
	}
	run := func(name string, arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(w.programs, "lehr"), arguments...)
		command.Env = as[name]
		told, err := command.CombinedOutput()
		return string(told), err
	}
	for name := range as {
		if told, err := run(name, "get", "reports", "-p", "long"); err != nil {
			t.Fatalf("%s looks: %s %v", name, told, err)
		}
	}
	since := time.Now()
	database.Signal(syscall.SIGSTOP)
	if told, err := run("guest", "stop", "-p", "long", "--reason", "because I can"); err == nil {
		t.Errorf("a viewer stops: %s", told)
	}
	told, err := run("oncall", "stop", "-p", "long", "--reason", "fire")
	if err != nil || unmatched(told, `kept in the file beside the store`) != "" {
		t.Fatalf("%s %v", told, err)
	}
	w.stopped(since)
	database.Signal(syscall.SIGCONT)
	w.await("the database has the stop", func() string {
		told, err := w.lehr("get", "stops")
		return unmatched(told+text(err), `oncall.*fire`)
	})
}
