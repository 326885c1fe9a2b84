package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/test/crash/disk"
)

// death is what a process is to die in: before which of its operations on the
// store's files.
type death struct {
	Operation string
	Folder    string
	At        int
}

// dying does an operation, says on standard output what is committed and what
// was answered, and is killed on the way.
func dying(argument string) error {
	var d death
	if err := json.Unmarshal([]byte(argument), &d); err != nil {
		return err
	}
	watched, err := disk.Spare(d.Folder)
	if err != nil {
		return err
	}
	watched.Inject(func(operation int, _ disk.Event) disk.Fault {
		if operation == d.At {
			return disk.Kill
		}
		return disk.None
	})
	point, opened := observer(func(text string) { fmt.Println(text) })
	return find(d.Operation).whole(context.Background(), d.Folder, point, opened)
}

func find(name string) operation {
	for _, o := range operations {
		if o.name == name {
			return o
		}
	}
	panic("there is no operation " + name)
}

// kill runs an operation in a process of its own, up to its death, and returns
// what it said. Two runs differ by a few pages, so it may end before.
func kill(t *testing.T, d death) (notes []string, ended bool) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argument, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var output, errorOutput bytes.Buffer
	command := exec.CommandContext(t.Context(), executable)
	command.Env = append(os.Environ(), killed+"="+string(argument))
	command.Stdout, command.Stderr = &output, &errorOutput
	if err = command.Run(); err == nil {
		return nil, true
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("operation %d of %q: it was to be killed: %v\n%s", d.At, d.Operation, err, &errorOutput)
	}
	return strings.FieldsFunc(output.String(), func(r rune) bool { return r == '\n' }), false
}

// TestKilledProcess kills real processes before their k-th operation on the
// store's files.
func TestKilledProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts hundreds of processes")
	}
	t.Parallel()
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			start := o.start(t)
			r := record(t, o, start, nil)
			count := 0
			for _, e := range r.events {
				if e.Operation() {
					count++
				}
			}
			step := max(1, count*len(operations)/max(200, *points/5))
			kills := 0
			for at := 1 + int(*seed)%step; at <= count; at += step {
				folder := scratch(t)
				if err := start.Write(folder); err != nil {
					t.Fatal(err)
				}
				notes, ended := kill(t, death{Operation: o.name, Folder: folder, At: at})
				if ended {
					break
				}
				e, err := r.noted(notes)
				if err == nil {
					err = spared(t.Context(), o, folder, e)
				}
				if err != nil {
					t.Fatalf("killed before operation %d of %d: %v", at, count, err)
				}
				kills++
			}
			t.Logf("%d kills", kills)
		})
	}
}
