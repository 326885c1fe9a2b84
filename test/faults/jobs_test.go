package faults

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
)

// pids of the world's job processes, in order.
func (w *world) pids() []int {
	var pids []int
	for _, task := range w.tasks() {
		pids = append(pids, task.pid)
	}
	slices.Sort(pids)
	return pids
}

// runs says what is missing until the jobs' processes are so many.
func (w *world) runs(count int) func() string {
	return func() string {
		if pids := w.pids(); len(pids) != count {
			return fmt.Sprintf("processes %v run, not %d", pids, count)
		}
		return ""
	}
}

// Real processes outlive the server and the plugin that started them, and are
// adopted by the next ones.
func TestJobsOutliveServerAndPlugin(t *testing.T) {
	w := newWorld(t, partition{name: "jobs", plugins: "Job: {run: lehr-process}"})
	w.jobs = map[string]job{"one": {Replicas: 2}, "two": {Replicas: 2}}
	w.want(values{})
	w.serve()
	w.await("all processes run", w.runs(4))
	converged := func() string {
		_, err := w.lehr("wait", "--timeout", "2s")
		return text(err)
	}
	w.await("all is in sync", converged)
	before := w.pids()
	adopted := func(after string) {
		t.Helper()
		w.await("all is in sync after the death of "+after, converged)
		if pids := w.pids(); !slices.Equal(pids, before) {
			t.Fatalf("after the death of %s the processes are %v, before %v", after, pids, before)
		}
	}
	for range 3 {
		w.kill()
		w.serve()
		adopted("the server")
		w.await("a plugin runs", func() string {
			if killAll(w.plugins("lehr-process")) == 0 {
				return "none"
			}
			return ""
		})
		adopted("the plugin")
		killAll(w.plugins("lehr-process"))
		w.kill()
		if pids := w.pids(); !slices.Equal(pids, before) {
			t.Fatalf("without server and plugin the processes are %v, before %v", pids, before)
		}
		w.serve()
		adopted("both")
	}
	// Adopted means looked after: one that dies is replaced, and only that.
	killAll(w.tasks()[:1])
	w.await("the process is replaced", func() string {
		kept := map[int]bool{}
		for _, pid := range w.pids() {
			kept[pid] = slices.Contains(before, pid)
		}
		if missing := w.runs(4)(); missing != "" {
			return missing
		}
		if survivors := len(before) - len(kept); survivors != 0 || !slices.Contains(slices.Collect(maps.Values(kept)), false) {
			return fmt.Sprintf("processes %v run, before %v", w.pids(), before)
		}
		return ""
	})
	replaced := 0
	for _, pid := range w.pids() {
		if !slices.Contains(before, pid) {
			replaced++
		}
	}
	if replaced != 1 {
		t.Errorf("%d processes are new, want the one that died: %v, before %v", replaced, w.pids(), before)
	}
}

// A port in use is named with its holder, who is left alone; when it is free,
// the job starts without anybody's help.
func TestJobsPortBusy(t *testing.T) {
	t.Parallel()
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	port := holder.Addr().(*net.TCPAddr).Port
	w := newWorld(t, partition{name: "port", plugins: "Job: {run: lehr-process}\n  Command: {run: lehr-command}"})
	w.jobs["web"] = job{Replicas: 1, Port: port}
	w.want(values{"a": 1})
	w.serve()
	t.Log(w.awaitTold("job/web", fmt.Sprintf(`port %d`, port), `process \d+ \(.*faults`))
	w.converges(values{"a": 1})
	if pids := w.pids(); len(pids) > 0 {
		t.Errorf("processes %v run beside the holder of their port", pids)
	}
	holder.Close()
	w.await("the job runs", w.runs(1))
}
