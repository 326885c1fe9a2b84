package enforcer

import (
	"context"
	"slices"
	"time"

	"lehr.dev/annealing/check"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// window is what the enforcer knows of the pushes that count under a key of a
// rate limit. The store's count is the one that is kept; this spares asking it
// in vain. No other process admits pushes, so what was read once is kept up.
type window struct {
	// begun is when the newest were admitted, the oldest first; asked is how
	// many admissions are before the store.
	begun []time.Time
	asked int
	// opens is when another push may begin next, and called are the assets that
	// are looked at then: as many as may begin, and one more.
	opens  time.Time
	called map[*asset]bool
}

// mostBegun is the highest limit that a policy may have, mostWindows how many
// windows are remembered.
const mostBegun, mostWindows = 1000, 10_000

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
	begun, err := r.store.Begun(ctx, partition, unknown, mostBegun)
	for i, w := range windows {
		windows[i].Begun, windows[i].Known = begun[w.Key], slices.Contains(unknown, w.Key)
	}
	return err
}

// learnWindows takes up what a look read of windows that were not known. What is known
// is newer.
func (e *Enforcer) learnWindows(windows []check.Window) {
	for i, read := range windows {
		if read.Known && e.windows[read.Key] == nil {
			if len(e.windows) >= mostWindows {
				e.forgetWindows()
			}
			e.windows[read.Key] = &window{begun: read.Begun}
			e.read.counts(read.Key, true)
		}
		// Of that time: another look is not to learn it again.
		windows[i].Begun, windows[i].Known = nil, false
	}
}

// forgetWindows forgets all in which no admission is before the store.
func (e *Enforcer) forgetWindows() {
	for key, w := range e.windows {
		if w.asked == 0 {
			e.forgetWindow(key)
		}
	}
}

// forgetWindow has a window read again.
func (e *Enforcer) forgetWindow(key string) {
	delete(e.windows, key)
	e.read.counts(key, false)
}

// counts says whether the enforcer knows a window.
func (r *reader) counts(key string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.counted, key); known {
		r.counted[key] = true
	}
}

// windowsOf are the windows that a push of an asset counts in, as known now.
func (e *Enforcer) windowsOf(a *asset) []check.Window {
	windows := slices.Clone(a.requirements.windows)
	for i, w := range windows {
		if known := e.windows[w.Key]; known != nil {
			windows[i].Known, windows[i].Begun, windows[i].Asked = true, known.begun, known.asked
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
			known := e.windows[w.Key]
			if places == 0 || known == nil || !next.Equal(a.ends) {
				continue
			}
			if !known.opens.Equal(next) {
				known.opens, known.called = next, map[*asset]bool{}
			}
			if !known.called[a] && len(known.called) > places {
				return false
			}
			known.called[a] = true
		}
	}
	return true
}

// asks counts a push that the store is asked to admit.
func (e *Enforcer) asks(facts check.Facts) (uses []store.RateUse) {
	for _, use := range facts.Rates() {
		if !slices.ContainsFunc(uses, func(before store.RateUse) bool { return before.Key == use.Key }) && e.windows[use.Key] != nil {
			e.windows[use.Key].asked++
		}
		uses = append(uses, store.RateUse(use))
	}
	return uses
}

// answeredAsk takes up whether the push was admitted.
func (e *Enforcer) answeredAsk(g admission, admitted bool) {
	for i, use := range g.Rates {
		w := e.windows[use.Key]
		if w == nil || slices.ContainsFunc(g.Rates[:i], func(before store.RateUse) bool { return before.Key == use.Key }) {
			continue
		}
		w.asked = max(0, w.asked-1)
		if !admitted {
			continue
		}
		w.begun = append(w.begun, g.At)
		if len(w.begun) > mostBegun {
			w.begun = slices.Clone(w.begun[1:])
		}
	}
}
