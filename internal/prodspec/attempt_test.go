package prodspec_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

// mortal is a runner that takes its pipeline along when it is told to.
type mortal struct {
	generate.Runner
	dies atomic.Bool
	ran  atomic.Int32
}

func (m *mortal) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	m.ran.Add(1)
	if m.dies.Load() {
		panic("a defect met its input")
	}
	return m.Runner.Run(ctx, set, jobs, open)
}

// marked returns the sources that the mark in the store names; nil: there is no
// mark.
func (w *world) marked() (sources []intent.SourceRevision) {
	w.t.Helper()
	stored, err := w.store.GetBlob(context.Background(), "shop", "attempt", "sources")
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	var mark struct{ Sources []intent.SourceRevision }
	if err == nil {
		err = json.Unmarshal(stored, &mark)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return mark.Sources
}

// dead waits until the pipeline has ended by itself.
func (w *world) dead() {
	w.t.Helper()
	if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "defect") {
		w.t.Fatalf("the pipeline ended with %v", err)
	}
	w.cancel()
	w.cancel = nil
}

// newMortal is a world whose pipeline has died of its sources.
func newMortal(t *testing.T) (*world, *mortal) {
	t.Helper()
	w := newWorld(t, "web")
	m := &mortal{Runner: w.processes()}
	w.runner = m
	w.start()
	w.served(1)
	if left := w.marked(); left != nil {
		t.Fatalf("after a build that ended, %v are marked", left)
	}
	m.dies.Store(true)
	w.replace("service.yaml", "replicas: 3", "replicas: 4")
	w.dead()
	if left := w.marked(); len(left) != 3 {
		t.Fatalf("what was worked on is marked as %v, want definition, source and programs", left)
	}
	return w, m
}

// Sources that end their process, and the child that is given them, are
// quarantined in every later life, until they change (S12).
func TestWhatEndsItsProcessIsQuarantined(t *testing.T) {
	w, m := newMortal(t)
	var tried atomic.Int32
	deadly := w.marked()
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		tried.Add(1)
		if m.dies.Load() {
			return deadly, "died (exit status 2): panic: a defect", nil
		}
		return deadly, "", nil
	}
	ran := m.ran.Load()
	var first intent.CandidateID
	for life := range 3 {
		w.start()
		f := w.refused(prodspec.Held, 1)
		if f.Rule != intent.RuleQuarantine || f.File != "lehr.yaml" || !strings.Contains(f.Message, "panic: a defect") || !strings.Contains(f.Hint, "lehr approve --candidate ") {
			t.Errorf("finding %+v, want what happened and what to do", f)
		}
		if id := w.pipeline.Status().Candidate; life > 0 && id != first {
			t.Errorf("life %d holds %s, the first %s", life, id, first)
		} else {
			first = id
		}
		w.stop()
	}
	if tried.Load() != 3 || m.ran.Load() != ran {
		t.Errorf("three lives tried %d times in a child, and %d times themselves", tried.Load(), m.ran.Load()-ran)
	}
	w.start()
	w.refused(prodspec.Held, 1)
	m.dies.Store(false)
	w.replace("service.yaml", "replicas: 4", "replicas: 5")
	w.served(2)
	if left := w.marked(); left != nil {
		t.Errorf("%v are still marked", left)
	}
	if stored, err := w.store.Candidate(t.Context(), "shop", first.Digest.String()); err != nil || stored.State != intent.CandidateSuperseded {
		t.Errorf("what was quarantined is %+v, %v: want it superseded", stored.State, err)
	}
}

// A person lets quarantined sources through, once.
func TestQuarantinedSourcesAreLetThrough(t *testing.T) {
	w, m := newMortal(t)
	deadly := w.marked()
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		return deadly, "died (signal: killed)", nil
	}
	w.start()
	w.refused(prodspec.Held, 1)
	if err := w.store.Acknowledge(t.Context(), w.pipeline.Status().Candidate, "it was the machine", person); err != nil {
		t.Fatal(err)
	}
	w.dead()
	w.start()
	w.refused(prodspec.Held, 1)
	again := w.pipeline.Status().Candidate
	m.dies.Store(false)
	if err := w.store.Acknowledge(t.Context(), again, "the machine has more memory now", person); err != nil {
		t.Fatal(err)
	}
	w.served(2)
	if left := w.marked(); left != nil {
		t.Errorf("%v are still marked", left)
	}
}

// What was killed from outside needs nobody (L7): a child shows that the
// sources are harmless.
func TestWhatWasKilledFromOutsideGoesOn(t *testing.T) {
	w, m := newMortal(t)
	m.dies.Store(false)
	var tried atomic.Int32
	w.trial = func(_ context.Context, p prodspec.Program) ([]intent.SourceRevision, string, error) {
		tried.Add(1)
		return nil, "", nil
	}
	w.start()
	w.served(2)
	w.replace("service.yaml", "replicas: 4", "replicas: 6")
	w.served(3)
	if tried.Load() != 1 || w.marked() != nil {
		t.Errorf("it was tried %d times, and %v are marked", tried.Load(), w.marked())
	}
}

// What was read before the deadly source ended nobody: it is worked on, and so
// the place of the deadly one is watched.
func TestOnlyWhatEndsTheProcessIsLeftAlone(t *testing.T) {
	w := newWorld(t, "web")
	var deadly []intent.SourceRevision
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		return deadly, "died", nil
	}
	w.start()
	w.served(1)
	status := w.pipeline.Status()
	w.stop()
	deadly = status.Sources
	mark, err := json.Marshal(map[string]any{"sources": deadly[:1], "began": status.At, "lives": 1})
	if err == nil {
		err = w.store.PutBlobs(t.Context(), w.lease, "attempt", map[string][]byte{"sources": mark})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	w.refused(prodspec.Held, 1)
	if named := w.marked(); len(named) != len(deadly) {
		t.Errorf("%v are marked, and the child died of %v", named, deadly)
	}
}
