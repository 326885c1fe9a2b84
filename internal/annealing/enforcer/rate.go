package enforcer

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// window is what the enforcer knows of the pushes that ended and count under a key
// of a rate limit. The store's count is the one that is kept; this spares asking
// it in vain. No other process ends pushes, so what was read once is kept up.
type window struct {
	// endedAt is when the newest did, the oldest first; read are those among them
	// that were read, of which the store's answer may be still to come.
	endedAt []time.Time
	read    []intent.PushID
	// opens is when another push may begin next, and called are the assets that
	// are looked at then: as many as may begin, and one more.
	opens  time.Time
	called map[*asset]bool
}

// mostCounted is the highest limit that a policy may have, mostWindows how many
// windows are remembered.
const mostCounted, mostWindows = 1000, 10_000

// count reads what the store has of windows that the enforcer does not know.
func (r *reader) count(ctx context.Context, partition intent.PartitionID, windows []check.Window, all *requirements) error {
	var unknown []string
	r.mu.Lock()
	for _, w := range windows {
		if !r.counted[w.Key] {
			unknown = append(unknown, w.Key)
		}
	}
	r.mu.Unlock()
	all.windows = windows
	if len(unknown) == 0 {
		return nil
	}
	var err error
	all.endedPushes, err = r.store.Ended(ctx, partition, unknown, mostCounted)
	return err
}

// learnWindows takes up what a look read of windows that were not known. What is
// known is newer.
func (e *Enforcer) learnWindows(read map[string][]store.EndedPush) {
	for key, pushes := range read {
		if e.windows[key] != nil {
			continue
		}
		if len(e.windows) >= mostWindows {
			for knownKey := range e.windows {
				e.forgetWindow(knownKey)
			}
		}
		w := &window{}
		for _, push := range pushes {
			w.endedAt, w.read = append(w.endedAt, push.At), append(w.read, push.Push)
		}
		e.windows[key] = w
		e.read.counts(key, true)
	}
}

// forgetWindow has a window read again.
func (e *Enforcer) forgetWindow(key string) {
	delete(e.windows, key)
	e.read.counts(key, false)
}

// counts says whether the enforcer knows a window.
func (r *reader) counts(key string, isKnown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.counted, key); isKnown {
		r.counted[key] = true
	}
}

// windowsOf are the windows that a push of an asset counts in, as known now.
func (e *Enforcer) windowsOf(a *asset) []check.Window {
	windows := slices.Clone(a.requirements.windows)
	for i, w := range windows {
		if tracked := e.windows[w.Key]; tracked != nil {
			windows[i].Known, windows[i].Ended, windows[i].Open = true, tracked.endedAt, e.counting[w.Key]
		}
	}
	return windows
}

// calls reports whether an asset that waits for a rate limit is to be looked at
// when the limit lets the next one begin: not all that wait are.
func (e *Enforcer) calls(a *asset, facts check.Facts) bool {
	for _, c := range facts.Checks {
		for _, w := range facts.Windows {
			next, places := c.Opens(w, facts.Now)
			tracked := e.windows[w.Key]
			if places == 0 || tracked == nil || !next.Equal(a.ends) {
				continue
			}
			if !tracked.opens.Equal(next) {
				tracked.opens, tracked.called = next, map[*asset]bool{}
			}
			if !tracked.called[a] && len(tracked.called) > places {
				return false
			}
			tracked.called[a] = true
		}
	}
	return true
}

// reserveRates counts a push that the store is asked to admit: it may be under way from
// then on.
func (e *Enforcer) reserveRates(facts check.Facts) (uses []store.RateUse) {
	for _, use := range facts.Rates() {
		uses = append(uses, store.RateUse(use))
	}
	e.countOpen(keysOf(uses), 1)
	return uses
}

// keysOf are the keys of limits, each once.
func keysOf(uses []store.RateUse) (keys []string) {
	for _, use := range uses {
		if !slices.Contains(keys, use.Key) {
			keys = append(keys, use.Key)
		}
	}
	return keys
}

// countOpen counts pushes that are under way or before the store.
func (e *Enforcer) countOpen(keys []string, delta int) {
	for _, key := range keys {
		if e.counting[key] += delta; e.counting[key] == 0 {
			delete(e.counting, key)
		}
	}
}

// countEnded has a push that was under way count from its end on.
func (e *Enforcer) countEnded(push *push, at time.Time) {
	e.countOpen(push.rates, -1)
	for _, key := range push.rates {
		w := e.windows[key]
		if w == nil || slices.Contains(w.read, push.id) {
			continue
		}
		w.endedAt = append(w.endedAt, at)
		if last := len(w.endedAt) - 2; last >= 0 && w.endedAt[last].After(at) {
			w.endedAt = slices.SortedStableFunc(slices.Values(w.endedAt), time.Time.Compare)
		}
		w.endedAt = w.endedAt[max(0, len(w.endedAt)-mostCounted):]
	}
}
