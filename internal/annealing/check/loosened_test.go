package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
)

func TestLoosened(t *testing.T) {
	strict := func() *intentpb.Policy {
		return &intentpb.Policy{
			Checks:    []*intentpb.Check{{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(time.Hour)}}}},
			Budgets:   []*intentpb.Budget{{Scope: "cluster", InFlight: 1, Unhealthy: 2}},
			Plugins:   []*intentpb.PluginBinding{{Type: "t.Job", Run: []string{"job"}, AtOnce: 4}},
			Turndowns: 1,
			Approval:  &intentpb.ApprovalPolicy{Quorum: 2, Expires: durationpb.New(time.Hour)},
			Overrides: &intentpb.OverridePolicy{Allow: []string{"order"}, Longest: durationpb.New(time.Hour)},
			Shrink:    &intentpb.ShrinkGuard{MaxRemovedPercent: 10, MaxChangedPercent: 20, Floor: 1, Period: durationpb.New(time.Hour)},
			Rules:     []*intentpb.ValidationRule{{Id: "two", Must: "true"}},
		}
	}
	if said := check.Loosened(strict(), strict()); len(said) > 0 {
		t.Errorf("the same is loosened: %q", said)
	}
	for want, loosen := range map[string]func(*intentpb.Policy){
		"the check soak (min_age) is dropped":                                    func(p *intentpb.Policy) { p.Checks = nil },
		"the check soak (min_age) is changed":                                    func(p *intentpb.Policy) { p.Checks[0].Where = "id == 'a'" },
		"the budget of cluster is dropped":                                       func(p *intentpb.Policy) { p.Budgets = nil },
		"the budget of cluster grows from 1 to 2":                                func(p *intentpb.Policy) { p.Budgets[0].InFlight = 2 },
		"more assets of cluster may be unhealthy than 2":                         func(p *intentpb.Policy) { p.Budgets[0].Unhealthy = 3 },
		"more pushes of t.Job may be under way than 4":                           func(p *intentpb.Policy) { p.Plugins[0].AtOnce = 0 },
		"3 removals at once, in place of 1":                                      func(p *intentpb.Policy) { p.Turndowns = 3 },
		"a plan needs the approval of 1 people, in place of 2":                   func(p *intentpb.Policy) { p.Approval.Quorum = 0 },
		"an approval counts for longer":                                          func(p *intentpb.Policy) { p.Approval.Expires = nil },
		"the check soak may be overridden":                                       func(p *intentpb.Policy) { p.Overrides.Allow = []string{"order", "soak"} },
		"an override may be given for longer":                                    func(p *intentpb.Policy) { p.Overrides.Longest = durationpb.New(2 * time.Hour) },
		"the guard against removing or changing too much at once lets more pass": func(p *intentpb.Policy) { p.Shrink.Period = durationpb.New(time.Minute) },
		"the rule two is dropped":                                                func(p *intentpb.Policy) { p.Rules = nil },
		"the rule two is changed":                                                func(p *intentpb.Policy) { p.Rules[0].Where = "false" },
	} {
		looser := strict()
		loosen(looser)
		said := check.Loosened(strict(), looser)
		if len(said) != 1 || !strings.HasPrefix(said[0], want) {
			t.Errorf("said %q, want %q", said, want)
		}
		// What is asked for anew is told only where it cannot be told from what is
		// loosened.
		tightened := slices.DeleteFunc(check.Loosened(looser, strict()), func(s string) bool { return strings.HasSuffix(s, "is changed") })
		if len(tightened) > 0 && !proto.Equal(looser, strict()) {
			t.Errorf("tightening is told: %q", tightened)
		}
	}
}
