package remote

import (
	"context"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// hintRate is how many hints a second a plugin may give, hintBurst how many at once.
	hintRate, hintBurst = 200, 1000
	// floodRest is how long after the last hint that was dropped as too many the hints
	// of a plugin are relied on again.
	floodRest = time.Minute
)

// hintHub hands the hints of a plugin to those who act for its partitions. It outlives
// sessions. The zero value is ready.
type hintHub struct {
	mutex       sync.Mutex
	subscribers map[*hintSubscriber]bool
	// open: there is a stream, and a message came on it. Hints are relied on while it is
	// open and none was dropped lately, which is reliable.
	open, reliable bool
	// flooded is when a hint was dropped last as one too many.
	flooded time.Time
	// tokens of the bucket, as of filled.
	tokens float64
	filled time.Time
	counts plugin.HintCounts
}

// hintSubscriber wants the hints of a partition.
type hintSubscriber struct {
	partition intent.PartitionID
	take      func(plugin.Hints)
}

// WatchHints implements plugin.Hinting.
func (c *caller) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	subscriber := &hintSubscriber{partition: partition, take: take}
	c.hints.add(subscriber)
	defer c.hints.remove(subscriber)
	select {
	case <-ctx.Done():
	case <-c.done:
	}
}

// HintCounts returns what became of the plugin's hints.
func (c *caller) HintCounts() plugin.HintCounts {
	c.hints.mutex.Lock()
	defer c.hints.mutex.Unlock()
	return c.hints.counts
}

// HintsReliable reports whether Lehr relies on the plugin's hints now.
func (c *caller) HintsReliable() bool {
	c.hints.mutex.Lock()
	defer c.hints.mutex.Unlock()
	return c.hints.reliable
}

func (h *hintHub) add(s *hintSubscriber) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.subscribers == nil {
		h.subscribers = map[*hintSubscriber]bool{}
	}
	h.subscribers[s] = true
	s.take(plugin.Hints{Reliable: h.reliable})
}

func (h *hintHub) remove(s *hintSubscriber) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.subscribers, s)
}

// serves reports whether anybody wants hints.
func (h *hintHub) serves() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.subscribers) > 0
}

// take hands on a message of the stream: the assets about which its session asked, and how
// many hints were about others. It reports whether any hint was dropped.
func (h *hintHub) take(byPartition map[intent.PartitionID][]intent.AssetID, foreign int, now time.Time) (dropped bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.open = true
	h.counts.Foreign += uint64(foreign)
	for partition, assets := range byPartition {
		granted := h.spend(len(assets), now)
		h.counts.Taken += uint64(granted)
		if excess := len(assets) - granted; excess > 0 {
			h.counts.Flood += uint64(excess)
			h.flooded, dropped = now, true
		}
		byPartition[partition] = assets[:granted]
	}
	// What was dropped is lost, so that nobody may count on being told.
	wasReliable := h.reliable
	h.reliable = h.flooded.IsZero() || now.Sub(h.flooded) > floodRest
	for s := range h.subscribers {
		if assets := byPartition[s.partition]; len(assets) > 0 || h.reliable != wasReliable {
			s.take(plugin.Hints{Reliable: h.reliable, Assets: assets})
		}
	}
	return dropped || foreign > 0
}

// spend takes up to so many tokens from the bucket, and returns how many there were.
func (h *hintHub) spend(wanted int, now time.Time) int {
	if h.filled.IsZero() {
		h.tokens = hintBurst
	} else {
		h.tokens = min(hintBurst, h.tokens+now.Sub(h.filled).Seconds()*hintRate)
	}
	h.filled = now
	spent := min(wanted, int(h.tokens))
	h.tokens -= float64(spent)
	return spent
}

// lose notes that there is no stream any more.
func (h *hintHub) lose() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.open {
		return
	}
	h.open, h.reliable = false, false
	for s := range h.subscribers {
		s.take(plugin.Hints{})
	}
}
