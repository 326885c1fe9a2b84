package prodspec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/store"
)

// manyFiles is how many runs the generator of each file has in these tests.
const manyFiles = 120

// newMany is a partition with one run for each of many files, served.
func newMany(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "many")
	w.write("manifests/a.yaml", "replicas: 1")
	for i := range manyFiles - 1 {
		w.write(fmt.Sprintf("manifests/b%03d.yaml", i), "replicas: 1")
	}
	w.runner = generate.InProcess{Limits: generate.DefaultLimits()}
	return w
}

// again has the partition built once more, with nothing changed, as is done of
// what is not served now and then, and returns the status after it.
func (w *world) again(touch int) prodspec.Status {
	w.t.Helper()
	before := w.pipeline.Status()
	w.write("note.txt", fmt.Sprint(touch))
	return w.wait("another build", func(s prodspec.Status) bool { return s.At.After(before.At) })
}

// ranAgain builds it several times more, and counts the runs.
func (w *world) ranAgain() int {
	before := w.pipeline.Status().Executions
	for i := range 3 {
		w.again(i)
	}
	return w.pipeline.Status().Executions - before
}

// TestWhatFailsLaterRunsNothingAgain: whatever comes after the generators, what
// they gave of unchanged files stands, and only what failed is tried again.
func TestWhatFailsLaterRunsNothingAgain(t *testing.T) {
	failing := "\n  owners: {derive: Owner, where: 'type == \"Job\"', owner: 'payload.env[\"TEAM\"]'}\nvalidate:"
	for name, c := range map[string]struct {
		breaks, mends func(w *world)
		// runs that breaking and mending it may cost.
		breaking, mending int
	}{
		"derivation": {
			breaks: func(w *world) { w.replace("lehr.yaml", "\nvalidate:", failing) },
			mends:  func(w *world) { w.replace("lehr.yaml", `payload.env["TEAM"]`, `"ann@example.com"`) },
			// The second generator reads an asset that has an owner then.
			mending: 1,
		},
		"resolver": {
			breaks: func(w *world) {
				w.replace("lehr.yaml", "\nvalidate:", "\n  size: {resolve: Job, set: {payload.version: 'payload.env[\"TEAM\"]'}, reason: a try}\nvalidate:")
			},
			mends:   func(w *world) { w.replace("lehr.yaml", `payload.env["TEAM"]`, `"1.0"`) },
			mending: 1,
		},
		"rule of the policy": {
			breaks: func(w *world) {
				w.replace("lehr.yaml", "validate:", "validate:\n  rules:\n    - {id: big, where: type == \"Job\", must: payload.replicas > 1}")
			},
			mends: func(w *world) { w.replace("lehr.yaml", "payload.replicas > 1", "payload.replicas > 0") },
		},
		"another generator": {
			breaks:   func(w *world) { w.replace("order.star", "replicas = first", "replicas = ctx.nothing + first") },
			mends:    func(w *world) { w.replace("order.star", "ctx.nothing + ", "") },
			breaking: 1, mending: 1,
		},
		"an id given twice": {
			breaks:   func(w *world) { w.replace("order.star", `asset("summary"`, `asset("jobs/a"`) },
			mends:    func(w *world) { w.replace("order.star", `asset("jobs/a"`, `asset("summary"`) },
			breaking: 1, mending: 1,
		},
		"a source that is away": {
			breaks: func(w *world) { w.replace("lehr.yaml", "generate:", "  other: {dir: nowhere}\ngenerate:") },
			mends:  func(w *world) { w.replace("lehr.yaml", "  other: {dir: nowhere}\n", "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMany(t)
			w.start()
			served := w.served(1)
			count := func(what string, most int, change func()) {
				t.Helper()
				before := w.pipeline.Status()
				change()
				after := w.wait(what, func(s prodspec.Status) bool { return s.At.After(before.At) && s.State != before.State })
				if ran := after.Executions - before.Executions; ran > most {
					t.Errorf("%s: %d runs, at most %d are due", what, ran, most)
				}
			}
			count("breaking it", c.breaking, func() { c.breaks(w) })
			status := w.pipeline.Status()
			if status.Head != served.Head || len(status.Findings) == 0 {
				t.Fatalf("status %+v", status)
			}
			if ran := w.ranAgain(); ran > 0 {
				t.Errorf("%d runs in three more builds of what did not change", ran)
			}
			count("mending it", c.mending, func() { c.mends(w) })
			if status := w.pipeline.Status(); status.State != prodspec.Serving {
				t.Errorf("it is not served: %+v", status)
			}
		})
	}
}

// TestOneCauseIsToldOnce: with a count and some examples, in the candidate, too.
func TestOneCauseIsToldOnce(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, by, rule string
		// findings that there are, and that stand for all assets.
		findings, assets int
	}{
		"derivation":           {"lehr.yaml", "\nvalidate:", "\n  owners: {derive: Owner, where: 'type == \"Job\"', owner: 'payload.env[\"TEAM\"]'}\nvalidate:", "derive", 1, manyFiles},
		"derived edges":        {"lehr.yaml", "\nvalidate:", "\n  edges: {derive: Dependencies, where: 'type == \"Job\"', edges: [{rule: order, on: '\"balancer/\" + payload.name'}]}\nvalidate:", "reference", 1, manyFiles},
		"run of each file":     {"jobs.star", "manifest = yaml", "fail(\"it is not done for %s\" % ctx.file)\n    manifest = yaml", "generate", 1, manyFiles},
		"the same of each run": {"jobs.star", "manifest = yaml", "{}[\"name\"]\n    manifest = yaml", "generate", 1, manyFiles},
		"rule of the policy":   {"lehr.yaml", "validate:", "validate:\n  rules:\n    - {id: big, where: type == \"Job\", must: payload.replicas > 1}", "rules.big", 1, manyFiles},
		"few are told each":    {"manifests/a.yaml", "1", "none", "generate", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMany(t)
			w.replace(c.file, c.old, c.by)
			w.start()
			status := w.wait("findings", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
			errors, stands := errorsOf(status.Findings), 0
			for _, f := range errors {
				stands += 1 + f.Alike
				t.Logf("%s %s:%d %s (%s) %s", f.Rule, f.File, f.Line, f.Message, f.Hint, f.OthersText())
				if f.Rule != c.rule {
					t.Errorf("the rule is %s, want %s", f.Rule, c.rule)
				}
			}
			if len(errors) != c.findings || stands != c.assets {
				t.Errorf("%d findings that stand for %d, want %d for %d", len(errors), stands, c.findings, c.assets)
			}
			if f := status.Findings[0]; f.Alike > 0 && !strings.Contains(f.OthersText(), "b00") {
				t.Errorf("it names none of the others: %q", f.OthersText())
			}
			stored, err := w.store.ListCandidates(t.Context(), "shop", 1)
			if err != nil || len(stored) != 1 || len(errorsOf(stored[0].Findings)) != c.findings {
				t.Errorf("stored %+v, %v", stored, err)
			}
		})
	}
}

func errorsOf(findings []intent.Finding) []intent.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f intent.Finding) bool { return f.Severity != intent.Error })
}

// refusing is a store that does not take what runs gave, for a while.
type refusing struct {
	prodspec.Store
	refuse  atomic.Bool
	refused atomic.Int32
}

func (r *refusing) PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error {
	if kind == "generate" && r.refuse.Load() {
		r.refused.Add(1)
		return fault.New(fault.Unavailable, "the disk is full")
	}
	return r.Store.PutBlobs(ctx, lease, kind, blobs)
}

func (r *refusing) Publish(ctx context.Context, lease store.Lease, next intent.Incarnation) (intent.Incarnation, error) {
	if r.refuse.Load() {
		r.refused.Add(1)
		return intent.Incarnation{}, fault.New(fault.Unavailable, "the disk is full")
	}
	return r.Store.Publish(ctx, lease, next)
}

// TestAStoreThatRefusesRunsNothingAgain: neither what runs gave nor what is
// published is made anew when the store did not take it.
func TestAStoreThatRefusesRunsNothingAgain(t *testing.T) {
	w := newMany(t)
	r := &refusing{}
	w.through = func(s prodspec.Store) prodspec.Store { r.Store = s; return r }
	r.refuse.Store(true)
	w.start()
	w.wait("a refusal", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable && r.refused.Load() > 0 })
	if ran := w.ranAgain(); ran > 0 {
		t.Errorf("%d runs while the store refuses what they gave", ran)
	}
	r.refuse.Store(false)
	w.again(10)
	if status := w.served(1); status.Executions != manyFiles+1 {
		t.Errorf("%d executions, want %d", status.Executions, manyFiles+1)
	}
	r.refuse.Store(true)
	w.write("manifests/a.yaml", "replicas: 2")
	w.wait("a refusal", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	if ran := w.ranAgain(); ran > 1 {
		t.Errorf("%d runs while the store does not publish", ran)
	}
}

// vanishing is a runner to which one file is not there.
type vanishing struct {
	generate.InProcess
	ran  atomic.Int32
	file atomic.Pointer[string]
}

func (v *vanishing) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	results, err := v.InProcess.Run(ctx, set, jobs, func(kind work.Kind, input generate.Input) ([]byte, error) {
		if gone := v.file.Load(); gone != nil && input.Name == *gone {
			return nil, fault.New(fault.Unavailable, "%s cannot be read", input.Name)
		}
		return open(kind, input)
	})
	v.ran.Add(int32(len(results)))
	return results, err
}

// TestOneUnreadableFileRunsNothingElseAgain: what ran before it is kept.
func TestOneUnreadableFileRunsNothingElseAgain(t *testing.T) {
	w := newMany(t)
	v, last := &vanishing{InProcess: generate.InProcess{Limits: generate.DefaultLimits()}}, fmt.Sprintf("manifests/b%03d.yaml", manyFiles-2)
	v.file.Store(&last)
	w.runner = v
	w.start()
	w.wait("a file that cannot be read", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	for i := range 3 {
		w.again(i)
	}
	if ran := v.ran.Load(); ran != manyFiles-1 {
		t.Errorf("%d runs, want each of the %d others once", ran, manyFiles-1)
	}
	v.file.Store(nil)
	w.again(10)
	if status := w.served(1); status.Executions != manyFiles+1 {
		t.Errorf("%d executions, want %d", status.Executions, manyFiles+1)
	}
}

// lying is a runner of which one result is not what it says.
type lying struct {
	generate.InProcess
	about string
	ran   atomic.Int32
}

func (l *lying) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	results, err := l.InProcess.Run(ctx, set, jobs, open)
	l.ran.Add(int32(len(results)))
	for i := range results {
		if jobs[i].File == l.about {
			results[i].Assets[0].Digest = intent.Digest{1}
		}
	}
	return results, err
}

// TestOneWrongResultRunsNothingElseAgain: what the others gave is kept.
func TestOneWrongResultRunsNothingElseAgain(t *testing.T) {
	w := newMany(t)
	l := &lying{InProcess: generate.InProcess{Limits: generate.DefaultLimits()}, about: "manifests/a.yaml"}
	w.runner = l
	w.start()
	w.wait("a wrong result", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	before := l.ran.Load()
	const builds = 3
	for i := range builds {
		w.again(i)
	}
	if ran := l.ran.Load() - before; ran != builds {
		t.Errorf("%d runs in %d more builds, want only those of the wrong result", ran, builds)
	}
}
