package check

import (
	"errors"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// Window is what pushes count in under a rate limit: those of an asset, of a
// type, of a value of an impacted scope, or all.
type Window struct {
	// Check is the limit's name, By what it counts by.
	Check, By string
	// Key under which the store counts, and what that is in words.
	Key, What string
	// Known: Begun is when the newest pushes were admitted, the oldest first, and
	// Asked is how many admissions are before the store.
	Known bool
	Begun []time.Time
	Asked int
}

// Counts is the window that a push of content counts in under a check. There is
// none where it is no rate limit, or one by a scope that the content has not.
func Counts(c *intentpb.Check, content intent.Asset, scopes map[string]string) (w Window, counts bool) {
	r := c.GetRate()
	w = Window{Check: c.GetName(), By: by(r)}
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
	return w, true
}

func by(r *intentpb.Rate) string {
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

// rate lets a push begin while fewer than the limit were admitted within the
// period before now. The admission judges it again, by the store's count.
func (c *Configured) rate(r *intentpb.Rate) {
	c.Kind, c.Rate = KindRate, r
	c.judge = func(f Facts) intent.Verdict {
		for _, w := range f.Windows {
			if !c.counts(w) {
				continue
			}
			if !w.Known {
				return c.broken(errors.New("how many pushes began " + w.What + " is not known; it is read at the next look"))
			}
			if next := c.Next(w, f.Now); !next.IsZero() {
				return c.waits(intent.WaitRate, next, "%d of %d pushes %s began within %s; the next may begin at %s",
					w.within(f.Now, r.GetPer().AsDuration()), r.GetAtMost(), w.What, r.GetPer().AsDuration(), instant(next))
			}
		}
		return c.passes(time.Time{})
	}
}

func (c *Configured) counts(w Window) bool {
	return c.Rate != nil && w.Check == c.Name && w.By == by(c.Rate)
}

// within counts the pushes that began within the period before now.
func (w Window) within(now time.Time, period time.Duration) int {
	first := slices.IndexFunc(w.Begun, func(at time.Time) bool { return now.Sub(at) < period })
	if first < 0 {
		return w.Asked
	}
	return len(w.Begun) - first + w.Asked
}

// Next is when another push may begin; zero: now. What seems to have begun
// after now, by a clock that was wrong, only the store can put right: it is
// asked.
func (c *Configured) Next(w Window, now time.Time) time.Time {
	limit, period := int(c.Rate.GetAtMost()), c.Rate.GetPer().AsDuration()
	last := len(w.Begun) - 1
	if w.within(now, period) < limit || last >= 0 && w.Begun[last].After(now) {
		return time.Time{}
	}
	at := len(w.Begun) + w.Asked - limit
	if at > last {
		return now.Add(period)
	}
	next := w.Begun[at].Add(period)
	// A clock that was set since this process admitted it does not hasten it:
	// then what is left goes by the time that passes.
	if left := next.Sub(now); (next.Round(0).Sub(now.Round(0)) - left).Abs() > time.Second {
		return now.Add(left)
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
	for _, at := range w.Begun[max(0, len(w.Begun)+w.Asked-int(c.Rate.GetAtMost())):] {
		if at.Add(c.Rate.GetPer().AsDuration()).After(next) {
			break
		}
		places++
	}
	return next, max(1, places)
}

// Use is how a push counts under a rate limit: at most so many per period.
// Limit 0 only counts, for it was let past.
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
			if w.Known && c.Next(w, f.Now).IsZero() {
				use.Limit = int(c.Rate.GetAtMost())
			}
			uses = append(uses, use)
		}
	}
	return uses
}
