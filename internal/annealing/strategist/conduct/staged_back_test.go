package conduct_test

import (
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// through is a run of five assets that is done: the canary a, then the others two at a
// time, from b on, each of which soaks for a long time.
func through(t *testing.T) *play {
	t.Helper()
	p := plays(t, "a", "b", "c", "d", "e")
	p.stages = []selection.Stage{
		{Name: "canary", Wants: func(t selection.Target) bool { return t.Asset == "a" }, Soak: 5 * time.Minute},
		{Name: "rest", Wave: selection.Wave{Count: 2}, Delay: time.Hour, Soak: 5 * time.Second, Plugin: "", Open: func(now time.Time) (bool, time.Time) { return now.Before(noon.Add(24 * time.Hour)), time.Time{} }},
	}
	p.wait(6 * time.Minute)
	p.publish(version{"a": "2", "b": "2", "c": "2", "d": "2", "e": "2"})
	p.wait(3 * time.Hour)
	p.is(1, intent.RolloutDone)
	if want := []intent.AssetID{"a", "b", "c", "d", "e"}; !slices.Equal(p.let, want) {
		t.Fatalf("%v went on, want %v", p.let, want)
	}
	return p
}

// goneBack are the assets that follow the first version again.
func (p *play) goneBack() (back []intent.AssetID) {
	for of := range p.pins {
		if of.Rank == intent.RankRollback {
			back = append(back, of.Asset)
		}
	}
	slices.Sort(back)
	return back
}

// TestWhatWentThroughGoesBackByStages, the last first and the canary last; soaks are
// short, and no pause or window keeps it.
func TestWhatWentThroughGoesBackByStages(t *testing.T) {
	p := through(t)
	p.now = noon.Add(48 * time.Hour) // The window is closed.
	p.look()
	p.decide()
	p.order(intent.OrderRollback)
	p.decide()
	p.is(1, intent.RolloutRollingBack)
	if p := p.run.Progress; p.Waits != "for e, d to be back" || !slices.Equal(p.For, []intent.AssetID{"e", "d"}) {
		t.Errorf("it waits %q, for %v", p.Waits, p.For)
	}
	step := func(after time.Duration, want ...intent.AssetID) {
		t.Helper()
		p.wait(after)
		if got := p.goneBack(); !slices.Equal(got, want) {
			t.Fatalf("after %s %v are back, want %v; it waits %s", after, got, want, p.run.Progress.Waits)
		}
	}
	step(0, "d", "e")
	p.wait(time.Second)
	p.waitsFor("going back, stage rest waits for")
	step(2*time.Second, "d", "e")
	step(5*time.Second, "b", "c", "d", "e")
	step(8*time.Second, "a", "b", "c", "d", "e")
	p.is(1, intent.RolloutRollingBack)
	step(45*time.Second, "a", "b", "c", "d", "e")
	p.wait(30 * time.Second) // A minute of the canary's five is enough of what is known to be good.
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"})
	if len(p.goneBack()) > 0 {
		t.Errorf("pins of the rollback are left: %v", p.goneBack())
	}
	p.wait(time.Minute)
	p.is(1, intent.RolloutRolledBack)
}

// TestThePolicySaysHowItGoesBack, and what its stages do not want is not left behind.
func TestThePolicySaysHowItGoesBack(t *testing.T) {
	p := through(t)
	p.back = []selection.Stage{
		{Name: "first", Wants: func(t selection.Target) bool { return t.Asset == "c" }, Soak: 10 * time.Second},
		{Name: "then", Wants: func(t selection.Target) bool { return t.Asset != "c" && t.Asset != "a" }},
	}
	p.order(intent.OrderRollback)
	p.decide()
	if got := p.goneBack(); !slices.Equal(got, []intent.AssetID{"c"}) {
		t.Errorf("%v go back first", got)
	}
	p.wait(5 * time.Second)
	if got := p.goneBack(); !slices.Equal(got, []intent.AssetID{"c"}) {
		t.Errorf("%v are back while the first soaks", got)
	}
	for len(p.goneBack()) < 4 && p.run.State == intent.RolloutRollingBack {
		p.wait(time.Second)
	}
	if got := p.goneBack(); !slices.Equal(got, []intent.AssetID{"b", "c", "d", "e"}) {
		t.Errorf("%v are back", got)
	}
	p.wait(10 * time.Second)
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1", "e": "1"})
}

// TestWhoCannotWaitHasAllGoBack at once, and one that is ill keeps the others until then.
func TestWhoCannotWaitHasAllGoBack(t *testing.T) {
	p := through(t)
	p.order(intent.OrderRollback)
	p.decide()
	p.find(illness, "e")
	p.wait(30 * time.Second)
	if got := p.goneBack(); !slices.Equal(got, []intent.AssetID{"d", "e"}) {
		t.Errorf("%v are back though one is ill", got)
	}
	p.waitsFor("e, which is not healthy")
	p.order(intent.OrderPromote)
	p.decide()
	if got := p.goneBack(); len(got) != 5 {
		t.Errorf("%v are back", got)
	}
	p.is(1, intent.RolloutRollingBack)
	p.find(healthy, "e")
	p.wait(5 * time.Second)
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"})
}

// TestNewerContentEndsARollbackByStages: what is back and what is not go on from there.
func TestNewerContentEndsARollbackByStages(t *testing.T) {
	p := through(t)
	p.order(intent.OrderRollback)
	p.decide()
	p.publish(version{"a": "3", "b": "3", "c": "3", "d": "3", "e": "3"})
	p.wait(3 * time.Hour)
	p.is(2, intent.RolloutDone)
	p.has(version{"a": "3", "b": "3", "c": "3", "d": "3", "e": "3"})
}

// TestAGroupOfTheCanaryGoesBackLast, where groups and not stages say who is first.
func TestAGroupOfTheCanaryGoesBackLast(t *testing.T) {
	p := plays(t, "a", "b", "c")
	p.stages = []selection.Stage{{Name: "all", By: func(t selection.Target) string { return string(t.Asset) }, Order: []string{"b"}, Soak: 3 * time.Second}}
	p.publish(version{"a": "2", "b": "2", "c": "2"})
	p.wait(time.Minute)
	p.is(1, intent.RolloutDone)
	p.order(intent.OrderRollback)
	var back []intent.AssetID
	p.decide()
	for range 30 {
		for _, id := range p.goneBack() {
			if !slices.Contains(back, id) {
				back = append(back, id)
			}
		}
		p.wait(time.Second)
	}
	p.is(1, intent.RolloutRolledBack)
	if want := []intent.AssetID{"c", "a", "b"}; !slices.Equal(back, want) {
		t.Errorf("they went back as %v, want %v", back, want)
	}
}
