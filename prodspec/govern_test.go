package prodspec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/intent"
	"lehr.dev/prodspec"
	"lehr.dev/store"
)

// governing looks at every publication at the moment before it, and can be cut off
// there.
type governing struct {
	prodspec.Store
	t *testing.T
	// asked counts the assets that were put under rollouts.
	asked atomic.Int64
	// want are the assets that must have a pin when anything is published.
	want atomic.Pointer[[]intent.AssetID]
	// cut is told when a publication is reached that never happens; nil: all do.
	cut chan struct{}
}

func (g *governing) Govern(ctx context.Context, lease store.Lease, from intent.IncarnationID, governed []store.Governed) error {
	g.asked.Add(int64(len(governed)))
	return g.Store.Govern(ctx, lease, from, governed)
}

func (g *governing) Publish(ctx context.Context, lease store.Lease, incarnation intent.Incarnation) (intent.Incarnation, error) {
	if g.cut != nil {
		close(g.cut)
		<-ctx.Done()
		return intent.Incarnation{}, ctx.Err()
	}
	pins, err := g.Store.(store.All).Pins(ctx, lease.Partition)
	if err != nil {
		return intent.Incarnation{}, err
	}
	if want := g.want.Load(); want != nil {
		for _, id := range *want {
			if !slices.ContainsFunc(pins, func(p intent.Pin) bool { return p.Asset == id }) {
				g.t.Errorf("%s is published, and %s has no pin", incarnation.ID, id)
			}
		}
	}
	return g.Store.Publish(ctx, lease, incarnation)
}

// pinned tells the pins of rollouts: "ASSET ROLLOUT SEQUENCE".
func (w *world) pinned() (list []string, revision uint64) {
	w.t.Helper()
	pins, err := w.store.Pins(w.t.Context(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pins {
		list = append(list, fmt.Sprint(p.Asset, " ", p.Rollout(), " ", p.Incarnation.Sequence))
		revision = max(revision, p.Revision)
	}
	slices.Sort(list)
	return list, revision
}

const rolledOut = `rollouts:
  all:
    select: type == "Job"
    stages: [{scopes: [a]}, {rest: true}]
checks:`

// TestWhatIsGovernedIsPinnedBeforeItIsSeen, also over a crash between the two.
func TestWhatIsGovernedIsPinnedBeforeItIsSeen(t *testing.T) {
	w := newWorld(t, "web")
	var g *governing
	w.through = func(s prodspec.Store) prodspec.Store { g = &governing{Store: s, t: t}; return g }
	w.start()
	first := w.served(1).Head
	if g.asked.Load() != 0 {
		t.Errorf("without rollouts %d assets were governed", g.asked.Load())
	}
	frontend := member(t, w, first, "shop/a/frontend")
	if _, err := w.store.SaveEnforced(t.Context(), w.lease, []store.Enforced{{
		Asset: "shop/a/frontend", Effective: frontend.Effective, Incarnation: first,
	}}); err != nil {
		t.Fatal(err)
	}
	w.stop()

	// The server ends after the pins, before the incarnation.
	w.replace("lehr.yaml", "checks:", rolledOut)
	reached := make(chan struct{})
	w.through = func(s prodspec.Store) prodspec.Store { return &governing{Store: s, t: t, cut: reached} }
	w.start()
	<-reached
	w.stop()
	partition, err := w.store.Partition(t.Context(), "shop")
	if err != nil || partition.Head != first {
		t.Fatalf("head is %s: %v", partition.Head, err)
	}
	want := []string{"shop/a/frontend all 1", "shop/b/frontend all 0"}
	before, revision := w.pinned()
	if diff := cmp.Diff(want, before); diff != "" {
		t.Fatal(diff)
	}

	// The next one publishes it, and finds them pinned.
	w.through = func(s prodspec.Store) prodspec.Store { g = &governing{Store: s, t: t}; return g }
	w.start()
	w.served(2)
	if after, now := w.pinned(); !slices.Equal(after, before) || now != revision {
		t.Errorf("pinned again, by revision %d after %d: %v", now, revision, after)
	}

	// A second publication pins what is new, and looks at nothing but what changed.
	asked := g.asked.Load()
	g.want.Store(&[]intent.AssetID{"shop/c/frontend"})
	w.replace("service.yaml", `    version: "1.1"`, "    version: \"1.1\"\n  - name: c\n    replicas: 1\n    base_port: 20300")
	w.served(3)
	if after, _ := w.pinned(); !slices.Equal(after, append(before, "shop/c/frontend all 0")) {
		t.Errorf("after a new asset: %v", after)
	}
	if g.asked.Load()-asked != 1 {
		t.Errorf("%d assets were asked for", g.asked.Load()-asked)
	}
	// Nothing but pins makes a rollout go on, so what it does not select any more
	// keeps its own.
	w.replace("lehr.yaml", `select: type == "Job"`, `select: type == "Job" && scope == "b"`)
	w.replace("lehr.yaml", "stages: [{scopes: [a]}, {rest: true}]", "stages: [{rest: true}]")
	w.served(4)
	if after, _ := w.pinned(); len(after) != 3 {
		t.Errorf("after the select is narrower: %v", after)
	}
}

// TestMoreIsGovernedWhenARolloutIsWider: also what has not changed.
func TestMoreIsGovernedWhenARolloutIsWider(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "checks:", strings.Replace(rolledOut, `type == "Job"`, `id == "shop/b/frontend"`, 1))
	var g *governing
	w.through = func(s prodspec.Store) prodspec.Store { g = &governing{Store: s, t: t}; return g }
	w.start()
	w.served(1)
	if pins, _ := w.pinned(); !slices.Equal(pins, []string{"shop/b/frontend all 0"}) {
		t.Fatalf("%v", pins)
	}
	g.want.Store(&[]intent.AssetID{"shop/a/frontend", "shop/b/frontend"})
	w.replace("lehr.yaml", `id == "shop/b/frontend"`, `type == "Job"`)
	w.served(2)
	// The types decide, too, what is served and so governed: a plugin less.
	w.replace("lehr.yaml", "Job: {run: lehr-process}", "Schedule: {run: lehr-process}")
	w.served(3)
	if pins, _ := w.pinned(); len(pins) != 2 {
		t.Errorf("%v", pins)
	}
}

// TestRolloutsByFieldPinNothing: their assets follow head.
func TestRolloutsByFieldPinNothing(t *testing.T) {
	w := withKnobs(t)
	w.replace("lehr.yaml", "checks:", strings.Replace(rolledOut, "stages:", "by: {document: tuning, field: '/clusters/{scope.cluster}/version'}\n    stages:", 1))
	w.start()
	if _, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person); err != nil {
		t.Fatal(err)
	}
	w.served(1)
	if pins, _ := w.pinned(); len(pins) > 0 {
		t.Errorf("%v", pins)
	}
}

// TestExpressionsOfRolloutsArePlaced where they are written.
func TestExpressionsOfRolloutsArePlaced(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "checks:", strings.Replace(rolledOut, "[{scopes: [a]}", `[{where: payload.replica > 1}`, 1))
	w.start()
	f := w.refused(prodspec.Rejected, 0)
	if f.Line != 18 || f.Column != 22 || f.Field != "rollouts.all.stages[0].where" || !strings.Contains(f.Message, "replica") || f.Hint == "" {
		t.Errorf("%+v", f)
	}
}
