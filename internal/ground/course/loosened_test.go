package course_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
)

// TestLoosened tells each part of a rollout that asks for less, and nothing where it
// asks for as much, or more.
func TestLoosened(t *testing.T) {
	strict := func() *intentpb.Policy {
		return &intentpb.Policy{
			Rollouts: []*intentpb.Rollout{{
				Name: "web", Select: "true", After: []string{"canary"}, Validate: []string{"errors"}, Patience: durationpb.New(time.Minute), Newer: intentpb.Rollout_NEWER_IS_HELD,
				Stages: []*intentpb.RolloutStage{
					{Name: "canary", Scopes: []string{"a"}, Soak: durationpb.New(time.Hour), Count: 1},
					{Name: "rest", Delay: durationpb.New(time.Hour), Percent: 10, Most: 5, Factor: 2},
				},
			}},
			Validations: []*intentpb.Validation{{Name: "errors", Alpha: 0.01}},
		}
	}
	hours := func(text string) *intentpb.Calendar {
		return &intentpb.Calendar{Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: text}}}}
	}
	// What a stage asks more is nothing less: a window where there was none.
	windowed := strict()
	windowed.Rollouts[0].Stages[0].Window = hours("09:00-17:00")
	if said := course.Loosened(strict(), windowed, "web"); len(said) > 0 {
		t.Errorf("a window more is loosened: %q", said)
	}
	for _, window := range []*intentpb.Calendar{nil, hours("00:00-23:59")} {
		other := strict()
		other.Rollouts[0].Stages[0].Window = window
		if said := course.Loosened(windowed, other, "web"); !slices.Equal(said, []string{"the stage canary has another window, or none"}) {
			t.Errorf("another window, or none: %q", said)
		}
	}
	if said := course.Loosened(strict(), strict(), "web"); len(said) > 0 {
		t.Errorf("the same is loosened: %q", said)
	}
	approved := func(quorum uint32, expires time.Duration, roles ...string) *intentpb.Policy {
		p := strict()
		p.Rollouts[0].Stages[1].Approval = &intentpb.Judgement{Quorum: quorum, Roles: roles, Expires: durationpb.New(expires)}
		return p
	}
	never := approved(2, time.Hour)
	never.Rollouts[0].Stages[1].Approval.Expires = nil
	for name, looser := range map[string]*intentpb.Policy{
		"nobody": strict(), "one person": approved(0, time.Hour), "others": approved(2, time.Hour, "operator"), "for longer": approved(2, 2*time.Hour), "for good": never,
	} {
		if said := course.Loosened(approved(2, time.Hour), looser, "web"); !slices.Equal(said, []string{"the stage rest asks fewer people, or others, to approve it"}) {
			t.Errorf("%s: said %q", name, said)
		}
	}
	for name, stricter := range map[string]*intentpb.Policy{"three people": approved(3, time.Hour), "for less long": approved(2, time.Minute)} {
		if said := course.Loosened(approved(2, time.Hour), stricter, "web"); len(said) > 0 {
			t.Errorf("%s is loosened: %q", name, said)
		}
	}
	if said := course.Loosened(strict(), approved(1, time.Hour), "web"); len(said) > 0 {
		t.Errorf("an approval more is loosened: %q", said)
	}
	changes := map[string]func(p *intentpb.Policy, r *intentpb.Rollout){
		"it changes something else": func(_ *intentpb.Policy, r *intentpb.Rollout) {
			r.Field = &intentpb.DocumentField{Document: "d", Pointer: "/x"}
		},
		"what is bad is not rolled back":              func(_ *intentpb.Policy, r *intentpb.Rollout) { r.OnBad = intentpb.Rollout_ON_BAD_STOP },
		"it waits for no person to start it":          func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Newer = intentpb.Rollout_NEWER_SUPERSEDES },
		"it is patient for longer":                    func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Patience = durationpb.New(time.Hour) },
		"it comes no longer after the rollout canary": func(_ *intentpb.Policy, r *intentpb.Rollout) { r.After = nil },
		"the validation errors is dropped":            func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Validate = nil },
		"it has other stages":                         func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages = r.Stages[1:] },
		"the stage canary soaks for less time":        func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[0].Soak = nil },
		"the stage rest begins earlier":               func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[1].Delay = nil },
		"the stage canary lets more go on at a time":  func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[0].Count = 0 },
		"the stage rest lets more go on at a time":    func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[1].Factor = 3 },
		"the stage rest has more groups under way":    func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[1].Parallel = 2 },
	}
	for want, loosen := range changes {
		looser := strict()
		loosen(looser, looser.Rollouts[0])
		if said := course.Loosened(strict(), looser, "web"); !slices.Equal(said, []string{want}) {
			t.Errorf("said %q, want %q", said, want)
		}
		if said := course.Loosened(looser, strict(), "web"); len(said) > 0 && want != "it changes something else" && want != "it has other stages" {
			t.Errorf("%s the other way round: %q", want, said)
		}
	}
	for want, change := range map[string]func(p *intentpb.Policy, r *intentpb.Rollout){
		"the validation errors is changed":            func(p *intentpb.Policy, _ *intentpb.Rollout) { p.Validations[0].Alpha = 0.001 },
		"the stage canary has other assets or groups": func(_ *intentpb.Policy, r *intentpb.Rollout) { r.Stages[0].Scopes = []string{"a", "b"} },
	} {
		other := strict()
		change(other, other.Rollouts[0])
		if said := course.Loosened(strict(), other, "web"); !slices.Equal(said, []string{want}) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
	if said := course.Loosened(strict(), &intentpb.Policy{}, "web"); len(said) > 0 {
		t.Errorf("of what is dropped its assets stay: %q", said)
	}
}
