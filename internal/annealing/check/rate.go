package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Window is what pushes count in under a rate limit: those of an asset, of a
// type, of a value of an impacted scope, or all.
type Window struct {
	// Check is the limit's name, By what it counts by.
	Check, By string
	// Key under which the store counts, and what that is in words.
	Key, What string
	// Known: Ended is when the newest pushes ended, the oldest first, and Open is
	// how many are under way or before the store.
	Known bool
	Ended []time.Time
	Open  int
}

// Back ends the keys of the budgets and windows of what a rollback has go back: it has
// as many places as what goes forward, none of which that can take (L8).
const Back = " going back"

// Counts is the window that a push of content counts in under a check, as what goes back
// or as all else. There is none where it is no rate limit, or one by a scope that the
// content has not.
func Counts(c *intentpb.Check, content intent.Asset, scopes map[string]string, isRollback bool) (w Window, counts bool) {
	r := c.GetRate()
	w = Window{Check: c.GetName(), By: rateScope(r)}
	value := ""
	switch r.GetBy() {
	case intentpb.Rate_BY_ASSET:
		value, w.What = string(content.ID), "of "+string(content.ID)
	case intentpb.Rate_BY_TYPE:
		value, w.What = string(content.Payload.Type), "of type "+string(content.Payload.Type)
	case intentpb.Rate_BY_PARTITION:
		w.What = "in the partition"
	case intentpb.Rate_BY_SCOPE:
		impacted := false
		if value, impacted = scopes[r.GetScope()]; !impacted {
			return w, false
		}
		w.What = "in scope " + r.GetScope() + "=" + value
	default:
		return w, false
	}
	w.Key = w.Check + " " + w.By + "=" + value
	if isRollback {
		w.Key, w.What = w.Key+Back, w.What+Back
	}
	return w, true
}

func rateScope(r *intentpb.Rate) string {
	switch r.GetBy() {
	case intentpb.Rate_BY_ASSET:
		return "asset"
	case intentpb.Rate_BY_TYPE:
		return "type"
	case intentpb.Rate_BY_SCOPE:
		return "scope " + r.GetScope()
	default:
		return "partition"
	}
}

// rate lets a push begin while fewer than the limit were under way within the
// period before now: an open push may have an effect until its end. The admission
// judges it again, by the store's count.
func (c *Configured) rate(r *intentpb.Rate) {
	c.Kind, c.Rate = KindRate, r
	c.judge = func(f Facts) intent.Verdict {
		for _, w := range f.Windows {
			if !c.counts(w) {
				continue
			}
			if !w.Known {
				return c.broken(errors.New("how many pushes were under way " + w.What + " is not known; it is read at the next look"))
			}
			if next := c.Next(w, f.Now); !next.IsZero() {
				return c.waits(intent.WaitRate, next, "%d of %d pushes %s were under way within %s%s; the next may begin at %s",
					w.countWithin(f.Now, r.GetPer().AsDuration()), r.GetAtMost(), w.What, r.GetPer().AsDuration(), w.stillOpen(), instant(next))
			}
		}
		return c.passes(time.Time{})
	}
}

func (c *Configured) counts(w Window) bool {
	return c.Rate != nil && w.Check == c.Name && w.By == rateScope(c.Rate)
}

// stillOpen says how many of them are under way.
func (w Window) stillOpen() string {
	if w.Open == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them now", w.Open)
}

// countWithin counts the pushes that were under way within the period before now.
func (w Window) countWithin(now time.Time, period time.Duration) int {
	first := slices.IndexFunc(w.Ended, func(at time.Time) bool { return now.Sub(at) < period })
	if first < 0 {
		return w.Open
	}
	return len(w.Ended) - first + w.Open
}

// Next is when another push may begin, or the earliest that it may, where that is
// up to one under way; zero: now. What seems to have ended after now, by a clock
// that was wrong, only the store can put right: it is asked.
func (c *Configured) Next(w Window, now time.Time) time.Time {
	limit, period := int(c.Rate.GetAtMost()), c.Rate.GetPer().AsDuration()
	last := len(w.Ended) - 1
	if w.countWithin(now, period) < limit || last >= 0 && w.Ended[last].After(now) {
		return time.Time{}
	}
	at := len(w.Ended) + w.Open - limit
	if at > last {
		return now.Add(period)
	}
	next := w.Ended[at].Add(period)
	// A clock that was set since this process saw it end does not hasten it:
	// then what is left goes by the time that passes.
	if remaining := next.Sub(now); (next.Round(0).Sub(now.Round(0)) - remaining).Abs() > time.Second {
		return now.Add(remaining)
	}
	return next
}

// Opens is when another push may begin, and how many then; 0: it may now, or the
// check does not count in the window.
func (c *Configured) Opens(w Window, now time.Time) (next time.Time, places int) {
	if !c.counts(w) || !w.Known {
		return next, 0
	}
	if next = c.Next(w, now); next.IsZero() {
		return next, 0
	}
	for _, at := range w.Ended[min(len(w.Ended), max(0, len(w.Ended)+w.Open-int(c.Rate.GetAtMost()))):] {
		if at.Add(c.Rate.GetPer().AsDuration()).After(next) {
			break
		}
		places++
	}
	return next, max(1, places)
}

// Use is how a push counts under a rate limit: at most so many per period.
// Limit 0 only counts, for it was let past, or goes back.
type Use struct {
	Key    string
	Limit  int
	Period time.Duration
}

// Rates lists how a push that is decided to begin counts.
func (f Facts) Rates() (uses []Use) {
	for _, c := range f.Checks {
		for _, w := range f.Windows {
			if !c.counts(w) {
				continue
			}
			use := Use{Key: w.Key, Period: c.Rate.GetPer().AsDuration()}
			if w.Known && c.Next(w, f.Now).IsZero() && (!f.Back || c.Rollbacks) {
				use.Limit = int(c.Rate.GetAtMost())
			}
			uses = append(uses, use)
		}
	}
	return uses
}
