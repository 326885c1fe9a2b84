package sight_test

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/sight"
)

// TestWhatWasSeenBetweenTwoQuestionsIsTold: an asset that was out of sync, and was mended
// before anybody asked, was not well all the time; that its plugin was away tells nothing.
func TestWhatWasSeenBetweenTwoQuestionsIsTold(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var b sight.Board
	b.Watch([]intent.AssetID{"web"})
	one, two := intent.Sum("one"), intent.Sum("two")
	see := func(second int, l sight.Look) {
		l.At = noon.Add(time.Duration(second) * time.Second)
		b.Saw("web", l)
	}
	well := sight.Look{Effective: one, State: intent.StateInSync, Health: intent.Healthy}
	see(1, well)
	see(2, sight.Look{Effective: one, State: intent.StateWaiting, Waits: intent.WaitPlugin})
	see(3, well)
	if at := b.Of("web").Ill; !at.IsZero() {
		t.Errorf("a plugin that is away makes it ill at %s", at)
	}
	see(4, sight.Look{Effective: one, State: intent.StatePushing})
	see(5, well)
	see(6, well)
	if at := b.Of("web").Ill; !at.Equal(noon.Add(4 * time.Second)) {
		t.Errorf("it was pushed at 4 s, and was ill at %s", at)
	}
	well.Effective = two
	see(7, well)
	if at := b.Of("web").Ill; !at.IsZero() {
		t.Errorf("other content was ill at %s", at)
	}
}

// TestNews: what is as well as it was tells nothing, however often it is looked at; what is
// not well tells that each time, for patience is counted by looks.
func TestNews(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	b := sight.Board{Gap: 10 * time.Second}
	b.Watch([]intent.AssetID{"web"})
	one := intent.Sum("one")
	well := sight.Look{Effective: one, State: intent.StateInSync, Health: intent.Healthy}
	ill := sight.Look{Effective: one, State: intent.StateInSync, Health: intent.Unhealthy}
	unknown := sight.Look{Effective: one, State: intent.StateInSync}
	for _, step := range []struct {
		second int
		look   sight.Look
		news   uint64
		since  int
	}{
		{1, well, 1, 1},
		{2, well, 1, 1},
		{12, well, 1, 1},
		{23, well, 1, 23}, // Nobody looked for too long.
		{24, ill, 2, 24},
		{25, ill, 3, 25},
		{26, well, 4, 26},
		{27, unknown, 5, 27},
		{28, well, 6, 28},
		{20, well, 6, 20}, // The clock was set back.
		{21, well, 6, 20},
	} {
		look := step.look
		look.At = noon.Add(time.Duration(step.second) * time.Second)
		b.Saw("web", look)
		b.Saw("nobody's", look)
		if news, since := b.News(), b.Of("web").Since; news != step.news || !since.Equal(noon.Add(time.Duration(step.since)*time.Second)) {
			t.Errorf("after the look at %d s: %d news, so since %s; want %d, since second %d", step.second, news, since, step.news, step.since)
		}
	}
}
