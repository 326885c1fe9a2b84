package sources

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/sim/virtual"
	"lehr.dev/internal/store/sqlite"
)

var start = time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)

const home = "/shop/"

// world is a tree and a real pipeline that reads it, in virtual time.
type world struct {
	t         *testing.T
	tree      *Tree
	scheduler *virtual.Scheduler
	store     *recorded
	pipeline  *prodspec.Pipeline
	ended     error
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{t: t, tree: New(), scheduler: virtual.New(seed, start), store: &recorded{}}
	process := w.scheduler.Start("server")
	t.Cleanup(func() { w.scheduler.Kill(process) })
	process.Go("pipeline", func() { w.ended = w.run(process, sqlite.Options{DB: db, Runtime: process}) })
	return w
}

// run registers the partition, and builds and publishes it until it is killed.
func (w *world) run(runtime loop.Runtime, options sqlite.Options) error {
	ctx, id := context.Background(), intent.PartitionID("shop")
	var err error
	if w.store.Store, err = sqlite.Open(ctx, options); err != nil {
		return err
	}
	if err := w.store.AddPartition(ctx, id, home+"lehr.yaml", "a try", intent.Actor{Name: "ann", Origin: "test"}); err != nil {
		return err
	}
	partition, err := w.store.Partition(ctx, id)
	if err != nil {
		return err
	}
	lease, err := w.store.Acquire(ctx, id, "test")
	if err != nil {
		return err
	}
	w.pipeline, err = prodspec.New(prodspec.Options{
		Partition: partition, Store: w.store, Place: w.tree, Runtime: runtime,
		Runner: generate.InProcess{Limits: generate.DefaultLimits()},
	})
	if err != nil {
		return err
	}
	return w.pipeline.Run(ctx, lease)
}

// newShop is a world with the sources of a small shop, as version 1.
func newShop(t *testing.T, seed uint64) *world {
	t.Helper()
	w, files := newWorld(t, seed), map[string]string{}
	for _, name := range []string{"lehr.yaml", "service.yaml", "web.star"} {
		text, err := os.ReadFile("../../prodspec/testdata/web/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[home+name] = string(text)
	}
	w.tree.Write(files)
	return w
}

// after lets time pass, and holds the pipeline to a state and a head.
func (w *world) after(d time.Duration, state prodspec.State, head intent.Sequence) prodspec.Status {
	w.t.Helper()
	w.scheduler.Run(w.scheduler.Now().Add(d))
	if w.ended != nil || w.pipeline == nil || w.pipeline.Status() == nil {
		w.t.Fatalf("there is no status; the pipeline ended with %v", w.ended)
	}
	status := *w.pipeline.Status()
	if status.State != state || status.Head.Sequence != head {
		w.t.Fatalf("after %s: %s with head %s, want %s with %d; findings %+v", d, status.State, status.Head, state, head, status.Findings)
	}
	return status
}

// replace writes a file of the newest version anew.
func (w *world) replace(name, old, by string) {
	w.t.Helper()
	text := w.tree.Show(Newest)[home+name]
	if !strings.Contains(text, old) {
		w.t.Fatalf("%s does not contain %q", name, old)
	}
	w.tree.Write(map[string]string{home + name: strings.ReplaceAll(text, old, by)})
}

// soon is too short to be found by polling.
const soon = time.Second

func TestPipelineFollowsTheTree(t *testing.T) {
	w := newShop(t, 1)
	w.after(soon, prodspec.Serving, 1)
	w.replace("service.yaml", `version: "1.0"`, `version: "2.0"`)
	w.after(soon, prodspec.Serving, 2)
	w.replace("service.yaml", "replicas: 3", "replicas: many")
	w.after(soon, prodspec.Rejected, 2)
	// The checkout goes back, and on again.
	w.tree.Serve(1)
	old := w.after(soon, prodspec.Serving, 3)
	w.tree.Serve(2)
	w.after(soon, prodspec.Serving, 4)
	w.tree.Serve(1)
	if again := w.after(soon, prodspec.Serving, 5); again.Sources[1] != old.Sources[1] {
		t.Errorf("sources %v, want those of %v", again.Sources, old.Sources)
	}
	before := w.pipeline.Status().Executions
	if after := w.after(time.Hour, prodspec.Serving, 5); after.Executions != before {
		t.Errorf("%d runs in an hour in which nothing changed", after.Executions-before)
	}
}

func TestHeadStaysWhenSourcesAreOff(t *testing.T) {
	down := fault.New(fault.Unavailable, "the share is down")
	restore := func(w *world) { w.tree.Write(w.tree.Show(1)) }
	remove := func(names ...string) func(*world) {
		return func(w *world) {
			for _, name := range names {
				w.tree.Remove(home + name)
			}
		}
	}
	for _, c := range []struct {
		name      string
		off, mend func(w *world)
		within    time.Duration
		says      string
	}{
		{"failing", func(w *world) { w.tree.Fail(down) }, func(w *world) { w.tree.Fail(nil) }, soon, "the share is down"},
		{"file gone", remove("service.yaml"), restore, soon, "service.yaml"},
		{"program gone", remove("web.star"), restore, soon, "web.star"},
		{"definition gone", remove("lehr.yaml"), restore, soon, "lehr.yaml"},
		// A folder that is not there is polled.
		{"all gone", remove("service.yaml", "web.star", "lehr.yaml"), restore, source.PollInterval + soon, "not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newShop(t, 1)
			w.after(soon, prodspec.Serving, 1)
			c.off(w)
			status := w.after(soon, prodspec.Unavailable, 1)
			if !strings.Contains(status.Findings[0].Message, c.says) {
				t.Errorf("findings %+v, want %q", status.Findings, c.says)
			}
			w.after(time.Hour, prodspec.Unavailable, 1)
			c.mend(w)
			w.after(c.within, prodspec.Serving, 1)
			w.replace("service.yaml", `version: "1.0"`, `version: "2.0"`)
			w.after(soon, prodspec.Serving, 2)
		})
	}
}

// TestTornReadIsNotServed: the manifest is listed as it was, and opened as it
// is, while the program is new already.
func TestTornReadIsNotServed(t *testing.T) {
	w := newShop(t, 1)
	w.after(soon, prodspec.Serving, 1)
	w.tree.Torn(true)
	files := w.tree.Show(Newest)
	w.tree.Write(map[string]string{
		home + "service.yaml": strings.ReplaceAll(files[home+"service.yaml"], `version: "1.0"`, `version: "2.0"`),
		home + "web.star":     files[home+"web.star"] + "\n# The same, otherwise.\n",
	})
	status := w.after(time.Hour, prodspec.Unavailable, 1)
	if !strings.Contains(status.Findings[0].Message, "service.yaml changed while") {
		t.Errorf("findings %+v", status.Findings)
	}
	w.tree.Torn(false)
	w.after(soon, prodspec.Serving, 2)
}

// TestSameSeedReadsTheSame: nothing waits, or reads a clock, outside the
// runtime.
func TestSameSeedReadsTheSame(t *testing.T) {
	run := func(seed uint64) uint64 {
		w := newShop(t, seed)
		w.scheduler.Run(start.Add(time.Minute))
		w.tree.Torn(true)
		w.replace("service.yaml", "replicas: 3", "replicas: 4")
		w.scheduler.Run(start.Add(2 * time.Minute))
		w.tree.Torn(false)
		w.scheduler.Run(start.Add(3 * time.Minute))
		w.after(soon, prodspec.Serving, 2)
		return w.scheduler.Hash()
	}
	if one, again, other := run(7), run(7), run(8); one != again || one == other {
		t.Errorf("hashes %x and %x of one seed, %x of another", one, again, other)
	}
}
