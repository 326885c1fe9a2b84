package promotion

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// play is a situation of an application "test" -> "prod", and what is decided for one of them.
type play struct {
	name         string
	environments []*intentpb.DeliveryEnvironment
	versions     []Version
	facts        Facts
	// of is the environment; empty: prod.
	of    string
	wants int
	why   Why
	hold  Hold
	// states of the versions, the oldest first: a letter each, see letters.
	states string
}

// letters of states, by their number.
const letters = "?.adcpsSvfwu"

func (p play) run(t *testing.T) {
	app := application(t, p.environments...)
	if p.facts.Now.IsZero() {
		p.facts.Now = after(10)
	}
	c := upTo(t, 4)
	if p.versions != nil {
		c = catalogue(t, p.versions...)
	}
	d := app.Decide(c, &p.facts)
	if p.of == "" {
		p.of = "prod"
	}
	at := app.byName[p.of]
	o := d.Outcomes[at]
	want := intent.VersionName{}
	if p.wants > 0 {
		want = named(p.wants)
	}
	if o.Wants != want || o.Why != p.why || o.Hold != p.hold {
		t.Errorf("wants %s, why %d, hold %d; want %s, %d, %d", o.Wants.Name, o.Why, o.Hold, want.Name, p.why, p.hold)
	}
	if o.Edit != (o.Wants != o.Has && o.Hold == NoHold) {
		t.Errorf("%+v", o)
	}
	var states strings.Builder
	for _, s := range d.States(at) {
		states.WriteByte(letters[s])
	}
	if states.String() != p.states {
		t.Errorf("states %s, want %s", states.String(), p.states)
	}
}

func environments(pairs ...any) map[string]*Environment {
	all := map[string]*Environment{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1].(*Environment)
	}
	return all
}

func queues(e *intentpb.DeliveryEnvironment) *intentpb.DeliveryEnvironment {
	e.Newer = intentpb.DeliveryEnvironment_NEWER_QUEUES
	return e
}

func stays(e *intentpb.DeliveryEnvironment) *intentpb.DeliveryEnvironment {
	e.OnBad = intentpb.DeliveryEnvironment_ON_BAD_STAY
	return e
}

func verified(e *intentpb.DeliveryEnvironment) *intentpb.DeliveryEnvironment {
	e.Verify = []string{"smoke"}
	return e
}

func act(kind ActKind, environment string, n int, hour float64) Act {
	a := Act{Kind: kind, Environment: environment, By: "user:ann", Reason: "because", At: after(hour)}
	if n > 0 {
		a.VersionName = named(n)
	}
	return a
}

func TestLetIn(t *testing.T) {
	both := []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(2*time.Hour, "test"))}
	withdrawn := version(4)
	withdrawn.Withdrawn = true
	odd := version(4)
	odd.Name = "latest"
	for _, p := range []play{
		{name: "nothing is known yet", environments: both, of: "test", wants: 4, why: LetIn, states: "...a"},
		{name: "nothing was in test", environments: both, states: "...."},
		{name: "it was stable there", environments: both, facts: Facts{Environments: environments("test", had(stayed(2, 3, 4, -1)))}, wants: 2, why: LetIn, states: ".a.."},
		{name: "it is not stable yet", environments: both, facts: Facts{Environments: environments("test", had(stayed(2, 3, 8.5, -1)))}, states: "...."},
		{name: "it has not converged there", environments: both, facts: Facts{Environments: environments("test", had(stayed(2, 3, -1, -1)))}, states: "...."},
		{
			name: "it was stable before the next came", environments: both, wants: 1, why: LetIn, states: "a...",
			facts: Facts{Environments: environments("test", had(stayed(1, 1, 1, 3), stayed(2, 3, 9, -1)))},
		},
		{
			name: "the next came too soon", environments: both, states: "....",
			facts: Facts{Environments: environments("test", had(stayed(1, 1, 1, 2.5), stayed(2, 3, 9, -1)))},
		},
		{
			name: "nothing newer is let in", environments: both, wants: 2, states: "sc..",
			facts: Facts{Environments: environments("test", had(stayed(2, 1, 1, -1)), "prod", had(stayed(2, 4, 5, -1)))},
		},
		{
			name: "it is on its way", environments: both, wants: 2, states: "pd..",
			facts: Facts{Environments: environments("test", had(stayed(2, 1, 1, -1)), "prod", had(stayed(1, 1, 2, 9), stayed(2, 9, -1, -1)))},
		},
		{
			name: "older is never newer", environments: both, wants: 3, states: "ssc.",
			facts: Facts{Environments: environments("test", had(stayed(2, 1, 1, -1)), "prod", had(stayed(3, 4, 5, -1)))},
		},
		{
			name: "what was withdrawn is passed by", environments: []*intentpb.DeliveryEnvironment{env("prod")}, versions: []Version{version(3), withdrawn}, wants: 3, why: LetIn, states: "aw",
		},
		{
			name: "what has no order is passed by", environments: []*intentpb.DeliveryEnvironment{env("prod")}, versions: []Version{version(3), odd}, wants: 3, why: LetIn, states: "a",
		},
		{
			name: "several that are let in come one after the other", environments: []*intentpb.DeliveryEnvironment{queues(env("prod", judged(1, 0)))}, wants: 2, why: LetIn, states: "cava",
			facts: Facts{
				Environments: environments("prod", had(stayed(1, 1, 1, -1))),
				Votes:        []Vote{approval(4, "prod", "user:ann", 2), approval(3, "prod", "user:ann", 2), approval(2, "prod", "user:bo", 2)},
				Acts:         []Act{act(MarkBad, "prod", 3, 3)},
			},
		},
		{
			name: "the next waits for the one before it", environments: []*intentpb.DeliveryEnvironment{queues(env("prod"))}, wants: 2, states: "pdaa",
			facts: Facts{Environments: environments("prod", had(stayed(1, 1, 1, 2), stayed(2, 2, -1, -1)))},
		},
		{
			name: "it was let in and never came", environments: both, wants: 3, states: "sSc.",
			facts: Facts{Environments: environments("prod", &Environment{Stays: []Stay{stayed(3, 4, 5, -1)}, Approved: []intent.VersionName{named(2), named(3)}})},
		},
	} {
		t.Run(p.name, p.run)
	}
}

func TestBad(t *testing.T) {
	plain := []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}
	went := func(more ...Stay) *Environment { return had(append([]Stay{stayed(1, 0, 1, 2)}, more...)...) }
	veto := func(e *Environment, n, back int) *Environment {
		e.Vetoes = append(e.Vetoes, Veto{VersionName: named(n), At: after(5), Rollout: "web"})
		if back > 0 {
			e.Vetoes[len(e.Vetoes)-1].BackTo = named(back)
		}
		return e
	}
	holding := func(e *Environment) *Environment { e.Rollout = true; return e }
	votes := []Vote{approval(3, "prod", "user:ann", 2)}
	for _, p := range []play{
		{
			name: "a person says so", environments: plain, wants: 1, why: WentBack, states: "av..",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "prod", 2, 4)}},
		},
		{
			name: "a person says so of all environments", environments: plain, wants: 1, why: WentBack, states: "av..",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "", 2, 4)}},
		},
		{
			name: "a person takes it back", environments: plain, wants: 2, states: "pc..",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "prod", 2, 4), act(MarkGood, "prod", 2, 5)}},
		},
		{
			name: "what is newer and let in comes instead", environments: plain, wants: 3, why: LetIn, states: "pva.",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "prod", 2, 4)}, Votes: votes},
		},
		{
			name: "nothing was good before", environments: plain, wants: 2, hold: HeldForNothingGood, states: "sv..",
			facts: Facts{Environments: environments("prod", had(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "prod", 2, 4)}},
		},
		{
			name: "it stays by policy", environments: []*intentpb.DeliveryEnvironment{stays(env("prod", judged(1, 0)))}, wants: 2, states: "pv..",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, -1))), Acts: []Act{act(MarkBad, "prod", 2, 4)}},
		},
		{
			name: "a rollout is still going back", environments: plain, wants: 1, why: FollowsRollout, hold: HeldByRollout, states: "av..",
			facts: Facts{Environments: environments("prod", holding(veto(went(stayed(2, 2, 3, -1)), 2, 1))), Votes: votes},
		},
		{
			name: "a rollout went back, and the field follows before anything newer comes", environments: plain, wants: 1, why: FollowsRollout, states: "av..",
			facts: Facts{Environments: environments("prod", veto(went(stayed(2, 2, 3, -1)), 2, 1)), Votes: votes},
		},
		{
			name: "a rollout that stayed has delivery go back", environments: plain, wants: 1, why: WentBack, states: "av..",
			facts: Facts{Environments: environments("prod", veto(went(stayed(2, 2, 3, -1)), 2, 0))},
		},
		{
			name: "the field follows a rollout whatever is pinned", environments: plain, wants: 1, why: FollowsRollout, states: "av..",
			facts: Facts{Environments: environments("prod", veto(went(stayed(2, 2, 3, -1)), 2, 1)), Acts: []Act{act(Pin, "prod", 2, 3)}},
		},
		{
			name: "once it went back it stays so", environments: plain, wants: 1, states: "cv..",
			facts: Facts{Environments: environments("prod", veto(went(stayed(2, 2, 3, 6), stayed(1, 6, 6, -1)), 2, 1)), Votes: []Vote{approval(2, "prod", "user:ann", 1)}},
		},
		{
			name: "what was passed by does not come because what passed it by was bad", environments: plain, wants: 1, states: "csv.",
			facts: Facts{Environments: environments("prod", went(stayed(3, 2, 3, 6), stayed(1, 6, 6, -1))), Acts: []Act{act(MarkBad, "prod", 3, 5)}, Votes: []Vote{approval(2, "prod", "user:ann", 1)}},
		},
		{
			name: "what was never good is not gone back to", environments: plain, wants: 1, why: WentBack, states: "apv.",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, -1, 3), stayed(3, 3, 4, -1))), Acts: []Act{act(MarkBad, "prod", 3, 5)}},
		},
		{
			name: "it failed for good", environments: plain, wants: 1, why: WentBack, states: "af..",
			facts: Facts{Environments: environments("prod", func() *Environment {
				e := went(stayed(2, 2, -1, -1))
				e.Failures = []Failure{{named(2), 3, after(5)}}
				return e
			}()), Votes: []Vote{approval(2, "prod", "user:ann", 1)}},
		},
		{
			name: "it is tried again after a while", environments: plain, wants: 2, why: LetIn, states: "ca..",
			facts: Facts{Environments: environments("prod", func() *Environment {
				e := went(stayed(2, 2, -1, 5), stayed(1, 5, 6, -1))
				e.Failures = []Failure{{named(2), 2, after(5)}}
				return e
			}()), Votes: []Vote{approval(2, "prod", "user:ann", 1)}},
		},
		{
			name: "what was denied since is not gone back to", environments: []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0), deny("1.2.*"))}, wants: 1, why: WentBack, states: "apv.",
			facts: Facts{Environments: environments("prod", went(stayed(2, 2, 3, 4), stayed(3, 4, 5, -1))), Acts: []Act{act(MarkBad, "prod", 3, 6)}},
		},
	} {
		t.Run(p.name, p.run)
	}
}

func TestActs(t *testing.T) {
	plain := []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "test"))}
	tested := had(stayed(2, 0, 1, 2), stayed(4, 2, 3, -1))
	was := func() *Environment { return had(stayed(1, 0, 1, 2), stayed(2, 2, 3, -1)) }
	paused := act(Pause, "", 0, 4)
	back := act(RollBack, "prod", 1, 4)
	back.Had = named(2)
	force := act(Force, "prod", 3, 5)
	force.Constraint = "tested"
	passed := dependsOn(0, "test")
	passed.PassedByHotfix = true
	trouble := was()
	trouble.Trouble = FieldGone
	edited := was()
	edited.EditedAt = after(5)
	verifying := was()
	verifying.Verifying = true
	for _, p := range []play{
		{name: "a pin keeps what is there", environments: plain, wants: 2, why: Pinned, states: "pc..", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 2, 4)}}},
		{name: "a pin goes back to what was good", environments: plain, wants: 1, why: Pinned, states: "ac..", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 1, 4)}}},
		{name: "a pin waits for constraints", environments: plain, wants: 2, hold: HeldByConstraint, states: "pc..", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 3, 4)}}},
		{name: "a pin that was forced past does not", environments: plain, wants: 3, why: Pinned, states: "pca.", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 3, 4), force}}},
		{name: "a pin to what is bad moves nothing", environments: plain, wants: 2, hold: HeldByBadPin, states: "pcv.", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 3, 4), force, act(MarkBad, "prod", 3, 6)}}},
		{name: "a pin that was removed", environments: plain, wants: 4, why: LetIn, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pin, "prod", 2, 4), act(Unpin, "prod", 0, 5)}}},
		{name: "forced past for one version only", environments: plain, wants: 4, why: LetIn, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{force}}},
		{name: "forced past, and what is newer is not", environments: plain, wants: 3, why: LetIn, states: "pca.", facts: Facts{Environments: environments("test", had(stayed(2, 0, 1, 2), stayed(4, 2, -1, -1)), "prod", was()), Acts: []Act{force}}},
		{name: "a hotfix is held by what does not let it pass", environments: plain, wants: 2, states: "pc..", facts: Facts{Environments: environments("test", had(stayed(2, 0, 1, 2), stayed(4, 2, -1, -1)), "prod", was()), Acts: []Act{act(Hotfix, "", 4, 5)}}},
		{name: "a hotfix passes over what lets it", environments: []*intentpb.DeliveryEnvironment{env("test"), env("prod", passed)}, wants: 3, why: LetIn, states: "pca.", facts: Facts{Environments: environments("test", had(stayed(2, 0, 1, 2), stayed(4, 2, -1, -1)), "prod", was()), Acts: []Act{act(Hotfix, "", 3, 5)}}},
		{name: "paused everywhere", environments: plain, wants: 4, why: LetIn, hold: HeldByPause, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{paused}}},
		{name: "the environment is resumed, the application is not", environments: plain, wants: 4, why: LetIn, hold: HeldByPause, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{paused, act(Pause, "prod", 0, 4), act(Resume, "prod", 0, 5)}}},
		{name: "the application is resumed, the environment is not", environments: plain, wants: 4, why: LetIn, hold: HeldByPause, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", was()), Acts: []Act{act(Pause, "prod", 0, 4), paused, act(Resume, "", 0, 5)}}},
		{name: "rolled back", environments: plain, wants: 1, why: AskedBack, states: "av..", facts: Facts{Environments: environments("prod", was()), Acts: []Act{back}}},
		{name: "rolled back, and what was not meant comes", environments: plain, wants: 4, why: LetIn, states: "cv.a", facts: Facts{Environments: environments("test", tested, "prod", had(stayed(1, 0, 1, 2), stayed(2, 2, 3, 4.5), stayed(1, 4.5, 5, -1))), Acts: []Act{back}}},
		{name: "skipped to", environments: plain, of: "test", wants: 4, why: LetIn, states: "cssa", facts: Facts{Environments: environments("test", had(stayed(1, 0, 1, -1))), Acts: []Act{act(SkipTo, "test", 4, 2)}}},
		{name: "the field is gone", environments: plain, wants: 4, why: LetIn, hold: HeldByTrouble, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", trouble)}},
		{name: "a person edited the field", environments: plain, wants: 4, why: LetIn, hold: HeldByEdit, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", edited)}},
		{name: "and says that delivery goes on", environments: plain, wants: 4, why: LetIn, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", edited), Acts: []Act{act(Resume, "prod", 0, 6)}}},
		{name: "a verification is under way", environments: plain, wants: 4, why: LetIn, hold: HeldByVerification, states: "pc.a", facts: Facts{Environments: environments("test", tested, "prod", verifying)}},
		{name: "what it has is not known", environments: plain, of: "test", wants: 9, hold: HeldByOrder, states: "....", facts: Facts{Environments: environments("test", had(stayed(9, 0, 1, -1)))}},
		{name: "and a person says from where on", environments: plain, of: "test", wants: 4, why: LetIn, states: "s..a", facts: Facts{Environments: environments("test", had(stayed(9, 0, 1, -1))), Acts: []Act{act(SkipTo, "test", 2, 3)}}},
	} {
		t.Run(p.name, p.run)
	}
}
