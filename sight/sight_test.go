package sight_test

import (
	"testing"
	"time"

	"lehr.dev/intent"
	"lehr.dev/sight"
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
