package prodspec_test

import (
	"fmt"
	"testing"
	"time"

	"lehr.dev/internal/prodspec"
)

func TestOneChangeAmongManyCostsOneRun(t *testing.T) {
	w := newWorld(t, "many")
	const files = 1000
	for i := range files {
		w.write(fmt.Sprintf("manifests/%c%03d.yaml", 'b'+i%20, i), "replicas: 1")
	}
	w.write("manifests/a.yaml", "replicas: 1")
	w.start()
	first := w.served(1)
	// One for each file, and the generator that takes from them.
	if first.Executions != files+2 {
		t.Fatalf("%d executions at first, want %d", first.Executions, files+2)
	}
	t.Logf("first build of %d assets: %s", files+3, first.Took)
	runs := func(what string, sequence, want int, change func()) {
		t.Helper()
		before := w.pipeline.Status()
		change()
		after := w.wait(what, func(s prodspec.Status) bool {
			return s.At.After(before.At) && s.State == prodspec.Serving && int(s.Head.Sequence) == sequence
		})
		if got := after.Executions - before.Executions; got != want {
			t.Errorf("%s: %d executions, want %d", what, got, want)
		}
		t.Logf("%s: %s", what, after.Took)
	}
	runs("change of one", 2, 1, func() { w.write("manifests/b000.yaml", "replicas: 2") })
	runs("change that the second generator read", 3, 2, func() { w.write("manifests/a.yaml", "replicas: 2") })
	runs("one more", 4, 2, func() { w.write("manifests/new.yaml", "replicas: 2") })
	runs("one less", 5, 1, func() { w.remove("manifests/new.yaml") })
	w.stop()
	w.start()
	after := w.wait("restart", func(s prodspec.Status) bool { return s.State == prodspec.Serving })
	if after.Executions != 0 || after.Head.Sequence != 5 {
		t.Errorf("after a restart: %d executions, head %s; want none and 5", after.Executions, after.Head)
	}
	t.Logf("restart: %s", after.Took)
	// And it still knows what it has.
	w.write("manifests/b000.yaml", "replicas: 3")
	if status := w.served(6); status.Executions != 1 {
		t.Errorf("%d executions after a restart and a change, want 1", status.Executions)
	}
}

func TestRapidSavesAreOneIncarnation(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	saved := time.Now()
	w.replace("service.yaml", `version: "1.0"`, `version: "2.0"`)
	w.replace("service.yaml", `version: "1.1"`, `version: "2.1"`)
	w.replace("service.yaml", `replicas: 3`, `replicas: 4`)
	w.served(2)
	t.Logf("three saves to one incarnation: %s", time.Since(saved))
	incarnation, err := w.store.Incarnation(t.Context(), w.pipeline.Status().Head)
	if err != nil || incarnation.Changed != 2 {
		t.Errorf("incarnation %+v, %v: want both jobs changed at once", incarnation, err)
	}
}

func TestIdOfTwoGeneratorsIsRefused(t *testing.T) {
	w := newWorld(t, "many")
	w.write("manifests/a.yaml", "replicas: 1")
	w.start()
	w.served(1)
	w.replace("order.star", `asset("summary"`, `asset("jobs/a"`)
	f := w.refused(prodspec.Rejected, 1)
	t.Logf("%s:%d %s: %s (%s)", f.File, f.Line, f.Asset, f.Message, f.Hint)
	if f.Asset != "jobs/a" || f.File != "order.star" || f.Rule != "identity" {
		t.Errorf("finding %+v, want both generators named", f)
	}
	w.replace("order.star", `asset("jobs/a"`, `asset("summary/new"`)
	w.served(2)
}
