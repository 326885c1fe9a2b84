package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

var (
	now  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	head = intent.IncarnationID{Partition: "shop", Sequence: 7}
)

func waiting(asset intent.AssetID, on ...intent.WaitingOn) intent.Report {
	return intent.Report{Asset: asset, State: intent.StateWaiting, Target: head, At: now, Waiting: on}
}

func facts(asset intent.AssetID, reports ...intent.Report) explain.Facts {
	f := explain.Facts{
		Asset: asset, Partition: "shop", Head: head, Now: now,
		Reports: map[intent.AssetID]intent.Report{}, Members: map[intent.AssetID]intent.Member{},
	}
	for _, report := range reports {
		f.Reports[report.Asset] = report
		f.Members[report.Asset] = intent.Member{Asset: report.Asset, Effective: report.Effective}
	}
	return f
}

func absent(report intent.Report) intent.Report {
	report.Absent = true
	return report
}

func TestRootCause(t *testing.T) {
	order := func(on intent.AssetID) intent.WaitingOn {
		return intent.WaitingOn{Kind: intent.WaitOrder, Reason: "comes after " + string(on), Blockers: []intent.AssetID{on}}
	}
	hold := intent.WaitingOn{Kind: intent.WaitHold, Reason: "held by ann: migration", Owner: "ann"}
	synced := intent.Report{Asset: "web", State: intent.StateInSync, Target: head, At: now.Add(-90 * time.Second)}

	capacity := intent.WaitingOn{Kind: intent.WaitCapacity, Reason: "lb still expects 4 of tasks from job, which would serve 2", Blockers: []intent.AssetID{"lb"}}
	version := intent.WaitingOn{Kind: intent.WaitVersion, Reason: "schema declares 1, and lb needs at least 2", Blockers: []intent.AssetID{"schema"}}

	withStop := facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitStop, Reason: "stopped"}, hold))
	withStop.Stop = &intent.Stop{Owner: intent.Actor{Name: "bob"}, Reason: "outage", Since: now.Add(-time.Hour)}

	rejected := facts("web", synced)
	rejected.Blocked = &intent.Candidate{
		ID: intent.CandidateID{Partition: "shop"}, State: intent.CandidateRejected, Created: now.Add(-time.Minute),
		Findings: []intent.Finding{
			{Severity: intent.Warning, Message: "old"},
			{Severity: intent.Error, Message: "must be a number", File: "service.yaml", Line: 4, Field: "replicas", Hint: "write 3"},
		},
	}
	held := facts("gone")
	held.Blocked = &intent.Candidate{State: intent.CandidateHeld, Created: now}

	outdated := facts("web", synced)
	outdated.Members["web"] = intent.Member{Asset: "web", Effective: intent.Sum("x")}

	pinned := facts("web", synced)
	pinned.Pins = map[intent.AssetID][]intent.Pin{"web": {{Asset: "web", Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 3}, Rank: intent.RankPerson, Reason: "slow", Holder: intent.Actor{Name: "ann"}, Created: now}}}

	cycle := facts("a", waiting("a", order("b")), waiting("b", order("a")))

	empty := facts("web")
	empty.Head = intent.IncarnationID{}

	unreadable := rejected
	unreadable.Problem = "sources: must be a number"
	tests := map[string]struct {
		facts   explain.Facts
		kinds   []string // of the first level
		root    string   // kind/asset
		summary string   // contained
		hint    string   // contained in the root's hint
	}{
		"in sync": {facts("web", synced), []string{"in-sync"}, "in-sync/web", "production is as shop@7 says (so reported 1m ago)", ""},
		"hold at the end of a chain": {
			facts("web", waiting("web", order("db")), waiting("db", order("disk")), waiting("disk", hold)),
			[]string{"order"}, "hold/disk", "web waits for disk: held by ann: migration", "lehr unhold disk",
		},
		"stop comes first, once": {withStop, []string{"stop", "hold"}, "stop/", "all partitions are stopped by bob 1h00m ago: outage", "lehr resume"},
		"rejected sources beat being in sync": {
			rejected, []string{"candidate-rejected", "in-sync"}, "candidate-rejected/",
			"service.yaml:4: replicas: must be a number", "write 3",
		},
		"held candidate explains a missing asset": {held, []string{"candidate-held", "no-asset"}, "candidate-held/", "held by a guard", "lehr approve --candidate"},
		"changed and not yet looked at":           {outdated, []string{"outdated"}, "outdated/web", "shop@7 changed it", "look again"},
		"a pin beside":                            {pinned, []string{"in-sync", "pin"}, "in-sync/web", "", ""},
		"cycle ends":                              {cycle, []string{"order"}, "cycle/a", "", "dependencies"},
		"left intent, kept in production": {
			facts("web", intent.Report{Asset: "web", State: intent.StateGone, Target: head}),
			[]string{"gone"}, "gone/web", "web: shop@7 does not name it any more; production keeps what it has", "restore it",
		},
		"turned down": {
			facts("web", absent(synced)), []string{"turned-down"}, "turned-down/web", "nothing of it is there, as shop@7 asks", "may leave the sources",
		},
		"turned down, and out of intent": {
			facts("web", intent.Report{Asset: "web", State: intent.StateGone, Target: head, Absent: true}),
			[]string{"gone"}, "gone/web", "nothing of it is left", "",
		},
		"an orphan that a rule of generations keeps": {
			olderGeneration(true), []string{"gone"}, "gone/web", "The rule settings of generations keeps the newest 2", "once enough newer ones have left",
		},
		"an orphan that a rule of generations does not remove": {
			olderGeneration(false), []string{"gone"}, "gone/web", "keeps the newest 2 only, and does not remove it", "lehr plan warns",
		},
		"an orphan": {
			facts("web", intent.Report{Asset: "web", State: intent.StateGone, Target: head}),
			[]string{"gone"}, "gone/web", "an orphan", "lehr get orphans",
		},
		"capacity through a version to its root": {
			facts("job", waiting("job", capacity), waiting("lb", version), waiting("schema", hold)),
			[]string{"capacity"}, "hold/schema", "job waits for schema: held by ann", "lehr unhold schema",
		},
		"capacity that intent itself denies": {
			facts("job", waiting("job", capacity), intent.Report{Asset: "lb", State: intent.StateInSync, Target: head, At: now}),
			[]string{"capacity"}, "capacity/job", "lb still expects 4 of tasks from job, which would serve 2", "what the sources ask of job and of lb",
		},
		"a removal under what stays": {
			facts("db", waiting("db", intent.WaitingOn{Kind: intent.WaitTurndown, Reason: "web still depends on it", Blockers: []intent.AssetID{"web", "api"}}), synced,
				intent.Report{Asset: "api", State: intent.StateModel}),
			[]string{"turndown"}, "turndown/db", "web still depends on it", "take the dependency on db out of web and 1 more",
		},
		"a removal under a model": {
			facts("db", waiting("db", intent.WaitingOn{Kind: intent.WaitTurndown, Reason: "api still refers to it", Blockers: []intent.AssetID{"api"}}),
				intent.Report{Asset: "api", State: intent.StateModel}),
			[]string{"turndown"}, "turndown/db", "api still refers to it", "take the reference to db out of api, or api out of the sources",
		},
		"no place": {
			facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitBudget, Reason: "1 of 1 pushes in flight"})),
			[]string{"budget"}, "budget/web", "1 of 1 pushes", "lehr get reports --state pushing",
		},
		"sources that do not read": {unreadable, []string{"not-acting", "candidate-rejected", "in-sync"}, "not-acting/", "must be a number", "write 3"},
		"unknown asset":            {facts("nope"), []string{"no-asset"}, "no-asset/nope", "nope is not in shop@7", "lehr get assets"},
		"nothing served yet":       {empty, []string{"no-head"}, "no-head/web", "has no incarnation yet", "lehr get candidates"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := explain.Explain(test.facts)
			var kinds []string
			for _, reason := range answer.Reasons {
				kinds = append(kinds, reason.Kind)
			}
			if diff := cmp.Diff(test.kinds, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			if got := answer.Root.Kind + "/" + string(answer.Root.Asset); got != test.root {
				t.Errorf("root %s, want %s", got, test.root)
			}
			if !strings.Contains(answer.Summary, test.summary) {
				t.Errorf("summary %q does not contain %q", answer.Summary, test.summary)
			}
			if !strings.Contains(answer.Root.Hint, test.hint) {
				t.Errorf("hint %q does not contain %q", answer.Root.Hint, test.hint)
			}
		})
	}
}

func TestLongChainEnds(t *testing.T) {
	var reports []intent.Report
	id := func(i int) intent.AssetID { return intent.AssetID(strings.Repeat("a", i+1)) }
	for i := range 2 * explain.MaxDepth {
		reports = append(reports, waiting(id(i), intent.WaitingOn{Kind: intent.WaitOrder, Blockers: []intent.AssetID{id(i + 1)}}))
	}
	answer := explain.Explain(facts(id(0), reports...))
	if answer.Root.Kind != explain.KindDepth {
		t.Fatalf("root is %+v, want the depth limit", answer.Root)
	}
}

// A diamond of n levels has 2^n paths; the tree must not.
func TestDiamondStaysSmall(t *testing.T) {
	var reports []intent.Report
	id := func(i int, side string) intent.AssetID { return intent.AssetID(side + strings.Repeat("x", i)) }
	for i := range explain.MaxDepth - 2 {
		blockers := []intent.AssetID{id(i+1, "l"), id(i+1, "r")}
		on := intent.WaitingOn{Kind: intent.WaitOrder, Blockers: blockers}
		reports = append(reports, waiting(id(i, "l"), on), waiting(id(i, "r"), on))
	}
	answer := explain.Explain(facts(id(0, "l"), reports...))
	if n := count(answer.Reasons); n > 1000 {
		t.Fatalf("%d reasons", n)
	}
}

func count(reasons []explain.Reason) int {
	n := len(reasons)
	for _, reason := range reasons {
		n += count(reason.Causes)
	}
	return n
}

// TestAnOverrideIsSaidWhole: with the check's name, so that it can be given as it is.
func TestAnOverrideIsSaidWhole(t *testing.T) {
	for check, want := range map[string]string{"errors": "lehr override web --check errors --reason WHY ", "": "lehr override web --check NAME --reason WHY "} {
		answer := explain.Explain(facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitCheckBroken, Check: check, Reason: "check another cannot answer"})))
		if !strings.Contains(answer.Root.Hint, want) {
			t.Errorf("%s: %s", check, answer.Root.Hint)
		}
	}
}

// TestWhatIsAskedAfterAPushIsTold, in its own words, of the asset and of what waits for
// it; a plugin's word on health is told as the plugin's.
func TestWhatIsAskedAfterAPushIsTold(t *testing.T) {
	web := intent.Report{Asset: "web", State: intent.StateInSync, Target: head, At: now, Health: intent.Health{
		State: intent.Unhealthy, Reason: "after its push: smoke says no since 2026-11-23T12:03:00Z: requests fail",
		Source: intent.SourceAfterPush, Check: "smoke",
	}}
	answer := explain.Explain(facts("web", web))
	if len(answer.Reasons) != 2 || !slices.ContainsFunc(answer.Reasons, func(r explain.Reason) bool {
		return r.Kind == explain.KindUnhealthy && r.Text == web.Health.Reason && strings.Contains(r.Hint, "lehr override web --check smoke --reason WHY ")
	}) {
		t.Errorf("%+v", answer.Reasons)
	}
	next := waiting("next", intent.WaitingOn{Kind: intent.WaitOrder, Reason: "must come after web", Blockers: []intent.AssetID{"web"}})
	if summary := explain.Explain(facts("next", next, web)).Summary; summary != "next waits for web: "+web.Health.Reason {
		t.Errorf("%s", summary)
	}
	// A plugin may say anything.
	web.Health = intent.Health{State: intent.Unhealthy, Reason: "after its push: 2 of 3 tasks run"}
	if reasons := explain.Explain(facts("web", web)).Reasons; !slices.ContainsFunc(reasons, func(r explain.Reason) bool {
		return r.Text == "its plugin says that it is unhealthy: after its push: 2 of 3 tasks run"
	}) {
		t.Errorf("%+v", reasons)
	}
}

// TestSinceIsWhenItBegan, where a report was written anew over what goes on.
func TestSinceIsWhenItBegan(t *testing.T) {
	failing := intent.WaitingOn{Kind: intent.WaitBackoff, Reason: "push 9 failed", Since: now.Add(-time.Hour)}
	order := intent.WaitingOn{Kind: intent.WaitOrder, Reason: "comes after db", Blockers: []intent.AssetID{"db"}}
	answer := explain.Explain(facts("web", waiting("web", order), waiting("db", failing)))
	if !answer.Root.Since.Equal(failing.Since) {
		t.Errorf("it goes on since %s, want %s", answer.Root.Since, failing.Since)
	}
}

// TestAnotherPartitionsStopIsTold: who and why, to whoever may read that partition.
func TestAnotherPartitionsStopIsTold(t *testing.T) {
	f := facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitPartition, Partition: "platform", Check: "platform", Reason: "check platform: partition platform is stopped"}))
	answer := explain.Explain(f)
	if answer.Root.Kind != string(intent.WaitPartition) || !strings.Contains(answer.Root.Hint, "lehr why --partition platform ") {
		t.Errorf("the root is %+v", answer.Root)
	}
	f.Others = map[intent.PartitionID]intent.Stop{"platform": {Partition: "platform", Owner: intent.Actor{Name: "ann"}, Reason: "a fire", Since: now.Add(-time.Hour)}}
	answer = explain.Explain(f)
	if root := answer.Root; root.Kind != string(intent.WaitStop) || root.Owner != "ann" || !strings.Contains(root.Text, "partition platform is stopped by ann") || !strings.HasSuffix(root.Text, ": a fire") || !strings.Contains(root.Hint, "lehr resume platform") {
		t.Errorf("the root is %+v", root)
	}
}

// olderGeneration is an orphan that a rule of generations names.
func olderGeneration(kept bool) explain.Facts {
	f := facts("web", intent.Report{Asset: "web", State: intent.StateGone, Target: head})
	f.Generation = &explain.Generation{Rule: "settings", Keep: 2, Kept: kept}
	return f
}
