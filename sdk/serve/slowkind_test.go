package serve

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// slowPlanner is a Kind whose Diff takes a minute, and that answers some looks by itself.
type slowPlanner struct {
	Kind
	mutex    sync.Mutex
	diffs    int
	answers  bool
	fails    error
	prepared int
}

func (s *slowPlanner) Prepare(context.Context, Intent) (Difference, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.prepared++
	return Difference{Outcome: Pending, Reason: "an apply is under way"}, s.answers
}

func (s *slowPlanner) Diff(ctx context.Context, assets []Intent) []Difference {
	time.Sleep(time.Minute)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.diffs++
	if s.fails != nil {
		return []Difference{{Outcome: Unknown, Reason: s.fails.Error()}}
	}
	return s.Kind.Diff(ctx, assets)
}

// A Kind is answered from what was found in the background; a push has it looked at anew, and
// what Prepare answers needs no look at all.
func TestAKindIsReadInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planner := &slowPlanner{Kind: For(&shelf{jobs: map[string]*processpb.Job{"a": {Name: "a", Replicas: 2}}}, Serving{Cadence: 10 * time.Minute})}
		kind := InBackground(planner, Background{Limit: 4 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kind.(reader).beginReading(ctx)
		look := func() Difference {
			asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 3})
			asset.ID, asset.Incarnation.Partition = "a", "shop"
			return diffOne(kind, asset)
		}
		if d := look(); d.Outcome != Pending || !strings.HasPrefix(d.Reason, "reading since ") {
			t.Fatalf("at first it is %+v", d)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		began := time.Now().Add(-61 * time.Second)
		d := look()
		if d.Outcome != Differs || len(d.Plan.Changes) != 1 || !d.At.Equal(began) {
			t.Fatalf("after the read it is %+v, as of %v; it began at %v", d, d.At, began)
		}
		if look(); planner.diffs != 1 || planner.prepared != 3 {
			t.Errorf("%d reads and %d preparations for three looks", planner.diffs, planner.prepared)
		}
		planner.answers = true
		if d := look(); d.Outcome != Pending || d.Reason != "an apply is under way" {
			t.Errorf("what was answered while the question was open: %+v", d)
		}
		planner.answers = false
		push := Push{Plan: d.Plan.Digest(), Base: d.Base, Asset: jobIntent(t, &processpb.Job{Name: "a", Replicas: 3})}
		push.Asset.ID, push.Asset.Incarnation.Partition = "a", "shop"
		push.Plan = Digest{1}
		if outcome := kind.Push(ctx, push, nil); outcome.Ending != Stale {
			t.Errorf("a push of another plan: %+v", outcome)
		}
		planner.fails = errors.New("the state is away")
		if d := look(); d.Outcome != Pending {
			t.Errorf("after a push it is %v, as before it", d.Outcome)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if d := look(); d.Outcome != Unknown || !strings.Contains(d.Reason, "the state is away") {
			t.Errorf("a read that failed: %+v", d)
		}
		cancel()
		time.Sleep(2 * time.Hour)
	})
}
