package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/intent"
	"lehr.dev/loop"
)

// line is a budget on pushes in flight as the enforcer counts it, and who
// waits for a place. The store holds the budget itself; this spares asking.
type line struct {
	taken, limit int
	// waiting by what they wait to push, and since when.
	waiting loop.Queue[*asset]
}

// takePlaces takes a place in every budget, or none: then the asset waits in
// the line of the first that is full, and the reason is returned. The key ""
// is the limit on all pushes of the partition.
func (e *Enforcer) takePlaces(a *asset, keys []string, now time.Time) *intent.WaitingOn {
	for i, key := range keys {
		l := e.lines[key]
		if l == nil {
			l = &line{waiting: loop.Queue[*asset]{Compare: byID}}
			e.lines[key] = l
		}
		l.limit = e.Limits.Pushes
		if i > 0 {
			l.limit = a.requirements.budgets[i-1].Limit
		}
		if l.taken < l.limit {
			continue
		}
		if a.line == nil {
			a.line = l
			if a.lined.IsZero() {
				a.lined = now
			}
			l.waiting.Add(a, a.lined, a.urgency())
		}
		if key == "" {
			return &intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("%d pushes are under way in the partition, the most at once", l.limit)}
		}
		if key == turndowns {
			return &intent.WaitingOn{Kind: intent.WaitBudget, Reason: fmt.Sprintf("%d of %d removals under way in the partition; checks.turndown.in_flight in its definition says how many at once", l.taken, l.limit)}
		}
		return &intent.WaitingOn{Kind: intent.WaitBudget, Reason: fmt.Sprintf("%d of %d pushes in flight in scope %s", l.taken, l.limit, key)}
	}
	for _, key := range keys {
		e.lines[key].taken++
	}
	a.lined = time.Time{}
	return nil
}

// urgency of a push: what intent asks for anew goes before what failed, and that
// before what something else changed back.
func (a *asset) urgency() loop.Priority {
	switch {
	case a.trouble != nil && a.failures > 0:
		return loop.Retry
	case a.lags || a.enforced == 0:
		return loop.Fresh
	}
	return loop.Sweep
}

// release gives places back.
func (e *Enforcer) release(keys []string) {
	for _, key := range keys {
		if l := e.lines[key]; l != nil && l.taken > 0 {
			l.taken--
		}
	}
}

// usher wakes as many as there are free places, in every line, the most urgent
// first and by turns whoever waits longest. One that does not take its place
// leaves it to the next time: while anyone waits, the usher comes back.
func (e *Enforcer) usher(ctx context.Context) {
	const interval = 200 * time.Millisecond
	crowded, now := false, e.now()
	for _, key := range slices.Sorted(maps.Keys(e.lines)) {
		l := e.lines[key]
		for free := l.limit - l.taken; free > 0; {
			priority, any := l.waiting.Turn(now)
			if !any {
				break
			}
			next, _ := l.waiting.PopOf(now, priority)
			next.line = nil
			if e.assets[next.id] == next && next.trouble != nil && next.difference.Outcome == intent.Differs && !next.open() {
				e.soon(next, loop.Fresh)
				free--
			}
		}
		crowded = crowded || l.waiting.Len() > 0
		if l.taken == 0 && l.waiting.Len() == 0 {
			delete(e.lines, key)
		}
	}
	if crowded && !e.ushering {
		e.ushering = true
		e.later(ctx, interval, func() {
			e.ushering = false
			e.usher(ctx)
		})
	}
}
