package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// misbehaving is the line of a definition that runs one of this binary's
// plugins.
func misbehaving(t *testing.T, kind, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s: {run: [%q, %q]}", kind, self, "plugin:"+name)
}

func TestPluginMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "missing", plugins: "Command: {run: lehr-quite-new}"})
	w.want(values{"a": 1})
	w.serve()
	told := w.awaitTold("resource/a", `"lehr-quite-new"`, `not at .*lehr-quite-new \(beside lehr\)`, `nor in PATH=`, `install it`)
	t.Log(told)
	if err := os.Symlink(filepath.Join(w.programs, "lehr-command"), filepath.Join(w.programs, "lehr-quite-new")); err != nil {
		t.Fatal(err)
	}
	w.converges(values{"a": 1})
}

func TestPluginOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "protocol"})
	// A link that an upgrade moves, as packages do.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(w.folder, "current")
	w.write(current, fmt.Sprintf("#!/bin/sh\nexec %q plugin:protocol9\n", self))
	if err := os.Chmod(current, 0o755); err != nil {
		t.Fatal(err)
	}
	w.define(w.folder, partition{name: "protocol", plugins: fmt.Sprintf("Command: {run: %q}", current)})
	w.want(values{"a": 1})
	w.serve()
	told := w.awaitTold("resource/a", `speaks protocol version 9`, `this lehr speaks version 1`, `matching releases`)
	t.Log(told)
	link := filepath.Join(w.folder, "next")
	if err := os.Symlink(filepath.Join(w.programs, "lehr-command"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, current); err != nil {
		t.Fatal(err)
	}
	w.converges(values{"a": 1})
}

// A plugin that hangs or crashes at each diff delays nobody but its own (L2).
func TestPluginThatMisbehavesDelaysNoOther(t *testing.T) {
	for name, patterns := range map[string][]string{
		"hung":     {`did not answer a diff of 1 assets within 10s`, `if it stays silent for another 10s`},
		"crashing": {`ended: exit status 3`, `wrote last: out of cheese`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			w := newWorld(t, partition{name: "odd", plugins: "Command: {run: lehr-command}\n  " + misbehaving(t, "Job", name)})
			w.jobs["odd"] = job{Replicas: 1}
			w.want(values{"a": 1, "b": 1})
			w.serve()
			told := w.awaitTold("job/odd", patterns...)
			t.Logf("told after %s: %s", time.Since(start).Round(time.Millisecond), told)
			// While it hangs, and is ended and started again, others go on.
			var slowest time.Duration
			for value := range 6 {
				began := time.Now()
				w.want(values{"a": value + 2, "b": 1})
				w.converges(values{"a": value + 2, "b": 1})
				slowest = max(slowest, time.Since(began))
			}
			const bound = 15 * time.Second
			if slowest > bound {
				t.Errorf("beside it a change took %s, want at most %s", slowest, bound)
			}
			t.Logf("the slowest of 6 changes beside it took %s", slowest.Round(time.Millisecond))
			if tasks := w.tasks(); len(tasks) > 0 {
				t.Errorf("processes %v were started by a plugin that serves no diff", tasks)
			}
			// A plugin that works takes over without a restart.
			w.define(w.folder, partition{name: "odd", plugins: "Command: {run: lehr-command}\n  Job: {run: lehr-process}"})
			w.await("the job runs", func() string {
				if len(w.tasks()) != 1 {
					return w.why("job/odd")
				}
				return ""
			})
		})
	}
}

// A type that was enforced and is not bound to a plugin any more is not
// forgotten: nothing is touched, and a person is told.
func TestBindingVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "binding"})
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	w.await("it is in sync", func() string { return unmatched(w.why("resource/a"), `in.sync`) })
	w.edit(w.definition, "  Command: {run: lehr-command}", "  Job: {run: lehr-process}")
	w.want(values{"a": 2})
	w.untouched("the reason is told", values{"a": 1}, func() string {
		return unmatched(w.why("resource/a"), `no plugin is bound to lehr\.command\.v1\.Command any more`, `bind one under "plugins"`)
	})
	t.Log(w.why("resource/a"))
	w.edit(w.definition, "  Job: {run: lehr-process}", "  Command: {run: lehr-command}")
	w.converges(values{"a": 2})
}
