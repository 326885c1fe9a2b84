package world

import (
	"context"
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// hinted is what a bench's replica is told of hints.
type hinted struct {
	*bench
	all  []plugin.Hints
	news map[HintNews]int
}

// withHints is a bench whose plugin gives hints, was asked about job and balancer, and is
// heard.
func withHints(t *testing.T) *hinted {
	t.Helper()
	b := newBench(t, 3)
	h := &hinted{bench: b, news: map[HintNews]int{}}
	b.sim.Kill(b.replica)
	b.world.options.HintCadence = time.Hour
	b.world.OnHint = func(news HintNews) { h.news[news]++ }
	b.start("north")
	source, ok := b.plugin.(plugin.Hinting)
	if !ok {
		t.Fatal("it gives no hints")
	}
	b.replica.Go("hints", func() {
		source.WatchHints(context.Background(), "shop", func(hints plugin.Hints) { h.all = append(h.all, hints) })
	})
	b.enforce(1, job)
	b.enforce(1, balancer)
	h.until("hints are reliable", func() bool { return h.reliable() })
	h.run(10 * time.Second)
	h.all, h.news = nil, map[HintNews]int{}
	return h
}

// until lets time pass until it is so, for at most two minutes.
func (h *hinted) until(what string, is func() bool) {
	h.t.Helper()
	for range 1200 {
		if is() {
			return
		}
		h.run(100 * time.Millisecond)
	}
	h.t.Fatalf("within two minutes not so: %s; told %+v", what, h.all)
}

// reliable is what was told last.
func (h *hinted) reliable() bool { return len(h.all) > 0 && h.all[len(h.all)-1].Reliable }

// about counts the hints about an asset.
func (h *hinted) about(asset intent.AssetID) (n int) {
	for _, hints := range h.all {
		for _, id := range hints.Assets {
			if id == asset {
				n++
			}
		}
	}
	return n
}

func TestPluginsHintWhatChanges(t *testing.T) {
	h := withHints(t)
	if description, _ := h.plugin.Describe(); description.Cadence() != time.Hour {
		t.Errorf("its cadence is %s", description.Cadence())
	}
	changes := []struct {
		what   string
		change func()
	}{
		{"a drift", func() { h.world.Drift(jobKey, 1) }},
		{"health", func() { h.world.Sick(jobKey, true) }},
		{"unknown health", func() { h.world.Degrade(jobKey, true) }},
		{"that it heals", func() { h.world.Heal() }},
		{"that it is gone", func() { h.world.Vanish(jobKey) }},
		{"a push", func() { h.enforce(1, job) }},
	}
	for _, c := range changes {
		h.all = nil
		c.change()
		if h.run(time.Second); h.about(job) == 0 {
			t.Errorf("%s was not hinted: %+v", c.what, h.all)
		}
	}
	if h.about(balancer) != 0 || h.about(command) != 0 {
		t.Errorf("what did not change was hinted: %+v", h.all)
	}
	h.run(10 * time.Second)
	h.news = map[HintNews]int{}
	h.world.Drift(jobKey, 1)
	h.run(time.Second)
	if h.diff(1, job); h.news[HintSawDrift] != 1 {
		t.Errorf("a drift was hinted and seen: %v", h.news)
	}
}

func TestOnlyPluginsWithHintsGiveThem(t *testing.T) {
	if _, ok := newBench(t, 1).plugin.(plugin.Hinting); ok {
		t.Error("a plugin without a cadence gives hints")
	}
}

func TestBrokenHintsAreKnownToBe(t *testing.T) {
	h := withHints(t)
	h.world.BreakHints(30 * time.Second)
	h.run(time.Second)
	if h.reliable() || len(h.all) != 1 || h.news[HintsBroke] != 1 {
		t.Errorf("told %+v, %v", h.all, h.news)
	}
	h.world.Drift(jobKey, 1)
	h.run(28 * time.Second)
	if h.about(job) != 0 || h.reliable() {
		t.Errorf("a broken connection brought %+v", h.all)
	}
	h.until("they are reliable again", h.reliable)
	if h.about(job) != 0 || !h.world.LostHintOf(job).IsZero() {
		t.Errorf("what was lost came: %+v", h.all)
	}
}

func TestSilentlyLostHintsAreToldToNobody(t *testing.T) {
	h := withHints(t)
	h.world.SilenceHints(10 * time.Second)
	h.world.Drift(jobKey, 1)
	if h.run(9 * time.Second); len(h.all) != 0 || h.news[HintLost] != 1 || h.world.LostHintOf(job).IsZero() {
		t.Errorf("told %+v, %v", h.all, h.news)
	}
	h.run(2 * time.Second)
	h.world.Drift(jobKey, 2)
	if h.run(time.Second); h.about(job) != 1 {
		t.Errorf("told %+v", h.all)
	}
}

func TestFalseForeignAndTooManyHints(t *testing.T) {
	h := withHints(t)
	h.world.SayHints(true, "shop", intent.PolicyAsset, "of/nobody", command)
	h.world.SayHints(true, "yard", job)
	if h.run(time.Second); len(h.all) != 0 || h.news[HintForeign] == 0 {
		t.Errorf("foreign hints: told %+v, %v", h.all, h.news)
	}
	h.world.SayHints(false, "shop", balancer, command)
	if h.run(time.Second); h.about(balancer) != 1 {
		t.Errorf("a false hint: told %+v", h.all)
	}
	if h.diff(1, balancer); h.news[HintWasFalse] != 1 {
		t.Errorf("a false hint was looked at: %v", h.news)
	}
	h.world.SayHints(false, "shop", slices.Repeat([]intent.AssetID{job}, 1500)...)
	if h.run(time.Second); h.about(job) < 1000 || h.about(job) >= 1500 || h.reliable() || h.news[HintFlooded] == 0 {
		t.Errorf("of 1500 hints %d came, reliable %v, %v", h.about(job), h.reliable(), h.news)
	}
	h.until("a minute later hints are reliable", h.reliable)
}

// A process that ends, or stands still, hints nothing, and its caller knows.
func TestHintsOfAPluginThatEndsOrStandsStill(t *testing.T) {
	h := withHints(t)
	h.trouble(PluginCrash, job, 0, 1)
	h.diff(1, job)
	h.until("they are lost", func() bool { return len(h.all) > 0 && !h.all[0].Reliable })
	h.until("its successor's are reliable", h.reliable)
	h.all = nil
	h.world.Drift(jobKey, 1)
	if h.run(time.Second); h.about(job) != 0 {
		t.Errorf("it hints what it was not asked: %+v", h.all)
	}
	h.diff(1, job)
	h.world.Drift(jobKey, 2)
	if h.run(time.Second); h.about(job) != 1 {
		t.Errorf("told %+v", h.all)
	}

	h.all = nil
	for _, c := range h.world.children {
		if c.life != nil {
			c.life.process.Pause(40 * time.Second)
		}
	}
	h.world.Drift(jobKey, 3)
	if h.run(25 * time.Second); len(h.all) == 0 || h.reliable() {
		t.Errorf("a process that stands still: told %+v", h.all)
	}
	h.until("what it saw is hinted when it goes on", func() bool { return h.about(job) == 1 && h.reliable() })
}
