package prodspec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
		return w.readNow(), "", nil
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
	killed := w.marked()
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		tried.Add(1)
		return killed, "", nil
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

// readNow are the sources as a server without this history reads them now.
func (w *world) readNow() []intent.SourceRevision {
	w.t.Helper()
	at, death, err := prodspec.InChild(generate.DefaultOptions())(w.t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Partition: "shop", Elsewhere: w.elsewhere()})
	if err != nil || death != "" {
		w.t.Errorf("a child that reads the sources: %q, %v", death, err)
	}
	return at
}

// lookAgain has the folder looked at again each time that the trials are as many
// as a count says.
func (w *world) lookAgain(tried *atomic.Int32, counts ...int32) {
	w.t.Helper()
	for _, count := range counts {
		w.wait("a trial", func(s prodspec.Status) bool { return tried.Load() == count && s.State == prodspec.Unavailable })
		w.write("notes.txt", strconv.Itoa(int(count)))
	}
}

// A child that survives says nothing of sources that changed before it read
// them: what this process has read is tried again, and is not worked on.
func TestAChildThatReadOtherSourcesProvesNothing(t *testing.T) {
	w, m := newMortal(t)
	deadly := w.marked()
	var tried atomic.Int32
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		if tried.Add(1) > 2 {
			return deadly, "died (exit status 2): panic: a defect", nil
		}
		other := slices.Clone(deadly)
		other[1].Revision = fmt.Sprintf("another %d", tried.Load())
		return other, "", nil
	}
	ran := m.ran.Load()
	w.start()
	w.lookAgain(&tried, 1, 2)
	w.refused(prodspec.Held, 1)
	if tried.Load() != 3 || m.ran.Load() != ran {
		t.Errorf("it was tried %d times in a child, and %d times here: want 3 and 0", tried.Load(), m.ran.Load()-ran)
	}
}

// A child that reads other sources than the server, and again when nothing changed, cannot
// read them as the server does: they are worked on (L7).
func TestAChildThatAlwaysReadsOthersHoldsNothingUp(t *testing.T) {
	for name, unlike := range map[string]func([]intent.SourceRevision) []intent.SourceRevision{
		"stops early":     func(all []intent.SourceRevision) []intent.SourceRevision { return all[:1] },
		"misses a source": func(all []intent.SourceRevision) []intent.SourceRevision { return slices.Delete(all, 1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newMortal(t)
			m.dies.Store(false)
			deadly := w.marked()
			var tried atomic.Int32
			w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
				tried.Add(1)
				return unlike(slices.Clone(deadly)), "", nil
			}
			w.start()
			w.lookAgain(&tried, 1)
			w.served(2)
			if tried.Load() != 2 {
				t.Errorf("it was tried %d times, want 2", tried.Load())
			}
		})
	}
}

// The rules of a common policy are no part of what a child reads, and stand in
// the way of no quarantine.
func TestACommonPolicyIsNotTried(t *testing.T) {
	w := newWorld(t, "web")
	m := &mortal{Runner: w.processes()}
	w.runner = m
	w.start()
	w.served(1)
	w.ask(strings.ReplaceAll(plentyRule, "MODE", "observe"))
	w.wait("the rule", func(s prodspec.Status) bool { return hasFinding(s.Findings, intent.Warning, "observed only") })
	m.dies.Store(true)
	w.replace("service.yaml", "replicas: 3", "replicas: 4")
	w.dead()
	deadly := w.readNow()
	if len(deadly) >= len(w.marked()) {
		t.Fatalf("the child read %v, the process %v, which should have the common rules", deadly, w.marked())
	}
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		return deadly, "died (signal: killed)", nil
	}
	w.start()
	w.refused(prodspec.Held, 1)
	w.stop()
	w.trial = func(context.Context, prodspec.Program) ([]intent.SourceRevision, string, error) {
		return deadly, "", nil
	}
	m.dies.Store(false)
	w.start()
	w.served(2)
}
