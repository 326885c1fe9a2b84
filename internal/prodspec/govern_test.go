package prodspec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// governing looks at every publication as it happens, and can be cut off before it.
type governing struct {
	prodspec.Store
	t *testing.T
	// asked counts the assets that were put under rollouts by publications.
	asked atomic.Int64
	// cut is told when a publication is reached that never happens; nil: all do.
	cut chan struct{}
}

func (g *governing) Publish(ctx context.Context, lease store.Lease, incarnation intent.Incarnation) (intent.Incarnation, error) {
	if g.cut != nil {
		close(g.cut)
		<-ctx.Done()
		return intent.Incarnation{}, ctx.Err()
	}
	g.asked.Add(int64(len(incarnation.Governed)))
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

// TestWhatIsGovernedIsPinnedAsItIsPublished, and where it is much, before: also
// over a crash between the two.
func TestWhatIsGovernedIsPinnedAsItIsPublished(t *testing.T) {
	for name, more := range map[string]int{"little": 0, "much": 1001} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			clusters := ""
			for i := range more {
				clusters += fmt.Sprintf("\n  - {name: m%d, replicas: 1, base_port: 1024}", i)
			}
			w.replace("service.yaml", `version: "1.1"`, `version: "1.1"`+clusters)
			var g *governing
			w.through = func(s prodspec.Store) prodspec.Store { g = &governing{Store: s, t: t}; return g }
			w.start()
			first := w.served(1).Head
			if pins, _ := w.pinned(); g.asked.Load() != 0 || len(pins) > 0 {
				t.Errorf("without rollouts %d assets were governed: %v", g.asked.Load(), pins)
			}
			frontend := member(t, w, first, "shop/a/frontend")
			if _, err := w.store.SaveEnforced(t.Context(), w.lease, []store.Enforced{{
				Asset: "shop/a/frontend", Effective: frontend.Effective, Incarnation: first,
			}}); err != nil {
				t.Fatal(err)
			}
			w.stop()

			// The server ends right before the incarnation.
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
			before, revision := w.pinned()
			if want := (more + 2) * min(1, more); len(before) != want {
				t.Fatalf("%d are pinned, want %d", len(before), want)
			}

			// The next one publishes it, and leaves those that are pinned as they are.
			w.through = func(s prodspec.Store) prodspec.Store { g = &governing{Store: s, t: t}; return g }
			w.start()
			w.served(2)
			pins, now := w.pinned()
			if len(pins) != more+2 || pins[0] != "shop/a/frontend all 1" || pins[1] != "shop/b/frontend all 0" || more > 0 && now != revision {
				t.Errorf("pinned by revision %d after %d: %d, as %v", now, revision, len(pins), pins[:2])
			}

			// A second publication pins what is new, and asks for nothing but what changed.
			asked := g.asked.Load()
			w.replace("service.yaml", `version: "1.1"`, "version: \"1.1\"\n  - name: c\n    replicas: 1\n    base_port: 20300")
			w.served(3)
			if after, _ := w.pinned(); len(after) != more+3 || after[2] != "shop/c/frontend all 0" {
				t.Errorf("after a new asset: %d, as %v", len(after), after[:3])
			}
			if g.asked.Load()-asked != 1 {
				t.Errorf("%d assets were asked for", g.asked.Load()-asked)
			}
		})
	}
}

// TestWhatLeavesARolloutKeepsItsPin, and what another one takes over too.
func TestWhatLeavesARolloutKeepsItsPin(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "checks:", rolledOut)
	w.start()
	w.served(1)
	w.replace("lehr.yaml", rolledOut, `rollouts:
  none: {select: id == "shop/b/frontend", stages: [{rest: true}]}
checks:`)
	w.served(2)
	if pins, _ := w.pinned(); !slices.Equal(pins, []string{"shop/a/frontend all 0", "shop/b/frontend none 0"}) {
		t.Errorf("%v", pins)
	}
}

// TestMoreIsGovernedWhenARolloutIsWider: also what has not changed.
func TestMoreIsGovernedWhenARolloutIsWider(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "checks:", strings.Replace(rolledOut, `type == "Job"`, `id == "shop/b/frontend"`, 1))
	w.start()
	w.served(1)
	if pins, _ := w.pinned(); !slices.Equal(pins, []string{"shop/b/frontend all 0"}) {
		t.Fatalf("%v", pins)
	}
	w.replace("lehr.yaml", `id == "shop/b/frontend"`, `type == "Job"`)
	w.served(2)
	if pins, _ := w.pinned(); !slices.Equal(pins, []string{"shop/a/frontend all 0", "shop/b/frontend all 0"}) {
		t.Errorf("%v", pins)
	}
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
