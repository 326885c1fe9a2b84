package explain_test

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// underRollout are facts of web/b, which the rollout frontends governs: pinned at an
// incarnation, or not let go on at all; and the others' reports.
func underRollout(at intent.Sequence, run *intent.Rollout, reports ...intent.Report) explain.Facts {
	own := waiting("web/b", intent.WaitingOn{Kind: intent.WaitNotSelected, Owner: "rollout/frontends", Reason: "the rollout frontends has not let it go on yet"})
	if at > 0 {
		own = intent.Report{Asset: "web/b", State: intent.StateInSync, Target: intent.IncarnationID{Partition: "shop", Sequence: at}, Effective: intent.Sum("old"), At: now}
	}
	f := facts("web/b", append(reports, own)...)
	f.Members["web/b"] = intent.Member{Asset: "web/b", Effective: intent.Sum("new")}
	f.Pins = map[intent.AssetID][]intent.Pin{"web/b": {{Asset: "web/b", Incarnation: intent.IncarnationID{Partition: "shop", Sequence: at}, Rank: intent.RankRollout, Revision: 1, Holder: intent.RolloutHolder("frontends"), Created: now}}}
	if run != nil {
		run.Name, run.Run, run.To, run.Began = "frontends", 3, head, now.Add(-time.Hour)
		f.Rollouts = map[string]intent.Rollout{"frontends": *run}
	}
	return f
}

// holding are facts in which ann holds web/a, which is as web/b is; both are in sync where
// their pins keep them.
func holding(f explain.Facts, until time.Time) explain.Facts {
	own := f.Reports["web/b"]
	own.Asset = "web/a"
	f.Reports["web/a"], f.Members["web/a"] = own, intent.Member{Asset: "web/a", Effective: intent.Sum("new")}
	pin := f.Pins["web/b"][0]
	pin.Asset = "web/a"
	f.Pins["web/a"] = []intent.Pin{pin}
	f.Holds = map[intent.AssetID]intent.Hold{"web/a": {Asset: "web/a", Owner: intent.Actor{Name: "ann"}, Reason: "racks", Created: now.Add(-time.Minute), Until: until}}
	return f
}

// TestAHoldUnderARolloutIsACauseOfAll: everything is in sync where it is kept, and nothing
// goes on.
func TestAHoldUnderARolloutIsACauseOfAll(t *testing.T) {
	f := holding(underRollout(3, waitsFor("stage canary waits for web/a: it is held by ann: racks", "web/a")), time.Time{})
	rolled := explain.Roll(f, "", map[intent.State]int{intent.StateInSync: 2}, nil)
	if len(rolled.Causes) != 1 || rolled.Causes[0].Root.Owner != "ann" || rolled.Causes[0].Root.Hint != "lehr unhold web/a --reason WHY lets it be pushed" ||
		rolled.Summary != "partition shop: all 2 are in sync: web/a: ann holds it since 2026-11-20T11:59:00Z: racks" {
		t.Errorf("%q, %+v", rolled.Summary, rolled.Causes)
	}
	told := intent.WaitingOn{Kind: intent.WaitHold, Reason: "ann holds it", Owner: "ann"}
	f.Reports["web/a"] = waiting("web/a", intent.WaitingOn{Kind: intent.WaitNotSelected, Reason: "not yet"}, told)
	f.Holds = nil
	if rolled := explain.Roll(f, "", map[intent.State]int{intent.StateInSync: 1, intent.StateWaiting: 1}, []intent.AssetID{"web/a"}); len(rolled.Causes) != 1 {
		t.Errorf("it is told twice: %+v", rolled.Causes)
	}
}

// after are facts of a rollout that comes after canary, which goes on.
func after(f explain.Facts) explain.Facts {
	if f.Rollouts == nil {
		f.Rollouts = map[string]intent.Rollout{}
	}
	canary := waitsFor("stage 1 waits for web/a, which is not healthy", "web/a")
	canary.Run = 9
	f.Before, f.Rollouts["canary"] = map[string][]string{"frontends": {"canary"}}, *canary
	return f
}

func waitsFor(text string, assets ...intent.AssetID) *intent.Rollout {
	return &intent.Rollout{State: intent.RolloutRunning, Progress: intent.RolloutProgress{Waits: text, For: assets}}
}

// TestWhyUnderARollout: the root cause of what a rollout keeps is what the rollout
// waits for, however far away that is; and of a paused one who paused it, and why.
func TestWhyUnderARollout(t *testing.T) {
	ill := intent.Report{Asset: "web/a", State: intent.StateInSync, Target: head, At: now, Health: intent.Health{State: intent.Unhealthy, Reason: "answers 500"}}
	order := intent.WaitingOn{Kind: intent.WaitOrder, Reason: "must come after db", Blockers: []intent.AssetID{"db"}}
	hold := intent.WaitingOn{Kind: intent.WaitHold, Reason: "held by ann: migration", Owner: "ann"}
	paused := waitsFor("paused by ann: lunch")
	paused.State = intent.RolloutPaused
	paused.Events = []intent.RolloutEvent{{Kind: "pause", At: now.Add(-5 * time.Minute), By: intent.Actor{Name: "ann"}, Text: "lunch"}}
	itself := waitsFor("")
	itself.State = intent.RolloutPaused
	itself.Events = []intent.RolloutEvent{{Kind: "pause", At: now, By: intent.RolloutHolder("frontends"), Text: "the validation errors cannot tell"}}
	bad := waitsFor("shop@7 has content of web/a that was judged bad", "web/a")
	bad.State, bad.Bad = intent.RolloutRolledBack, "web/a is unhealthy"
	soaks := waitsFor("stage canary waits for web/a to be healthy for 4m0s", "web/a")
	soaks.Progress.Next = now.Add(4 * time.Minute)
	held := waiting("web/b", hold)
	healthy := ill
	healthy.Health = intent.Health{State: intent.Healthy}

	tests := map[string]struct {
		facts         explain.Facts
		root, summary string
		owner, hint   string
	}{
		"not selected, for the canary is ill": {
			underRollout(0, waitsFor("stage canary waits for web/a, which is not healthy", "web/a"), ill), "unhealthy/web/a",
			"web/b is not let go on: the rollout frontends (run 3) is running: stage canary waits for web/a, which is not healthy: web/a: its plugin says that it is unhealthy: answers 500", "", "",
		},
		"behind, for the canary waits for what ann holds": {
			underRollout(3, waitsFor("stage canary waits for web/a: must come after db", "web/a"), waiting("web/a", order), waiting("db", hold)), "hold/db",
			"web/b is not let go on: the rollout frontends (run 3) is running: stage canary waits for web/a: must come after db: db: held by ann: migration", "ann", "lehr unhold db",
		},
		"behind, for the canary is held": {
			holding(underRollout(3, waitsFor("stage canary waits for web/a: it is held by ann: racks", "web/a")), time.Time{}), "hold/web/a",
			"web/b is not let go on: the rollout frontends (run 3) is running: stage canary waits for web/a: it is held by ann: racks: web/a: ann holds it since 2026-11-20T11:59:00Z: racks", "ann", "lehr unhold web/a",
		},
		"behind, for the canary was held": {
			holding(underRollout(3, waitsFor("stage canary waits for web/a", "web/a")), now), "rollout/",
			"web/b is not let go on: the rollout frontends (run 3) is running: stage canary waits for web/a", "", "lehr rollout status frontends",
		},
		"behind, for the canary soaks": {
			underRollout(3, soaks, healthy), "rollout/",
			"web/b is not let go on: the rollout frontends (run 3) is running: stage canary waits for web/a to be healthy for 4m0s", "", "lehr rollout status frontends",
		},
		"paused by a person": {
			underRollout(3, paused), "rollout/", "web/b is not let go on: the rollout frontends (run 3) is paused by ann 5m ago: lunch", "ann", "lehr rollout resume frontends",
		},
		"paused by itself": {
			underRollout(0, itself), "rollout/", "is paused by itself just now: the validation errors cannot tell", "", "lehr rollout resume frontends",
		},
		"rolled back": {
			underRollout(3, bad, ill), "rollout/", "is rolled-back, for what it brought is bad: web/a is unhealthy", "", "lehr rollout forgive frontends",
		},
		"the canary of the rollout that it comes after is ill": {
			after(underRollout(3, &intent.Rollout{State: intent.RolloutDone, Progress: intent.RolloutProgress{Cause: intent.CauseRollouts, Waits: "for the rollout canary to go through with shop@7", For: []intent.AssetID{"web/a"}}}, ill)), "unhealthy/web/a",
			"web/b is not let go on: the rollout frontends (run 3) is done; waits for the rollout canary to go through with shop@7: web/a: its plugin says that it is unhealthy: answers 500", "", "",
		},
		"no run yet, for another goes first": {
			after(underRollout(0, nil, ill)), "unhealthy/web/a",
			"web/b is not let go on: the rollout frontends has no run yet, and comes after canary: web/a: its plugin says that it is unhealthy: answers 500", "", "",
		},
		"no run yet": {underRollout(0, nil), "rollout/", "web/b is not let go on: the rollout frontends has no run yet", "", "lehr rollout plan frontends"},
		"it waits for the asset itself": {
			underRollout(3, waitsFor("stage rest waits for web/b: held by ann", "web/b")), "rollout/", "stage rest waits for web/b: held by ann", "", "",
		},
		"another waits for one that a rollout keeps": func() struct {
			facts         explain.Facts
			root, summary string
			owner, hint   string
		} {
			f := underRollout(0, waitsFor("stage canary waits for web/a, which is not healthy", "web/a"), ill,
				waiting("api", intent.WaitingOn{Kind: intent.WaitOrder, Reason: "must come after web/b", Blockers: []intent.AssetID{"web/b"}}))
			f.Asset = "api"
			return struct {
				facts         explain.Facts
				root, summary string
				owner, hint   string
			}{f, "unhealthy/web/a", "api waits for web/a: its plugin says that it is unhealthy: answers 500", "", ""}
		}(),
		"held while it waits": func() struct {
			facts         explain.Facts
			root, summary string
			owner, hint   string
		} {
			f := underRollout(3, waitsFor("stage canary waits for web/a, which is not healthy", "web/a"), ill)
			f.Reports["web/b"] = held
			return struct {
				facts         explain.Facts
				root, summary string
				owner, hint   string
			}{f, "hold/web/b", "held by ann: migration", "ann", ""}
		}(),
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := explain.Explain(test.facts)
			if got := answer.Root.Kind + "/" + string(answer.Root.Asset); got != test.root {
				t.Errorf("the root is %s, want %s: %+v", got, test.root, answer.Reasons)
			}
			if !strings.Contains(answer.Summary, test.summary) {
				t.Errorf("it says %q, want %q", answer.Summary, test.summary)
			}
			if answer.Root.Owner != test.owner || !strings.Contains(answer.Root.Hint, test.hint) {
				t.Errorf("owner %q, hint %q", answer.Root.Owner, answer.Root.Hint)
			}
		})
	}
}

// TestARolloutIsFollowedOnce: what two assets of it wait for is one chain, and one
// that waits for what it keeps itself has an end.
func TestARolloutIsFollowedOnce(t *testing.T) {
	f := underRollout(3, waitsFor("stage rest waits for web/a", "web/a"))
	f.Reports["web/a"] = intent.Report{Asset: "web/a", State: intent.StateInSync, Target: f.Reports["web/b"].Target, Effective: intent.Sum("old"), At: now}
	f.Members["web/a"] = intent.Member{Asset: "web/a", Effective: intent.Sum("new")}
	pin := f.Pins["web/b"][0]
	pin.Asset = "web/a"
	f.Pins["web/a"] = []intent.Pin{pin}
	answer := explain.Explain(f)
	if !strings.Contains(answer.Summary, "stage rest waits for web/a") || answer.Root.Kind != "rollout" {
		t.Errorf("%s: %+v", answer.Summary, answer.Root)
	}
	rolled := explain.Roll(f, "", map[intent.State]int{intent.StateWaiting: 2}, []intent.AssetID{"web/a", "web/b"})
	if len(rolled.Causes) != 1 || len(rolled.Causes[0].Assets) != 2 {
		t.Errorf("of both it says %+v", rolled.Causes)
	}
}

// TestNothingIsLetGoOn: there is no target yet, and it is said why.
func TestNothingIsLetGoOn(t *testing.T) {
	standing := explain.Explain(underRollout(0, nil)).Standing
	if !standing.Target.IsZero() || standing.Desired != head || !strings.Contains(standing.By, "the rollout frontends has not let it go on") {
		t.Errorf("%+v", standing)
	}
}

// TestAPausedRolloutIsACause of the partition, also where all is in sync as it is; two
// rollouts are two causes.
func TestAPausedRolloutIsACause(t *testing.T) {
	f := underRollout(3, waitsFor(""))
	for _, name := range []string{"frontends", "backends"} {
		f.Rollouts[name] = intent.Rollout{Name: name, Run: 1, State: intent.RolloutPaused, Events: []intent.RolloutEvent{{Kind: "pause", At: now, By: intent.Actor{Name: "ann"}, Text: "lunch"}}}
	}
	rolled := explain.Roll(f, "", map[intent.State]int{intent.StateInSync: 1}, nil)
	if len(rolled.Causes) != 2 || !strings.Contains(rolled.Causes[0].Summary, "the rollout backends (run 1) is paused by ann") {
		t.Errorf("%+v", rolled.Causes)
	}
}

// TestAnEndedRolloutIsACause where head has what it does not bring by itself.
func TestAnEndedRolloutIsACause(t *testing.T) {
	for name, test := range map[string]struct {
		run    intent.Rollout
		before map[string][]string
		want   string
	}{
		"judged bad":         {intent.Rollout{State: intent.RolloutRolledBack, Bad: "errors", Progress: intent.RolloutProgress{Waits: "shop@2 has content of a that was judged bad"}}, map[string][]string{"frontends": nil}, "is rolled-back, for what it brought is bad: errors"},
		"aborted":            {intent.Rollout{State: intent.RolloutStopped, Progress: intent.RolloutProgress{Waits: "run 3 of the same content was ended"}}, map[string][]string{"frontends": nil}, "is stopped; run 3 of the same content was ended"},
		"held":               {intent.Rollout{State: intent.RolloutDone, Progress: intent.RolloutProgress{Waits: "for a person to start it"}}, map[string][]string{"frontends": nil}, "is done; waits for a person to start it"},
		"all is brought":     {intent.Rollout{State: intent.RolloutDone}, map[string][]string{"frontends": nil}, ""},
		"after another":      {intent.Rollout{State: intent.RolloutDone, Progress: intent.RolloutProgress{Cause: intent.CauseRollouts, Waits: "for the rollout canary to go through with shop@2"}}, map[string][]string{"frontends": {"canary"}}, ""},
		"of no policy":       {intent.Rollout{State: intent.RolloutStopped, Progress: intent.RolloutProgress{Waits: "for a to be in sync"}}, nil, ""},
		"of a field, undone": {intent.Rollout{State: intent.RolloutRolledBack, Value: []byte("1"), Progress: intent.RolloutProgress{Waits: "for a to be in sync"}}, map[string][]string{"frontends": nil}, ""},
	} {
		f := underRollout(3, waitsFor(""))
		test.run.Name, test.run.Run = "frontends", 3
		f.Rollouts, f.Before = map[string]intent.Rollout{"frontends": test.run}, test.before
		said := ""
		for _, cause := range explain.Roll(f, "", map[intent.State]int{intent.StateInSync: 1}, nil).Causes {
			said += cause.Summary + "\n"
		}
		if test.want == "" && said != "" || !strings.Contains(said, test.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestWhyAFieldIsNotSet: what a run by a field has not come to says what it waits for;
// what others set is kept, and says by whom.
func TestWhyAFieldIsNotSet(t *testing.T) {
	for what, test := range map[string]struct {
		state intent.RolloutState
		edit  intent.RolloutEdit
		want  string
	}{
		"not come to":  {intent.RolloutRunning, intent.RolloutEdit{Pointer: "/a", At: now}, `the rollout flags has not set /b to "wild" for it yet`},
		"taken over":   {intent.RolloutPaused, intent.RolloutEdit{Pointer: "/b"}, `the rollout flags has not set /b to "wild" for it yet`},
		"set":          {intent.RolloutRunning, intent.RolloutEdit{Pointer: "/b", At: now}, ""},
		"proposed":     {intent.RolloutRunning, intent.RolloutEdit{Pointer: "/b", At: now}, `the rollout flags has not set /b to "wild" for it yet`},
		"kept":         {intent.RolloutRunning, intent.RolloutEdit{Document: "knobs", Pointer: "/b", Changed: "bob at noon"}, "the rollout flags leaves /b of knobs as it is: set by bob at noon"},
		"on its way":   {intent.RolloutRollingBack, intent.RolloutEdit{Pointer: "/b", At: now}, "the rollout flags gives /b what it had before"},
		"another's is": {intent.RolloutRunning, intent.RolloutEdit{}, `has not set /b`},
	} {
		f := facts("web/b", intent.Report{Asset: "web/b", State: intent.StateInSync, Target: head, At: now})
		f.Members["web/b"] = intent.Member{Asset: "web/b"}
		run := intent.Rollout{Name: "flags", Run: 2, State: test.state, Value: []byte(`"wild"`), Edits: []intent.RolloutEdit{test.edit}}
		if what == "proposed" {
			run.Proposals = []intent.RolloutProposal{{Pointers: []string{"/b"}, State: intent.ProposalOpen}}
		}
		run.Progress.Waits = "stage canary waits for web/a to be healthy for 4m0s"
		f.Rollouts, f.Fields = map[string]intent.Rollout{"flags": run}, map[string]string{"flags": "/b"}
		answer := explain.Explain(f)
		text := answer.Summary
		for _, r := range answer.Reasons {
			text += "\n" + r.Text
			for _, cause := range r.Causes {
				text += "\n" + cause.Text
			}
		}
		if test.want == "" && strings.Contains(text, "flags") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %s", what, text)
		}
		if strings.Contains(test.want, "yet") && !strings.Contains(text, "stage canary waits for web/a") && !strings.Contains(text, "is paused") {
			t.Errorf("%s: it does not say what it waits for: %s", what, text)
		}
	}
}
