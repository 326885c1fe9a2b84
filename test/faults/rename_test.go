package faults

import (
	"slices"
	"testing"
)

// An asset that left the manifest is an orphan. Put back under another id it
// is the same job: its claim is carried, and no process is touched.
func TestOrphanComesBackRenamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "rename", plugins: "Job: {run: lehr-process}\n  Command: {run: lehr-command}"})
	w.jobs = map[string]job{"web": {Replicas: 2}}
	w.want(values{"a": 1, "b": 1})
	w.serve()
	w.await("the processes run", w.runs(2))
	w.await("all is in sync", w.inSync)
	before, web := w.pids(), w.jobs["web"]
	delete(w.jobs, "web")
	w.want(values{"a": 2, "b": 1})
	w.converges(values{"a": 2})
	w.await("it is an orphan", func() string {
		told, err := w.lehr("get", "orphans")
		return unmatched(told+text(err), `job/web`)
	})
	w.edit(w.folder+"/web.star", `"job/" + name`, `"task/" + name`)
	w.jobs["web"] = web
	w.want(values{"a": 3, "b": 1})
	w.converges(values{"a": 3})
	w.awaitTold("task/web", `production is as rename@3 says`)
	w.await("it is no orphan", func() string {
		told, err := w.lehr("get", "orphans")
		return unmatched(told+text(err), `No orphans`)
	})
	told, err := w.lehr("get", "audit")
	if missing := unmatched(told+text(err), `claim +task/web .*claim carried: .*"job/web", as it has left head`); missing != "" {
		t.Error(missing)
	}
	if after := w.pids(); !slices.Equal(before, after) {
		t.Errorf("the processes were %v and are %v", before, after)
	}
	for _, push := range w.journal("rename") {
		if push.Asset == "task/web" {
			t.Errorf("it was pushed: %v", push)
		}
	}
}
