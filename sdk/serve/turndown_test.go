package serve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

// shelf is a production of jobs that cannot remove.
type shelf struct {
	jobs    map[string]*processpb.Job
	impacts []Impact
	err     error
}

func (s *shelf) Read(_ context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	states := make([]State[*processpb.Job], len(assets))
	for i, asset := range assets {
		states[i] = State[*processpb.Job]{
			Current: s.jobs[asset.Payload.Name], Base: "1", Key: ResourceKey(asset.Payload.Name), Impacts: s.impacts, Err: s.err,
			Health: Health{State: Unhealthy, Reason: "no task runs"}, Notes: map[string]string{"replicas": "why"},
		}
	}
	return states, nil
}

func (s *shelf) Resolve(_ context.Context, asset Asset[*processpb.Job]) (*processpb.Job, error) {
	return asset.Payload, nil
}

func (s *shelf) Apply(_ context.Context, change Change[*processpb.Job], _ Permit) error {
	if change.Asset.TurnedDown() {
		return errors.New("applied what is to be removed")
	}
	s.jobs[change.Target.Name] = change.Target
	return nil
}

// removingShelf can remove.
type removingShelf struct {
	*shelf
	removed []Change[*processpb.Job]
}

func (s *removingShelf) Remove(ctx context.Context, change Change[*processpb.Job], permit Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	s.removed = append(s.removed, change)
	delete(s.jobs, change.State.Current.Name)
	return nil
}

func jobIntent(t *testing.T, job *processpb.Job, addons ...string) Intent {
	t.Helper()
	bytes, err := proto.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	asset := Intent{Asset: intent.Asset{ID: "job", Payload: Message{Type: "lehr.process.v1.Job", Bytes: bytes}}}
	for _, addon := range addons {
		asset.Addons = append(asset.Addons, Message{Type: TypeName("lehr.intent.v1." + addon)})
	}
	return asset
}

func diffOne(kind Kind, asset Intent) Difference {
	return heedsTurndown(asset, kind.Diff(context.Background(), []Intent{asset})[0])
}

// freely permits every effect.
type freely struct{ covered []string }

func (*freely) Effect(context.Context) error { return nil }

func (f *freely) Cover(_ context.Context, base string) error {
	f.covered = append(f.covered, base)
	return nil
}

func TestTurndownPlansAgainstNothing(t *testing.T) {
	job := &processpb.Job{Name: "shop", Replicas: 3}
	world := &removingShelf{shelf: &shelf{jobs: map[string]*processpb.Job{"shop": job}, impacts: []Impact{{Dimension: "tasks", Current: 3, Target: 3}}}}
	kind := For(world, Serving{})
	// What intent says beside the addon plays no part, nor what production owns.
	asset := jobIntent(t, &processpb.Job{Name: "shop", Replicas: 7}, "Turndown", "Unmanaged")

	there := diffOne(kind, asset)
	want := Plan{Action: ActionDelete, Changes: []FieldChange{
		{Path: "name", Current: `"shop"`, Destructive: true},
		{Path: "replicas", Current: "3", Reason: "why", Destructive: true},
	}}
	if diff := cmp.Diff(want, there.Plan); there.Outcome != Differs || diff != "" {
		t.Errorf("outcome %d, plan -want +got:\n%s", there.Outcome, diff)
	}
	if diff := cmp.Diff([]Impact{{Dimension: "tasks", Current: 3}}, there.Impacts); diff != "" {
		t.Errorf("impacts -want +got:\n%s", diff)
	}

	permits := &freely{}
	push := Push{ID: "1", Asset: asset, Plan: there.Plan.Digest(), Base: "1", Progress: func(string) {}}
	if outcome := kind.Push(t.Context(), push, permits); outcome.Ending != Pushed {
		t.Fatalf("%+v", outcome)
	}
	if len(world.removed) != 1 || !proto.Equal(world.removed[0].Target, &processpb.Job{}) || world.removed[0].Push != "1" {
		t.Errorf("removed %+v", world.removed)
	}
	gone := diffOne(kind, asset)
	if gone.Outcome != InSync || len(gone.Current) > 0 || gone.Health.State != "" {
		t.Errorf("when nothing is there: %+v", gone)
	}
	if outcome := kind.Push(t.Context(), push, permits); outcome.Ending != Pushed || len(world.removed) != 1 {
		t.Errorf("a second push: %+v, removed %d times", outcome, len(world.removed))
	}
}

// A removal that was admitted for another state is not carried out.
func TestTurndownOfAnotherStateIsStale(t *testing.T) {
	world := &removingShelf{shelf: &shelf{jobs: map[string]*processpb.Job{"shop": {Name: "shop", Replicas: 3}}}}
	kind := For(world, Serving{})
	asset := jobIntent(t, &processpb.Job{Name: "shop"}, "Turndown")
	push := Push{ID: "1", Asset: asset, Plan: diffOne(kind, asset).Plan.Digest(), Base: "1", Progress: func(string) {}}
	world.jobs["shop"].Replicas = 4
	if outcome := kind.Push(t.Context(), push, &freely{}); outcome.Ending != Stale || len(world.removed) > 0 {
		t.Errorf("%+v, removed %v", outcome, world.removed)
	}
	push.Plan = diffOne(kind, asset).Plan.Digest()
	push.Base = "0"
	permits := &freely{}
	if outcome := kind.Push(t.Context(), push, permits); outcome.Ending != Pushed || len(permits.covered) != 1 {
		t.Errorf("moved base: %+v, covered %v", outcome, permits.covered)
	}
}

func TestWhatCannotBeTurnedDownIsUnknown(t *testing.T) {
	job := &processpb.Job{Name: "shop"}
	there := map[string]*processpb.Job{"shop": job}
	for name, c := range map[string]struct {
		kind   Kind
		reason string
	}{
		"there":       {For(&shelf{jobs: there}, Serving{}), "this plugin cannot turn down a lehr.process.v1.Job"},
		"not there":   {For(&shelf{}, Serving{}), "this plugin cannot turn down a lehr.process.v1.Job"},
		"unread":      {For(&removingShelf{shelf: &shelf{err: errors.New("provider is down")}}, Serving{}), "provider is down"},
		"kind knows":  {rawKind{CannotTurnDown("lehr.process.v1.Job")}, "cannot turn down"},
		"kind edits":  {rawKind{Difference{Outcome: Differs, Plan: Plan{Action: ActionUpdate}}}, "cannot turn down"},
		"kind has it": {rawKind{Difference{Outcome: InSync, Current: []byte("there")}}, "cannot turn down"},
	} {
		if d := diffOne(c.kind, jobIntent(t, job, "Turndown")); d.Outcome != Unknown || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: outcome %d, %q; want unknown because %q", name, d.Outcome, d.Reason, c.reason)
		}
	}
}

// S5: nothing but the addon deletes.
func TestDeletionWithoutTurndownIsRefused(t *testing.T) {
	kind := rawKind{Difference{Outcome: Differs, Plan: Plan{Action: ActionDelete}}}
	if d := diffOne(kind, jobIntent(t, &processpb.Job{})); d.Outcome != Unknown || !strings.Contains(d.Reason, "no addon asks") {
		t.Errorf("%+v", d)
	}
	if d := diffOne(kind, jobIntent(t, &processpb.Job{}, "Turndown")); d.Outcome != Differs {
		t.Errorf("%+v", d)
	}
}

// rawKind always answers the same.
type rawKind struct{ answer Difference }

func (rawKind) Served() Served { return Served{Type: "lehr.process.v1.Job"} }

func (k rawKind) Diff(_ context.Context, assets []Intent) []Difference {
	return []Difference{k.answer}
}

func (rawKind) Push(context.Context, Push, Permits) Outcome { return Outcome{} }
