package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// rolledLine is a cause as it is compared.
func rolledLine(c explain.Cause) string {
	return fmt.Sprintf("%s %s/%s %v: %s", c.Sort, c.Root.Kind, c.Root.Asset, c.Assets, c.Summary)
}

func roll(f explain.Facts, name string) explain.Rolled {
	var ids []intent.AssetID
	counts := map[intent.State]int{intent.StateInSync: 2}
	for _, id := range []intent.AssetID{"a", "b", "c", "d", "e", "web"} {
		if report, ok := f.Reports[id]; ok && report.State == intent.StateWaiting {
			ids = append(ids, id)
			counts[intent.StateWaiting]++
		}
	}
	return explain.Roll(f, name, counts, ids)
}

// TestRoll: what waits for one thing is told together, with the thing's own name,
// whether that is a member or not; what each says of itself together when the words are
// the same.
func TestRoll(t *testing.T) {
	held := intent.WaitingOn{Kind: intent.WaitHold, Reason: "ann holds it: migration", Owner: "ann"}
	after := func(other intent.AssetID) intent.WaitingOn {
		return intent.WaitingOn{Kind: intent.WaitOrder, Reason: "must come after " + string(other), Blockers: []intent.AssetID{other}}
	}
	approval := func(plan string) intent.WaitingOn {
		return intent.WaitingOn{Kind: intent.WaitApproval, Reason: "needs a person's approval of plan " + plan + " (it is dear)"}
	}
	f := facts("web",
		waiting("a", held), waiting("b", after("a")), waiting("c", after("b")),
		waiting("d", approval("d1f0")), waiting("e", approval("e2a9")),
	)
	r := roll(f, "shop/a")
	var got []string
	for _, cause := range r.Causes {
		got = append(got, rolledLine(cause))
	}
	want := []string{
		"waiting hold/a [a b c]: a: ann holds it: migration",
		"waiting approval/d [d e]: each of 2 by itself, such as d: needs a person's approval of plan d1f0 (it is dear)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if r.Causes[0].Example != "b" || len(r.Causes[0].Chain) != 1 || r.Causes[0].Chain[0].Kind != "order" {
		t.Errorf("the example is %+v", r.Causes[0])
	}
	const summary = "shop/a: 5 of 7 wait: a: ann holds it: migration (3 wait for that); each of 2 by itself, such as d: needs"
	if !strings.HasPrefix(r.Summary, summary) || r.State != intent.StateWaiting {
		t.Errorf("%s: %s", r.State, r.Summary)
	}

	// So do newest sources that are not served.
	refused := f
	refused.Blocked = &intent.Candidate{State: intent.CandidateHeld, Created: now}
	if r := roll(refused, ""); r.Causes[0].Root.Kind != explain.KindHeld {
		t.Errorf("a held candidate is told after %s", rolledLine(r.Causes[0]))
	}

	// What concerns the partition comes first, and takes nothing away from the rest.
	f.Stop = &intent.Stop{Owner: intent.Actor{Name: "bob"}, Since: now.Add(-time.Hour), Reason: "fire"}
	f.Reports["c"] = waiting("c", intent.WaitingOn{Kind: intent.WaitStop, Reason: "bob stopped everything"})
	r = roll(f, "")
	if got := rolledLine(r.Causes[0]); got != "waiting stop/ [c]: all partitions are stopped by bob 1h00m ago: fire" {
		t.Error(got)
	}
	if len(r.Causes) != 3 || !strings.HasPrefix(r.Summary, "partition shop: 5 of 7 wait: all partitions are stopped") {
		t.Errorf("%d causes: %s", len(r.Causes), r.Summary)
	}
}

// TestRollOfWhatIsWell: nothing waits, and the newest sources may still not be served.
func TestRollOfWhatIsWell(t *testing.T) {
	f := facts("web")
	if r := roll(f, "shop"); r.Summary != "shop: all 2 are in sync" || len(r.Causes) != 0 || r.State != intent.StateInSync {
		t.Errorf("%+v", r)
	}
	// The policy, which each partition has, is compared with nothing.
	counts := map[intent.State]int{intent.StateInSync: 2, intent.StateModel: 1}
	if r := explain.Roll(f, "", counts, nil); r.Summary != "partition shop: all 2 are in sync" || r.State != intent.StateInSync || len(r.Standing()) != 1 {
		t.Errorf("%+v, %v", r, r.Standing())
	}
	f.Covered = []intent.SourceRevision{{Source: "git", Failing: intent.Failing{Since: now.Add(-time.Minute), Reason: "no route"}}}
	if r := roll(f, "shop"); len(r.Causes) != 1 || r.Causes[0].Sort != intent.SortFailing || r.Causes[0].Root.Kind != explain.KindOldSource {
		t.Errorf("%+v", r)
	}
	if r := explain.Roll(facts("web"), "shop", nil, nil); r.Summary != "shop: nothing is in it" {
		t.Error(r.Summary)
	}
}

// TestPinIsTheRoot: what is as an old incarnation says by a pin never becomes what
// another waits for.
func TestPinIsTheRoot(t *testing.T) {
	f := facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitVersion, Reason: "db declares 1, and web needs 2", Blockers: []intent.AssetID{"db"}}),
		intent.Report{Asset: "db", State: intent.StateInSync, Target: head, At: now, Pinned: "pinned"})
	f.Pins = map[intent.AssetID][]intent.Pin{"db": {{Asset: "db", Incarnation: head, Rank: intent.RankPerson, Revision: 1, Holder: intent.Actor{Name: "ann"}, Reason: "slow", Created: now}}}
	answer := explain.Explain(f)
	if answer.Root.Kind != explain.KindPin || !strings.HasPrefix(answer.Summary, "web waits for db: pinned to shop@7 by ann") || !strings.Contains(answer.Root.Hint, "lehr unpin db") {
		t.Errorf("%+v", answer)
	}
}

// TestFullBudgetNamesWhoTakesIt, and tells of the push that does.
func TestFullBudgetNamesWhoTakesIt(t *testing.T) {
	f := facts("web", waiting("web", intent.WaitingOn{Kind: intent.WaitBudget, Scope: "cluster=a", Reason: "1 of 1 in flight in scope cluster=a"}),
		waiting("db", intent.WaitingOn{Kind: intent.WaitSettling, Reason: "push 3 may still be running"}))
	f.Taken = map[string][]intent.AssetID{"cluster=a": {"db"}, "cluster=b": {"api"}}
	if answer := explain.Explain(f); answer.Summary != "web waits for db: push 3 may still be running" {
		t.Error(answer.Summary)
	}
}

// TestStanding tells what is wanted in the end, what now, and what is there.
func TestStanding(t *testing.T) {
	report := waiting("web", intent.WaitingOn{Kind: intent.WaitHold, Reason: "held"})
	report.Target, report.Plan = head, intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "replicas"}}}
	s := explain.Explain(facts("web", report)).Standing
	if s.Target != head || s.By != "head" || s.Current != explain.CurrentDiffers || !cmp.Equal(s.Differs, []string{"replicas"}) {
		t.Errorf("%+v", s)
	}
	report.Plan = intent.Plan{}
	if s := explain.Explain(facts("web", report)).Standing; s.Current != explain.CurrentUnknown {
		t.Errorf("%+v", s)
	}
}
