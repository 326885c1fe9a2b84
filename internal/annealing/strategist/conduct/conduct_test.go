package conduct_test

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func at(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: "shop", Sequence: sequence}
}

// asset is one that is pinned where it is as head says.
func asset(id intent.AssetID, content string) conduct.Asset {
	digest := intent.Sum(content)
	return conduct.Asset{
		ID: id, Pinned: digest, Head: digest, Goal: digest, Known: map[intent.Digest]bool{},
		Pin: intent.Pin{Asset: id, Incarnation: at(1), Rank: intent.RankRollout, Holder: intent.RolloutHolder("web"), Created: noon.Add(-time.Hour)},
	}
}

func facts(assets ...conduct.Asset) conduct.Facts {
	return conduct.Facts{
		Now: noon, Partition: "shop", Name: "web", Spec: &intentpb.Rollout{Name: "web"}, Head: at(2), Gap: time.Minute, Assets: assets,
		Course:  func(bool) selection.Policy { return selection.Policy{Stages: []selection.Stage{{Name: "all"}}} },
		Content: func(at intent.IncarnationID, id intent.AssetID) intent.Digest { return intent.Sum(at.String()) },
	}
}

// TestWhatIsAboutToBeGovernedKeepsItsPin: between the pin and the publication that
// governs it, head's policy does not select it, and its content is head's. Without the
// pin it would follow the next head by itself.
func TestWhatIsAboutToBeGovernedKeepsItsPin(t *testing.T) {
	a := asset("a", "x")
	a.Pin.Governed = 3
	f := facts(a)
	f.Spec = nil
	f.Orders = []intent.RolloutOrder{{Kind: intent.OrderRelease, Number: 1}}
	if got := conduct.Decide(f).Step.Unpin; len(got) != 0 {
		t.Errorf("it is let go of: %v", got)
	}
	f.Head = at(3)
	if got := conduct.Decide(f).Step.Unpin; len(got) != 1 {
		t.Errorf("of what head does not govern it lets go: %v", got)
	}
}

// TestAPersonsRollbackWaitsForItsAssets: the run that a person rolls back has not gone
// back in the step that begins it.
func TestAPersonsRollbackWaitsForItsAssets(t *testing.T) {
	a := asset("a", "new")
	a.Selected, a.Pin.Incarnation = true, at(2)
	old := intent.Sum(at(1).String())
	a.Known[old] = true
	f := facts(a)
	f.Older = func() []intent.IncarnationID { return []intent.IncarnationID{at(1)} }
	f.Run = &intent.Rollout{Partition: "shop", Name: "web", Run: 1, State: intent.RolloutDone, To: at(2), From: at(1)}
	f.Orders = []intent.RolloutOrder{{Kind: intent.OrderRollback, Number: 1, Reason: "customers complain"}}
	decided := conduct.Decide(f)
	if run := decided.Run; run.State != intent.RolloutRollingBack || !run.Ended.IsZero() || len(decided.Step.Pins) != 1 || decided.Step.Pins[0].Incarnation != at(1) {
		t.Errorf("it is %s with pins %v", run.State, decided.Step.Pins)
	}
	if decided.Next.IsZero() {
		t.Error("it is not looked at again")
	}
}

// TestWhatKeptTheNextRunIsForgottenWhenItIsOver: else it asks people for ever to do
// what changes nothing.
func TestWhatKeptTheNextRunIsForgottenWhenItIsOver(t *testing.T) {
	a := asset("a", "old")
	a.Selected = true
	f := facts(a)
	f.Run = &intent.Rollout{
		Partition: "shop", Name: "web", Run: 1, State: intent.RolloutRolledBack, To: at(1),
		Progress: intent.RolloutProgress{Waits: "shop@2 has content that was judged bad", For: []intent.AssetID{"a"}},
	}
	decided := conduct.Decide(f)
	if p := decided.Step.Run.Progress; !decided.Act || p.Waits != "" || len(p.For) > 0 {
		t.Errorf("it waits %q for %v", p.Waits, p.For)
	}
}

// TestWhatIsTurnedDownArrives: nothing is there that could tell how it is, whatever
// told so before.
func TestWhatIsTurnedDownArrives(t *testing.T) {
	a := asset("a", "gone")
	a.Selected = true
	a.Look = sight.Look{At: noon.Add(-2 * time.Second), Effective: a.Pinned, State: intent.StateWaiting, Waits: intent.WaitApproval, Health: intent.Healthy}
	f := facts(a)
	f.Assets[0].Seen = conduct.Decide(f).Seen["a"]
	f.Assets[0].Look = sight.Look{At: noon.Add(-time.Second), Effective: a.Pinned, State: intent.StateInSync, Health: intent.HealthUnknown, Absent: true}
	if seen := conduct.Decide(f).Seen["a"]; seen.Arrived.IsZero() {
		t.Errorf("it is not there: %+v", seen)
	}
}

// TestWhatWasJudgedBadAndStaysSaysSo: a run that waits for it says what a person can do.
func TestWhatWasJudgedBadAndStaysSaysSo(t *testing.T) {
	a, b := asset("a", "bad"), asset("b", "new")
	a.Selected, b.Selected = true, true
	a.Known[a.Pinned] = false
	a.Look = sight.Look{At: noon, Effective: a.Pinned, State: intent.StateInSync, Health: intent.Healthy}
	a.Seen = intent.Observation{Rollout: "web", Asset: "a", Effective: a.Pinned, Selected: noon.Add(-time.Hour), Arrived: noon.Add(-time.Hour), Seen: noon}
	b.Pinned = intent.Sum("old")
	f := facts(a, b)
	f.Run = &intent.Rollout{Partition: "shop", Name: "web", Run: 2, State: intent.RolloutRunning, To: at(2), From: at(1)}
	if waits := conduct.Decide(f).Run.Progress.Waits; !strings.Contains(waits, "lehr rollout abort web") {
		t.Errorf("it waits %q", waits)
	}
}
