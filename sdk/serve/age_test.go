package serve

import (
	"context"
	"testing"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// cachedShelf answers as of a time, or that a change is pending.
type cachedShelf struct {
	shelf
	readAt  time.Time
	pending *PendingChange
	asked   []time.Time
}

func (c *cachedShelf) Read(ctx context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	states, err := c.shelf.Read(ctx, assets)
	for i := range states {
		states[i].ReadAt, states[i].Pending = c.readAt, c.pending
		c.asked = append(c.asked, assets[i].ReadSince)
	}
	return states, err
}

// What a cache holds is told with its age, counted from when the question came.
func TestAgeOfAnAnswer(t *testing.T) {
	asked := time.Now()
	production := &cachedShelf{shelf: shelf{jobs: map[string]*processpb.Job{"a": {Name: "a", Replicas: 2}}}, readAt: asked.Add(-time.Minute)}
	kind := For(production, Serving{Cadence: time.Hour})
	if served := kind.Served(); served.Cadence != time.Hour {
		t.Errorf("cadence %s", served.Cadence)
	}
	asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 2})
	asset.ReadSince = asked.Add(-2 * time.Minute)
	diff := encodeDifference("a", diffOne(kind, asset), asked)
	if diff.GetInSync() == nil || diff.Age.AsDuration() != time.Minute {
		t.Errorf("%+v", diff)
	}
	if len(production.asked) != 1 || !production.asked[0].Equal(asset.ReadSince) {
		t.Errorf("asked since %s, want %s", production.asked, asset.ReadSince)
	}
	production.readAt = asked.Add(time.Second) // It was read for this question.
	if diff := encodeDifference("a", diffOne(kind, asset), asked); diff.Age != nil {
		t.Errorf("age %s", diff.Age.AsDuration())
	}
}

// A pending change is compared with nothing, and a push finds it too.
func TestPendingChange(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	production := &cachedShelf{
		shelf:   shelf{jobs: map[string]*processpb.Job{"a": {Name: "a", Replicas: 2}}},
		pending: &PendingChange{Reason: "a task runs", Since: since, Ends: "its exit", RetryAfter: time.Minute},
	}
	kind := For(production, Serving{})
	asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 3})
	diff := encodeDifference("a", diffOne(kind, asset), time.Now())
	pending := diff.GetPending()
	if pending.GetReason() != "a task runs" || pending.GetEnds() != "its exit" || !pending.GetSince().AsTime().Equal(since) || pending.GetRetryAfter().AsDuration() != time.Minute || len(diff.Current) == 0 {
		t.Errorf("%+v", diff)
	}
	if outcome := kind.Push(t.Context(), Push{Asset: asset}, nil); outcome.Ending != Stale {
		t.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	production.pending = &PendingChange{}
	if diff := encodeDifference("a", diffOne(kind, asset), time.Now()); diff.GetUnknown() == nil {
		t.Errorf("pending without a reason is %+v", diff)
	}
}
