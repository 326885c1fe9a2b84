package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// sieve runs cases, of which each must turn out as the reference.
func sieve(t *testing.T, o SieveOptions) SieveOutcome {
	t.Helper()
	outcome, err := Sieve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range outcome.Violations {
		t.Errorf("%s\n%s", v, strings.Join(v.Story, "\n"))
	}
	outcome.Violations = nil
	t.Logf("%+v", outcome)
	return outcome
}

// sample is a case of each kind, some way into the history of seed 0.
var sample = []SieveCase{
	{Pattern: Undisturbed},
	{Pattern: IntermediateState, Event: AtEffect, Number: 14},
	{Pattern: IntermediateState, Event: AtCommit, Number: 101},
	{Pattern: StaleState, Event: AtEffect, Number: 15, Stale: "sim-c"},
	{Pattern: StaleState, Event: AtEffect, Number: 20, Stale: News},
	{Pattern: UnobservedState, Event: AtCommit, Number: 60},
	{Pattern: UnobservedState, From: 2, To: 5},
}

func TestSieveOfEachKindOne(t *testing.T) {
	outcome := sieve(t, SieveOptions{Cases: sample})
	want := map[Pattern]int{IntermediateState: 2, StaleState: 2, UnobservedState: 2}
	if !maps.Equal(outcome.Struck, want) {
		t.Errorf("disturbed were %v of %d runs, want %v", outcome.Struck, outcome.Runs, want)
	}
	if outcome.Effects < 25 || outcome.Commits < 150 {
		t.Errorf("the history has %d effects and %d commits only", outcome.Effects, outcome.Commits)
	}
}

func TestSieveCrashAfterEveryEffectAndCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the history some 250 times")
	}
	outcome := sieve(t, SieveOptions{Effects: 1, Commits: 1})
	if outcome.Struck[IntermediateState] != outcome.Effects+outcome.Commits {
		t.Errorf("only %d of %d crashes took place", outcome.Struck[IntermediateState], outcome.Effects+outcome.Commits)
	}
}

func TestSieveOtherPatterns(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the history some 80 times")
	}
	// On machines of their own, where a failover waits for the lock's delay.
	outcome := sieve(t, SieveOptions{Seed: 1, Effects: 9, Points: 499, PluginPoints: 199, Orphans: 23, Stale: 6, Blinks: 50, Edits: 9})
	for _, pattern := range []Pattern{IntermediateState, StaleState, UnobservedState} {
		if outcome.Struck[pattern] < 10 {
			t.Errorf("%s took place %d times", pattern, outcome.Struck[pattern])
		}
	}
}

// unclosing loses the first closing of a push, and says that it took place.
type unclosing struct {
	store.All
	lost *bool
}

func (u unclosing) ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error {
	if !*u.lost {
		*u.lost = true
		return nil
	}
	return u.All.ClosePushes(ctx, lease, closings)
}

// replaying admits the first push that needs no approval once more when it has
// ended.
type replaying struct {
	store.All
	first *store.Admission
}

func (r replaying) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	refusals, err := r.All.Admit(ctx, lease, admissions)
	for i, a := range admissions {
		if err == nil && refusals[i] == nil && r.first.Push == "" && !a.NeedsApproval {
			*r.first = a
		}
	}
	return refusals, err
}

func (r replaying) ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error {
	err := r.All.ClosePushes(ctx, lease, closings)
	for _, closing := range closings {
		if err == nil && closing.Push == r.first.Push {
			again := *r.first
			again.Push += "-again"
			_, _ = r.All.Admit(ctx, lease, []store.Admission{again})
		}
	}
	return err
}

func TestSieveTellsOfDefects(t *testing.T) {
	jobs := func(r world.Resource) bool { return r.Type == "lehr.process.v1.Job" && r.Exists }
	last := len(sieveEdits)
	for name, test := range map[string]struct {
		options SieveOptions
		want    string
	}{
		"production is wrong at the end": {SieveOptions{meddles: func(l *Lab, at int) {
			if all := l.World.Resources(); at == last {
				l.World.Autoscale(all[slices.IndexFunc(all, jobs)].Key, 7)
			}
		}}, "after intent 8 sim:Job/job/a is"},
		"something is missing at the end": {SieveOptions{meddles: func(l *Lab, at int) {
			if at == last {
				l.World.Vanish("sim:Command/record/www")
			}
		}}, "after intent 8 sim:Command/record/www does not exist"},
		"something more had to be repaired": {SieveOptions{meddles: func(l *Lab, at int) {
			if at == 3 && !l.World.Vanish("sim:Balancer/balancer-a") {
				t.Error("there is no such balancer")
			}
		}}, "in the reference by 1"},
		"something had to be made anew": {SieveOptions{meddles: func(l *Lab, at int) {
			if at == 3 && !l.World.Vanish("sim:Balancer/balancer-b") {
				t.Error("there is no such balancer")
			}
		}}, "by create, in the reference by update"},
		"the end of a push is not noted": {SieveOptions{breaks: func(s store.All) store.All {
			return unclosing{s, new(bool)}
		}}, "is open"},
		"a push is admitted twice": {SieveOptions{breaks: func(s store.All) store.All {
			return replaying{s, &store.Admission{}}
		}}, "-again"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !strings.HasPrefix(name, "production") {
				t.Skip("half a second")
			}
			test.options.Cases = []SieveCase{{Pattern: Undisturbed}}
			outcome, err := Sieve(t.Context(), test.options)
			if err != nil {
				t.Fatal(err)
			}
			if len(outcome.Violations) != 1 || !strings.Contains(outcome.Violations[0].String(), test.want) {
				t.Errorf("told of %v, and not of %q", outcome.Violations, test.want)
			}
		})
	}
}
