package conduct_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
)

// train is the rollout "web" of a and b, which comes after that of c, "canary".
type train struct {
	*play
	canary conduct.Before
}

func trains(t *testing.T) *train {
	r := &train{plays(t, "a", "b"), conduct.Before{Name: "canary", Through: at(1)}}
	r.before = func() []conduct.Before { return []conduct.Before{r.canary} }
	return r
}

// reached an incarnation, with a run that was done.
func (r *train) reached(s intent.Sequence) {
	r.canary.Through, r.canary.Run = at(s), &intent.Rollout{Name: "canary", Run: uint64(s), State: intent.RolloutDone, To: at(s)}
}

// TestARolloutComesAfterAnother: it brings what that went through with, and not head, while
// that is at newer releases already.
func TestARolloutComesAfterAnother(t *testing.T) {
	r := trains(t)
	r.publish(version{"a": "2", "b": "2", "c": "2"})
	r.canary.Run = &intent.Rollout{Name: "canary", Run: 2, State: intent.RolloutRunning, To: at(2), Progress: intent.RolloutProgress{For: []intent.AssetID{"c"}}}
	r.wait(time.Minute)
	if r.run != nil {
		t.Fatalf("it does not wait: %+v", r.run)
	}
	r.reached(2)
	r.publish(version{"a": "3", "b": "3", "c": "3"})
	r.canary.Run = &intent.Rollout{Name: "canary", Run: 3, State: intent.RolloutRunning, To: at(3), Progress: intent.RolloutProgress{For: []intent.AssetID{"c"}}}
	r.wait(2 * time.Second)
	r.is(1, intent.RolloutRunning)
	r.has(version{"a": "2", "b": "1"})
	if r.run.To != at(2) || r.run.Reason != "what it comes after went through" {
		t.Errorf("it brings %+v", r.run)
	}
	r.wait(time.Minute)
	r.is(1, intent.RolloutDone)
	r.has(version{"a": "2", "b": "2"})
	r.waitsFor("for the rollout canary to go through with shop@3")
	if !slices.Equal(r.run.Progress.For, []intent.AssetID{"c"}) {
		t.Errorf("it waits for %v", r.run.Progress.For)
	}
	r.reached(3)
	r.wait(time.Minute)
	r.is(2, intent.RolloutDone)
	r.has(version{"a": "3", "b": "3"})
	r.waitsFor("")
}

// TestNothingGoesBackWithWhatItComesAfter: what it was brought stays, also where the other
// went through only with something older; a newer one that the other goes through with
// takes its place.
func TestNothingGoesBackWithWhatItComesAfter(t *testing.T) {
	r := trains(t)
	r.publish(version{"a": "2", "b": "2"})
	r.reached(2)
	r.wait(2 * time.Second)
	r.publish(version{"a": "3", "b": "3"})
	r.canary.Through = at(1)
	r.wait(time.Minute)
	r.is(1, intent.RolloutDone)
	r.has(version{"a": "2", "b": "2"})
	r.canary.Through = intent.IncarnationID{}
	r.wait(time.Minute)
	r.is(1, intent.RolloutDone)
	r.has(version{"a": "2", "b": "2"})
	r.publish(version{"a": "4"})
	r.reached(3)
	r.wait(2 * time.Second)
	r.is(2, intent.RolloutRunning)
	r.reached(4)
	r.wait(2 * time.Second)
	r.is(3, intent.RolloutRunning)
	r.wait(time.Minute)
	r.is(3, intent.RolloutDone)
	r.has(version{"a": "4", "b": "3"})
}

// TestWhatIsNewerThanARunStays: an asset that comes to be governed by a rollout whose run is
// older than what it has is not taken back by that, and gets what is newest after it.
func TestWhatIsNewerThanARunStays(t *testing.T) {
	p := begun(t)
	p.said.Newer = intentpb.Rollout_NEWER_QUEUES
	p.publish(version{"c": "4"})
	p.pin(intent.Pin{Asset: "c", Incarnation: at(3), Rank: intent.RankRollout, Created: p.now})
	p.history[2]["c"] = "3" // Of the run it was something else.
	p.publish(version{"c": "5"})
	for p.run.Run == 1 {
		p.has(version{"c": "4"})
		p.wait(time.Second)
	}
	p.wait(time.Minute)
	p.is(2, intent.RolloutDone)
	p.has(version{"a": "2", "b": "2", "c": "5"})
}

// TestWhatItComesAfterWentBack: its run pauses, says why, and goes on when a person says so.
func TestWhatItComesAfterWentBack(t *testing.T) {
	r := trains(t)
	r.publish(version{"a": "2", "b": "2"})
	r.reached(2)
	r.wait(2 * time.Second)
	r.canary.Run.State, r.canary.Run.Bad, r.canary.Through = intent.RolloutRolledBack, "users complain", at(1)
	r.wait(time.Minute)
	r.is(1, intent.RolloutPaused)
	r.has(version{"a": "2", "b": "1"})
	if said := r.run.Last("pause").Text; !strings.Contains(said, "the rollout canary went back from shop@2: users complain; lehr rollout resume web") {
		t.Error(said)
	}
	r.order(intent.OrderResume)
	r.wait(time.Minute)
	r.is(1, intent.RolloutDone)
	r.has(version{"a": "2", "b": "2"})

	// What is bad is newer, and none of its business.
	r = trains(t)
	r.publish(version{"a": "2", "b": "2"})
	r.publish(version{"c": "3"})
	r.reached(2)
	r.wait(2 * time.Second)
	r.canary.Run = &intent.Rollout{Name: "canary", Run: 3, State: intent.RolloutRolledBack, To: at(3), Bad: "users complain"}
	r.wait(time.Minute)
	r.is(1, intent.RolloutDone)
}

// TestARunFromBeforeItWasSaid that it comes after another waits for that, and remembers that
// it got there; a person's promote waits for nobody.
func TestARunFromBeforeItWasSaid(t *testing.T) {
	for _, promoted := range []bool{false, true} {
		p := begun(t)
		canary := conduct.Before{Name: "canary", Through: at(1), Run: &intent.Rollout{Progress: intent.RolloutProgress{For: []intent.AssetID{"c"}}}}
		p.before = func() []conduct.Before { return []conduct.Before{canary} }
		p.wait(time.Minute)
		p.is(1, intent.RolloutRunning)
		p.has(version{"a": "2", "b": "1"})
		p.waitsFor("for the rollout canary to go through with shop@2")
		if !slices.Equal(p.run.Progress.For, []intent.AssetID{"c"}) {
			t.Errorf("it waits for %v", p.run.Progress.For)
		}
		if promoted {
			p.order(intent.OrderPromote)
		} else {
			canary.Through = at(2)
		}
		p.wait(time.Second)
		p.has(version{"b": "2"})
		canary.Through = at(1)
		p.wait(time.Minute)
		p.is(1, intent.RolloutDone)
	}
}

// TestThrough: what others may bring is what went through here, and nothing else.
func TestThrough(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(p *play)
		want intent.Sequence
	}{
		"what was there":        {func(*play) {}, 1},
		"under way":             {func(p *play) { p.publish(version{"a": "2", "b": "2"}); p.wait(2 * time.Second) }, 0},
		"done":                  {func(p *play) { p.publish(version{"a": "2", "b": "2"}); p.wait(time.Minute) }, 2},
		"nothing of it changed": {func(p *play) { p.publish(version{"c": "2"}); p.wait(time.Second) }, 2},
		"one done, one under way": {func(p *play) {
			p.publish(version{"a": "2"})
			p.wait(time.Minute)
			p.publish(version{"a": "3"})
			p.wait(time.Second)
		}, 2},
		"a hold of newer": {func(p *play) {
			p.publish(version{"a": "2"})
			p.wait(time.Minute)
			p.said.Newer = intentpb.Rollout_NEWER_IS_HELD
			p.publish(version{"a": "3"})
			p.wait(time.Second)
		}, 2},
		"ended before its soak was over": {func(p *play) {
			p.publish(version{"b": "2"})
			p.wait(2 * time.Second)
			p.order(intent.OrderAbort)
			p.wait(2 * time.Second)
			p.is(1, intent.RolloutStopped)
			p.has(version{"a": "1", "b": "2"})
		}, 0},
		"gone back": {func(p *play) {
			p.publish(version{"a": "2", "b": "2"})
			p.wait(time.Minute)
			p.order(intent.OrderRollback)
			p.wait(time.Minute)
			p.is(1, intent.RolloutRolledBack)
		}, 0},
	} {
		p := plays(t, "a", "b")
		done := intent.IncarnationID{}
		p.done = func() intent.IncarnationID { return done }
		p.after = func(d conduct.Decision) {
			if d.Run != nil && d.Run.State == intent.RolloutDone {
				done = d.Run.To
			}
		}
		test.do(p)
		if name == "gone back" {
			done = intent.IncarnationID{} // It was the run that is the newest.
		}
		if got := p.decide().Through; got.Sequence != test.want {
			t.Errorf("%s: it went through with %s", name, got)
		}
	}
	if p := plays(t, "a"); p.decide().Through.Sequence != 0 {
		t.Error("nobody comes after it")
	}
}
