package enforcer

import (
	"slices"
	"sync"
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

// rateWindows counts the pushes that rate limits bound: those that ended, and those that
// are under way. It only holds state; the enforcer passes it what happened and when.
type rateWindows struct {
	// byKey are the windows that are known, by the key of the limit.
	byKey map[string]*window
	// open is how many pushes are under way, or before the store, by key.
	open map[string]int
	// known are the keys of byKey, for those who read for a look.
	known *knownWindows
}

func newRateWindows() rateWindows {
	return rateWindows{byKey: map[string]*window{}, open: map[string]int{}, known: &knownWindows{keys: map[string]bool{}}}
}

// knownWindows are the keys of the windows that the enforcer knows. Looks read them from
// goroutines of their own.
type knownWindows struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (k *knownWindows) set(key string, isKnown bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.keys, key); isKnown {
		k.keys[key] = true
	}
}

// missing lists the keys of those windows that are not known.
func (k *knownWindows) missing(windows []check.Window) (unknown []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range windows {
		if !k.keys[w.Key] {
			unknown = append(unknown, w.Key)
		}
	}
	return unknown
}

// learn takes over what a look read of windows that were not known. What is known
// already is newer, and stays.
func (r *rateWindows) learn(read map[string][]store.EndedPush) {
	for key, pushes := range read {
		if r.byKey[key] != nil {
			continue
		}
		if len(r.byKey) >= mostWindows {
			for knownKey := range r.byKey {
				r.forget(knownKey)
			}
		}
		w := &window{}
		for _, push := range pushes {
			w.endedAt, w.read = append(w.endedAt, push.At), append(w.read, push.Push)
		}
		r.byKey[key] = w
		r.known.set(key, true)
	}
}

// forget makes the next look read a window again.
func (r *rateWindows) forget(key string) {
	delete(r.byKey, key)
	r.known.set(key, false)
}

// windowsOf are the windows that a push of an asset counts in, as known now.
func (r *rateWindows) windowsOf(a *asset) []check.Window {
	windows := slices.Clone(a.requirements.windows)
	for i, w := range windows {
		if tracked := r.byKey[w.Key]; tracked != nil {
			windows[i].Known, windows[i].Ended, windows[i].Open = true, tracked.endedAt, r.open[w.Key]
		}
	}
	return windows
}

// wakes reports whether an asset that waits for a rate limit is to be looked at
// when the limit lets the next push begin: not all that wait are.
func (r *rateWindows) wakes(a *asset, facts check.Facts) bool {
	for _, c := range facts.Checks {
		for _, w := range facts.Windows {
			next, places := c.Opens(w, facts.Now)
			tracked := r.byKey[w.Key]
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

// reserve counts a push that the store is asked to admit: it may be under way from
// then on.
func (r *rateWindows) reserve(facts check.Facts) (uses []store.RateUse) {
	for _, use := range facts.Rates() {
		uses = append(uses, store.RateUse(use))
	}
	r.countOpen(keysOf(uses), 1)
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
func (r *rateWindows) countOpen(keys []string, delta int) {
	for _, key := range keys {
		if r.open[key] += delta; r.open[key] == 0 {
			delete(r.open, key)
		}
	}
}

// countEnded has a push that was under way count from its end on.
func (r *rateWindows) countEnded(push *push, at time.Time) {
	r.countOpen(push.rates, -1)
	for _, key := range push.rates {
		w := r.byKey[key]
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
