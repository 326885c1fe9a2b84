package conduct_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
)

type version = map[intent.AssetID]string

func (p *play) waitsFor(words string) {
	p.t.Helper()
	if p.run == nil || !strings.Contains(p.run.Progress.Waits, words) {
		p.t.Errorf("it waits %q, and not for %q", p.run.Progress.Waits, words)
	}
}

// begun is a run to version 2 of a and b, of which a was let go on.
func begun(t *testing.T) *play {
	t.Helper()
	p := plays(t, "a", "b")
	p.said.Patience = durationpb.New(10 * time.Second)
	p.publish(version{"a": "2", "b": "2"})
	p.wait(2 * time.Second)
	p.is(1, intent.RolloutRunning)
	p.has(version{"a": "2", "b": "1"})
	return p
}

func TestARunBringsEachWaveWhenTheOneBeforeSoaked(t *testing.T) {
	p := begun(t)
	p.wait(5 * time.Second)
	p.has(version{"b": "1"})
	p.wait(2 * time.Second)
	p.has(version{"b": "2"})
	p.wait(8 * time.Second)
	p.is(1, intent.RolloutDone)
	if !p.known["a"][intent.Sum("2")] || !p.known["b"][intent.Sum("2")] {
		t.Errorf("what went through is good: %v", p.known)
	}
	p.wait(time.Minute)
	p.is(1, intent.RolloutDone)
}

func TestWhatIsNewGoesOnFromNowhere(t *testing.T) {
	p := plays(t, "a")
	p.publish(version{"b": "1"})
	p.pin(intent.Pin{Asset: "b", Incarnation: at(0), Rank: intent.RankRollout, Created: p.now})
	p.wait(10 * time.Second)
	p.is(1, intent.RolloutDone)
	p.has(version{"a": "1", "b": "1"})
	if !slices.Equal(p.let, []intent.AssetID{"b"}) {
		t.Errorf("what was right already takes part: %v go on", p.let)
	}
}

func TestNewerContent(t *testing.T) {
	for newer, want := range map[intentpb.Rollout_Newer]uint64{intentpb.Rollout_NEWER_SUPERSEDES: 2, intentpb.Rollout_NEWER_QUEUES: 1, intentpb.Rollout_NEWER_IS_HELD: 1} {
		p := begun(t)
		p.said.Newer = newer
		p.publish(version{"b": "3"})
		p.wait(2 * time.Second)
		p.is(want, intent.RolloutRunning)
		p.wait(time.Minute)
		switch newer {
		case intentpb.Rollout_NEWER_IS_HELD:
			p.is(1, intent.RolloutDone)
			p.waitsFor("lehr rollout start web")
			p.order(intent.OrderStart)
			p.wait(time.Minute)
		}
		p.is(2, intent.RolloutDone)
		p.has(version{"a": "2", "b": "3"})
	}
}

func TestOrders(t *testing.T) {
	t.Run("pause and resume", func(t *testing.T) {
		p := begun(t)
		p.order(intent.OrderPause)
		p.wait(time.Minute)
		p.is(1, intent.RolloutPaused)
		p.waitsFor("paused by ann: so said")
		p.has(version{"b": "1"})
		p.order(intent.OrderResume)
		p.wait(time.Minute)
		p.is(1, intent.RolloutDone)
	})
	t.Run("abort, and nothing begins by itself", func(t *testing.T) {
		p := begun(t)
		p.order(intent.OrderAbort)
		p.wait(time.Minute)
		p.is(1, intent.RolloutStopped)
		p.has(version{"a": "2", "b": "1"})
		p.order(intent.OrderStart)
		p.wait(time.Minute)
		p.is(2, intent.RolloutDone)
	})
	t.Run("abort when head is newer: the next begins in a step of its own", func(t *testing.T) {
		p := begun(t)
		p.said.Newer = intentpb.Rollout_NEWER_QUEUES
		p.publish(version{"b": "3"})
		p.order(intent.OrderAbort)
		if d := p.decide(); d.Step.Run.Run != 1 || d.Next.IsZero() {
			t.Errorf("the step is of run %d, and the next look at %s", d.Step.Run.Run, d.Next)
		}
		p.is(1, intent.RolloutStopped)
		p.wait(time.Second)
		p.is(2, intent.RolloutRunning)
	})
	t.Run("skip and promote pass over a soak", func(t *testing.T) {
		for _, kind := range []intent.OrderKind{intent.OrderSkip, intent.OrderPromote} {
			p := begun(t)
			p.order(kind)
			p.wait(time.Second)
			p.has(version{"a": "2", "b": "2"})
		}
	})
	t.Run("skip says whom it waits for", func(t *testing.T) {
		p := plays(t, "a")
		p.blocked["a"] = "it is held by bob: racks"
		p.publish(version{"a": "2"})
		p.wait(time.Second)
		p.order(intent.OrderSkip)
		p.wait(2 * time.Second)
		p.waitsFor("it is held by bob: racks")
	})
	t.Run("emergency goes by its own stages", func(t *testing.T) {
		p := begun(t)
		p.said.Emergency = []*intentpb.RolloutStage{{Name: "now"}}
		p.urgent = []selection.Stage{{Name: "now"}}
		p.order(intent.OrderEmergency)
		p.wait(2 * time.Second)
		p.has(version{"a": "2", "b": "2"})
	})
	t.Run("start with what was judged bad waits for forgiveness", func(t *testing.T) {
		p := begun(t)
		p.said.OnBad = intentpb.Rollout_ON_BAD_STOP
		p.find(illness, "a")
		p.wait(15 * time.Second)
		p.is(1, intent.RolloutStopped)
		p.find(healthy, "a")
		p.order(intent.OrderStart)
		p.wait(10 * time.Second)
		p.is(1, intent.RolloutStopped)
		p.waitsFor("lehr rollout forgive web")
		p.order(intent.OrderForgive)
		p.order(intent.OrderStart)
		p.wait(time.Minute)
		p.is(2, intent.RolloutDone)
	})
	t.Run("stop", func(t *testing.T) {
		p := begun(t)
		p.stop = &intent.Stop{Owner: intent.Actor{Name: "bob"}, Reason: "fire"}
		p.wait(20 * time.Second)
		p.has(version{"b": "1"})
		p.waitsFor("bob")
	})
}

// TestAnEmergencyProvesNothing: what went on without a soak is good, and something to go
// back to, when it was well for as long as its ordinary stage asks, and not before (S20).
func TestAnEmergencyProvesNothing(t *testing.T) {
	hurried := func(t *testing.T) *play {
		p := begun(t)
		p.said.Emergency = []*intentpb.RolloutStage{{Name: "now"}}
		p.urgent = []selection.Stage{{Name: "now"}}
		p.order(intent.OrderEmergency)
		p.wait(4 * time.Second)
		p.is(1, intent.RolloutDone)
		p.has(version{"a": "2", "b": "2"})
		if p.known["b"][intent.Sum("2")] {
			t.Errorf("it is good at once: %v", p.known)
		}
		return p
	}
	t.Run("when it was well for long enough", func(t *testing.T) {
		p := hurried(t)
		p.wait(5 * time.Second)
		if !p.known["a"][intent.Sum("2")] || !p.known["b"][intent.Sum("2")] {
			t.Errorf("it is not good: %v", p.known)
		}
	})
	t.Run("ill in between", func(t *testing.T) {
		p := hurried(t)
		p.find(illness, "b")
		p.wait(10 * time.Second)
		p.find(healthy, "b")
		p.wait(4 * time.Second)
		if p.known["b"][intent.Sum("2")] {
			t.Errorf("it is good: %v", p.known)
		}
		p.wait(3 * time.Second)
		if !p.known["b"][intent.Sum("2")] {
			t.Errorf("it is not good: %v", p.known)
		}
	})
	t.Run("what comes after goes back past it", func(t *testing.T) {
		p := hurried(t)
		p.publish(version{"a": "3", "b": "3"})
		p.wait(2 * time.Second)
		p.is(2, intent.RolloutRunning)
		p.find(illness, "a", "b")
		p.wait(15 * time.Second)
		p.find(healthy, "a", "b")
		p.wait(5 * time.Second)
		p.is(2, intent.RolloutRolledBack)
		p.has(version{p.let[len(p.let)-1]: "1"})
	})
	t.Run("with a validation", func(t *testing.T) {
		for _, result := range []string{"good", "inconclusive"} {
			p := begun(t)
			p.said.Validate, p.said.Emergency = []string{"errors"}, []*intentpb.RolloutStage{{Name: "now"}}
			p.urgent = []selection.Stage{{Name: "now"}}
			p.order(intent.OrderEmergency)
			p.found = []intent.ValidationVerdict{{Validation: "errors", Stage: "now", Result: result}}
			p.wait(2 * time.Second)
			if result != "good" {
				p.is(1, intent.RolloutPaused)
				p.order(intent.OrderResume) // In spite of it.
			}
			p.wait(4 * time.Second)
			p.is(1, intent.RolloutDone)
			p.found = nil // Nobody asks of a run that is over.
			p.wait(time.Minute)
			if good := p.known["b"][intent.Sum("2")]; good != (result == "good") {
				t.Errorf("%s, and it is good: %v", result, good)
			}
		}
	})
}

// TestSoak: only what was seen counts, and it is begun anew by ill health (S19).
func TestSoak(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*play)
		more    time.Duration
	}{
		"nobody looks":     {func(p *play) { p.unseen = true; p.wait(time.Minute); p.unseen = false }, 4 * time.Second},
		"unhealthy once":   {func(p *play) { p.find(illness, "a"); p.wait(time.Second); p.find(healthy, "a") }, 5 * time.Second},
		"out of sync once": {func(p *play) { p.find(pushing, "a"); p.wait(time.Second); p.find(healthy, "a") }, 5 * time.Second},
		"out of sync unasked": {func(p *play) {
			p.now = p.now.Add(time.Second)
			look := p.looks["a"]
			look.At, look.Ill = p.now, p.now.Add(-time.Millisecond)
			p.looks["a"] = look
			p.decide()
		}, 4 * time.Second},
		"health not told":       {func(p *play) { p.find(mute, "a"); p.wait(time.Minute); p.find(healthy, "a") }, 4 * time.Second},
		"pending":               {func(p *play) { p.find(pending, "a"); p.wait(time.Minute); p.find(healthy, "a") }, 4 * time.Second},
		"plugin broken":         {func(p *play) { p.find(broken, "a"); p.wait(time.Minute); p.find(healthy, "a") }, 4 * time.Second},
		"an hour later at once": {func(p *play) { p.now = p.now.Add(time.Hour) }, 4 * time.Second},
		"a year later at once":  {func(p *play) { p.now = p.now.Add(365 * 24 * time.Hour) }, 4 * time.Second},
		"an hour back":          {func(p *play) { p.now = p.now.Add(-time.Hour) }, 4 * time.Second},
		"a year back":           {func(p *play) { p.now = p.now.Add(-365 * 24 * time.Hour) }, 4 * time.Second},
		"pinned elsewhere": {func(p *play) {
			p.now = p.now.Add(time.Second)
			p.looks["a"] = sight.Look{At: p.now, Effective: intent.Sum("other"), State: intent.StateInSync, Health: intent.Healthy}
			p.decide()
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := begun(t)
			p.wait(2 * time.Second) // Healthy for one.
			test.happens(p)
			p.wait(test.more)
			p.has(version{"b": "1"})
			p.is(1, intent.RolloutRunning)
			p.wait(4 * time.Second)
			p.has(version{"b": "2"})
		})
	}
}

// TestASoakIsCountedByLooks: however seldom it is decided, the time counts in which each look
// found it well, none too long after the one before.
func TestASoakIsCountedByLooks(t *testing.T) {
	for name, test := range map[string]struct {
		unbroken time.Duration
		brings   string
	}{"each look was well": {time.Minute, "2"}, "not all were": {59 * time.Second, "1"}} {
		t.Run(name, func(t *testing.T) {
			p := begun(t)
			p.wait(2 * time.Second)
			p.now = p.now.Add(time.Minute)
			p.look()
			look := p.looks["a"]
			look.Since = p.now.Add(-test.unbroken)
			p.looks["a"] = look
			p.decide()
			p.has(version{"b": test.brings})
		})
	}
}

// TestBad: patience ends with what is seen to be ill, and with nothing that is not (S11).
func TestBad(t *testing.T) {
	for name, test := range map[string]struct {
		look   sight.Look
		unseen bool
		state  intent.RolloutState
	}{
		"unhealthy":        {illness, false, intent.RolloutRolledBack},
		"pushes that fail": {backoff, false, intent.RolloutRolledBack},
		"pending for long": {pending, false, intent.RolloutRolledBack},
		"broken plugin":    {broken, false, intent.RolloutRunning},
		"health not told":  {mute, false, intent.RolloutRunning},
		"on its way":       {pushing, false, intent.RolloutRunning},
		"nobody looks":     {illness, true, intent.RolloutRunning},
	} {
		t.Run(name, func(t *testing.T) {
			p := plays(t, "a", "b")
			p.said.Patience = durationpb.New(10 * time.Second)
			p.publish(version{"a": "2", "b": "2"})
			p.decide()
			p.decide()
			p.has(version{"a": "2"})
			p.find(test.look, "a")
			p.wait(2 * time.Second)
			p.unseen = test.unseen
			p.wait(9 * time.Second)
			p.find(test.look, "a")
			if test.state != intent.RolloutRolledBack {
				p.wait(time.Minute)
				p.is(1, test.state)
				return
			}
			for p.run.State == intent.RolloutRunning {
				p.wait(time.Second)
			}
			if p.now.Sub(noon) > 30*time.Second {
				t.Errorf("it was found at %s", p.now)
			}
			p.has(version{"a": "1", "b": "1"}) // In the same step (L8).
			p.find(healthy, "a")
			p.wait(5 * time.Second)
			p.is(1, test.state)
			p.wait(time.Minute)
			p.is(1, test.state)
			p.has(version{"a": "1", "b": "1"})
			p.waitsFor("judged bad")
			p.publish(version{"a": "3", "b": "3"}) // What is newer and good always goes on (L3).
			p.wait(time.Minute)
			p.is(2, intent.RolloutDone)
			p.has(version{"a": "3", "b": "3"})
		})
	}
}

// TestWhatNobodySawIsNoPatience: an asset of which nobody could tell anything for longer
// than patience lasts, and that is ill when somebody can, has its patience still (S11).
func TestWhatNobodySawIsNoPatience(t *testing.T) {
	for name, before := range map[string]sight.Look{"broken plugin": broken, "health not told": mute} {
		p := begun(t)
		p.wait(2 * time.Second)
		p.find(before, "a")
		p.wait(time.Minute)
		p.find(illness, "a")
		p.wait(8 * time.Second)
		if p.run.State != intent.RolloutRunning {
			t.Errorf("%s: after 8 s of 10 the run is %s", name, p.run.State)
		}
		p.wait(4 * time.Second)
		p.has(version{"a": "1"})
	}
}

func TestBadIsLeftToAPerson(t *testing.T) {
	p := begun(t)
	p.said.OnBad = intentpb.Rollout_ON_BAD_STOP
	p.find(illness, "a")
	p.wait(20 * time.Second)
	p.is(1, intent.RolloutStopped)
	p.has(version{"a": "2", "b": "1"})
	p.find(healthy, "a")
	p.order(intent.OrderRollback)
	p.wait(5 * time.Second)
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1", "b": "1"})
}

// TestRollbackGoesToTheNewestThatIsGood: never to what was judged bad or is not known to
// be good (S20), and it says what else it undoes.
func TestRollbackGoesToTheNewestThatIsGood(t *testing.T) {
	one, two, three := intent.Sum("1"), intent.Sum("2"), intent.Sum("3")
	for name, test := range map[string]struct {
		known map[intent.Digest]bool
		want  string
		says  string
	}{
		"the one before":        {map[intent.Digest]bool{one: true, two: true}, "2", "goes back to shop@2"},
		"not one ever bad":      {map[intent.Digest]bool{one: true, two: false}, "1", "this undoes earlier changes too, of a: those of shop@2;"},
		"not one never judged":  {map[intent.Digest]bool{one: true}, "1", "this undoes earlier changes too, of a: those of shop@2;"},
		"nothing is good":       {map[intent.Digest]bool{two: false}, "3", "there is nothing to go back to"},
		"not what is judged":    {map[intent.Digest]bool{three: true, one: true}, "1", "goes back to shop@1"},
		"nothing is known at 2": {nil, "3", "there is nothing to go back to"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plays(t, "a")
			p.publish(version{"a": "2"})
			p.publish(version{"a": "3"})
			p.pin(intent.Pin{Asset: "a", Incarnation: at(3), Rank: intent.RankRollout, Created: p.now})
			p.run = &intent.Rollout{Partition: "shop", Name: "web", Run: 7, State: intent.RolloutRunning, To: at(3), From: at(2)}
			p.known = map[intent.AssetID]map[intent.Digest]bool{"a": test.known}
			p.seen["a"] = intent.Observation{Rollout: "web", Asset: "a", Effective: three, Selected: p.now}
			p.order(intent.OrderRollback)
			p.decide()
			p.has(version{"a": test.want})
			said := ""
			for _, e := range p.run.Events {
				said += e.Text + "; "
			}
			if !strings.Contains(said, test.says) {
				t.Errorf("it says %q, and not %q", said, test.says)
			}
		})
	}
}

// TestRollbackPassesOverWhatTheTypesOfHeadCannotRead, though it was good, and says so.
func TestRollbackPassesOverWhatTheTypesOfHeadCannotRead(t *testing.T) {
	for name, test := range map[string]struct {
		unread []intent.Sequence
		state  intent.RolloutState
		has    string
		says   []string
	}{
		"not the newest": {[]intent.Sequence{2}, intent.RolloutRollingBack, "1", []string{"shop@2 is not gone back to, for the types of head cannot read a as it was there: size is no more; lehr pin a shop@2", "goes back to shop@1"}},
		"none":           {[]intent.Sequence{2, 1}, intent.RolloutStopped, "3", []string{"shop@2 is not gone back to", "there is nothing to go back to"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plays(t, "a")
			p.publish(version{"a": "2"})
			p.wait(20 * time.Second)
			p.is(1, intent.RolloutDone)
			p.publish(version{"a": "3"})
			p.wait(2 * time.Second)
			p.is(2, intent.RolloutRunning)
			p.unread = map[intent.IncarnationID]string{}
			for _, s := range test.unread {
				p.unread[at(s)] = "size is no more"
			}
			p.order(intent.OrderRollback)
			p.decide()
			p.is(2, test.state)
			p.has(version{"a": test.has})
			said := ""
			for _, e := range p.run.Events {
				said += e.Text + "\n"
			}
			for _, want := range test.says {
				if strings.Count(said, want) != 1 {
					t.Errorf("it says %q, and not %q once", said, want)
				}
			}
			if strings.Contains(said, "shop@1 is not gone back to") {
				t.Errorf("it names more than the newest: %q", said)
			}
		})
	}
}

// TestWhatIsBadSinceThisStepIsNoWayBack: content that was good until now is in an older
// incarnation too, which is none to go back to (S20).
func TestWhatIsBadSinceThisStepIsNoWayBack(t *testing.T) {
	p := plays(t, "a", "b")
	p.publish(version{"a": "2"})
	p.wait(20 * time.Second)
	p.is(1, intent.RolloutDone)
	p.publish(version{"b": "3"})
	p.pin(intent.Pin{Asset: "a", Incarnation: at(3), Rank: intent.RankRollout, Created: p.now}) // As it is.
	p.wait(2 * time.Second)
	p.is(2, intent.RolloutRunning)
	p.order(intent.OrderRollback)
	p.decide()
	if p.run.Back != at(1) {
		t.Errorf("it goes back to %s", p.run.Back)
	}
	p.has(version{"a": "1", "b": "1"})
}

func TestNewerContentEndsARollback(t *testing.T) {
	p := begun(t)
	p.find(illness, "a")
	for p.run.State == intent.RolloutRunning {
		p.wait(time.Second)
	}
	p.find(pushing, "a")
	p.wait(3 * time.Second)
	p.is(1, intent.RolloutRollingBack)
	p.waitsFor("going back waits for a")
	p.publish(version{"a": "3", "b": "3"})
	p.wait(time.Second)
	p.is(1, intent.RolloutSuperseded)
	p.find(healthy, "a")
	p.wait(time.Minute)
	p.is(2, intent.RolloutDone)
	p.has(version{"a": "3", "b": "3"})
}

func TestValidations(t *testing.T) {
	verdict := func(result string) []intent.ValidationVerdict {
		return []intent.ValidationVerdict{{Validation: "errors", Stage: "all", Result: result, Reason: "so it is", At: noon}}
	}
	judged := func(t *testing.T, result string) *play {
		p := begun(t)
		p.said.Validate = []string{"errors"}
		p.wait(2 * time.Second)
		if len(p.asked) != 1 || p.asked[0].Validation != "errors" || !slices.Equal(p.asked[0].Experiment, []intent.AssetID{"a"}) || !slices.Equal(p.asked[0].Control, []intent.AssetID{"b"}) {
			t.Errorf("it asks %+v", p.asked)
		}
		p.found = verdict(result)
		p.wait(30 * time.Second)
		return p
	}
	judged(t, "good").is(1, intent.RolloutDone)
	p := judged(t, "bad")
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1", "b": "1"})
	for _, result := range []string{"waiting", "broken"} {
		p := judged(t, result)
		p.is(1, intent.RolloutRunning)
		p.waitsFor("for the validation errors, which is " + result)
	}
	// That it began anew is told once.
	p = judged(t, "waiting")
	p.found[0].Found, p.retries = "many errors", map[string]int{"errors": 1}
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutRunning)
	if e := p.run.Last("retry"); e == nil || e.Stage != "all" || !strings.Contains(e.Text, "the validation errors of the stage all begins anew, number 1 in this run: many errors") {
		t.Errorf("the last retry is told as %+v", e)
	}
	if told := slices.DeleteFunc(slices.Clone(p.run.Events), func(e intent.RolloutEvent) bool { return e.Kind != "retry" }); len(told) != 1 || p.run.Progress.Retries["errors"] != 1 {
		t.Errorf("it is told %d times, and %v are kept", len(told), p.run.Progress.Retries)
	}
	p = judged(t, "inconclusive")
	p.is(1, intent.RolloutPaused)
	p.order(intent.OrderResume)
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutDone)

	// Where the pause is among the events that are kept no more, it is said again.
	p = judged(t, "inconclusive")
	p.run.Events = nil
	p.order(intent.OrderResume)
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutPaused)
	p.waitsFor("the validation errors of the stage all cannot tell: so it is")

	// Who resumes after lunch accepts nothing that nobody was told of.
	p = begun(t)
	p.said.Validate = []string{"errors"}
	p.wait(2 * time.Second)
	p.order(intent.OrderPause)
	p.wait(time.Second)
	p.found = verdict("inconclusive")
	p.wait(30 * time.Second)
	p.waitsFor("paused by ann: so said")
	p.order(intent.OrderResume)
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutPaused)
	p.waitsFor("the validation errors of the stage all cannot tell: so it is")
	p.order(intent.OrderResume)
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutDone)
}

// TestWhatIsComparedWithBefore is of before the first wave of a stage went on: between waves
// some have it already.
func TestWhatIsComparedWithBefore(t *testing.T) {
	p := begun(t)
	p.said.Validate = []string{"errors"}
	p.wait(2 * time.Second)
	first := p.asked[0]
	p.wait(8 * time.Second)
	last := p.asked[0]
	if len(last.Experiment) != 2 || !last.Changed.After(first.Changed) {
		t.Fatalf("both have it: %+v, and at first %+v", last, first)
	}
	if began := p.seen["a"].Selected; began.IsZero() || !first.Began.Equal(began) || !last.Began.Equal(began) {
		t.Errorf("it began at %s and %s, and a was let go on at %s", first.Began, last.Began, began)
	}

	// What takes the place of a run is compared with what was there before that: it may be no
	// worse than what was bad already. What a person left as it stands, or was good, is before.
	for name, test := range map[string]struct {
		happens func(*play)
		again   bool
	}{
		"superseded": {func(*play) {}, false},
		"aborted":    {func(p *play) { p.order(intent.OrderAbort); p.wait(2 * time.Second) }, true},
		"found good": {func(p *play) {
			p.found = []intent.ValidationVerdict{{Validation: "errors", Stage: "all", Result: "good"}}
			p.wait(20 * time.Second)
			p.found = nil
		}, true},
	} {
		p := begun(t)
		p.said.Validate = []string{"errors"}
		p.wait(2 * time.Second)
		left := p.seen["a"].Selected
		test.happens(p)
		for _, version := range []string{"3", "4"} {
			p.publish(map[intent.AssetID]string{"a": version})
			p.wait(4 * time.Second)
			if q := p.asked[0]; q.Began.Equal(left) == test.again || q.Began.After(p.seen["a"].Selected) {
				t.Errorf("%s, version %s: it began at %s, and a left what was there at %s", name, version, q.Began, left)
			}
			if test.again {
				break
			}
		}
	}
}

// TestTheControlIsKnownToBeGood: what an earlier run let go on, and nobody knows to be good,
// is none.
func TestTheControlIsKnownToBeGood(t *testing.T) {
	p := plays(t, "a", "b", "c")
	p.said.Validate = []string{"errors"}
	p.publish(version{"a": "2", "b": "2", "c": "2"})
	p.wait(10 * time.Second)
	p.has(version{"a": "2", "b": "2", "c": "1"})
	p.publish(version{"a": "3", "b": "3", "c": "3"})
	p.wait(4 * time.Second)
	p.is(2, intent.RolloutRunning)
	if len(p.asked) != 1 || len(p.asked[0].Experiment) != 1 || !slices.Equal(p.asked[0].Control, []intent.AssetID{"c"}) {
		t.Errorf("it asks %+v", p.asked)
	}
}

// TestWhatIsGovernedChanges in the middle of a run: it appears, vanishes, or is selected
// no more.
func TestWhatIsGovernedChanges(t *testing.T) {
	p := begun(t)
	p.said.Newer = intentpb.Rollout_NEWER_QUEUES
	p.publish(version{"c": "1", "b": ""})
	p.pin(intent.Pin{Asset: "c", Incarnation: at(0), Rank: intent.RankRollout, Created: p.now, Governed: 3})
	p.wait(time.Minute)
	p.is(2, intent.RolloutDone)
	p.has(version{"a": "2", "c": "1"})
	if len(p.pins) != 2 {
		t.Errorf("what is gone is held still: %v", p.pins)
	}
	p.outside = []intent.AssetID{"a", "c"} // Nothing is selected.
	p.wait(2 * time.Second)
	if len(p.pins) != 0 {
		t.Errorf("what is selected no more, and as head says, is held: %v", p.pins)
	}
	p.wait(time.Minute)
	p.is(2, intent.RolloutDone)
}

func TestWhatIsSelectedNoMoreStaysUntilItIsReleased(t *testing.T) {
	p := begun(t)
	p.outside = []intent.AssetID{"b"}
	p.wait(10 * time.Second)
	p.is(1, intent.RolloutDone)
	p.has(version{"b": "1"})
	p.order(intent.OrderRelease)
	p.wait(time.Second)
	if len(p.pins) != 1 {
		t.Errorf("what was released is held: %v", p.pins)
	}
}

func TestARolloutThatHeadDoesNotHaveEnds(t *testing.T) {
	p := begun(t)
	p.said, p.outside = nil, []intent.AssetID{"a", "b"}
	p.wait(time.Second)
	p.is(1, intent.RolloutStopped)
	p.has(version{"b": "1"})
	if len(p.pins) != 1 {
		t.Errorf("its pins: %v", p.pins)
	}
}

// TestNewerContentIsNotKeptBackForEver: where it queues, the run that is in its way says
// so, and ends by itself when it waits for what is in head no more (L9).
func TestNewerContentIsNotKeptBackForEver(t *testing.T) {
	for _, newer := range []intentpb.Rollout_Newer{intentpb.Rollout_NEWER_QUEUES, intentpb.Rollout_NEWER_IS_HELD} {
		waits := func(p *play, kind intent.WaitingKind) {
			p.find(sight.Look{State: intent.StateWaiting, Waits: kind}, "a")
			p.reports = map[intent.AssetID]intent.Report{"a": {
				Effective: intent.Sum("2"), Waiting: []intent.WaitingOn{{Kind: kind, Reason: "must come after x", Blockers: []intent.AssetID{"x"}}},
			}}
		}
		for name, test := range map[string]struct {
			kind intent.WaitingKind
			head version
			ends bool
		}{
			"head has it no more":          {intent.WaitMissing, version{"a": "3", "b": "3"}, true},
			"head has it again":            {intent.WaitMissing, version{"a": "3", "x": "1"}, false},
			"head's content asks for that": {intent.WaitMissing, version{"b": "3"}, false},
			"it is to come":                {intent.WaitOrder, version{"a": "3"}, false},
		} {
			t.Run(newer.String()+", "+name, func(t *testing.T) {
				p := begun(t)
				p.said.Newer = newer
				waits(p, test.kind)
				p.publish(test.head)
				p.wait(time.Second)
				if test.ends {
					p.reports = nil
					p.find(healthy, "a")
					p.wait(time.Second)
				}
				switch {
				case !test.ends:
					p.is(1, intent.RolloutRunning)
					p.waitsFor("must come after x; shop@3 waits for this run to end: lehr rollout abort web --reason WHY ends it")
					p.order(intent.OrderAbort)
					p.wait(2 * time.Second)
				case newer == intentpb.Rollout_NEWER_IS_HELD:
					p.is(1, intent.RolloutSuperseded)
				}
				if newer == intentpb.Rollout_NEWER_IS_HELD {
					p.waitsFor("lehr rollout start web")
				} else {
					p.is(2, intent.RolloutRunning)
				}
			})
		}
	}
	t.Run("going back", func(t *testing.T) {
		p := begun(t)
		p.said.Newer = intentpb.Rollout_NEWER_QUEUES
		p.order(intent.OrderRollback)
		p.wait(time.Second)
		p.is(1, intent.RolloutRollingBack)
		p.find(sight.Look{State: intent.StateWaiting, Waits: intent.WaitMissing}, "a")
		p.reports = map[intent.AssetID]intent.Report{"a": {
			Effective: intent.Sum("1"), Waiting: []intent.WaitingOn{{Kind: intent.WaitMissing, Reason: "must come after x", Blockers: []intent.AssetID{"x"}}},
		}}
		p.wait(10 * time.Second)
		p.is(1, intent.RolloutRollingBack)
		p.publish(version{"a": "3"})
		p.wait(3 * time.Second)
		p.is(2, intent.RolloutRunning)
		p.has(version{"a": "3"})
	})
}
