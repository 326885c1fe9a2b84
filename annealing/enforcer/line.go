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
	waiting      []*asset
}

// takePlaces takes a place in every budget, or none: then the asset waits in
// the line of the first that is full, and the reason is returned. The key ""
// is the limit on all pushes of the partition.
func (e *Enforcer) takePlaces(a *asset, keys []string) *intent.WaitingOn {
	for i, key := range keys {
		l := e.lines[key]
		if l == nil {
			l = &line{}
			e.lines[key] = l
		}
		l.limit = e.Limits.Pushes
		if i > 0 {
			l.limit = a.requirements.budgets[i-1].Limit
		}
		if l.taken < l.limit {
			continue
		}
		if !a.inLine {
			a.inLine = true
			l.waiting = append(l.waiting, a)
		}
		if key == "" {
			return &intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("%d pushes are under way in the partition, the most at once", l.limit)}
		}
		if key == turndowns {
			return &intent.WaitingOn{Kind: intent.WaitBudget, Scope: key, Reason: fmt.Sprintf("%d of %d removals under way in the partition; checks.turndown.in_flight in its definition says how many at once", l.taken, l.limit)}
		}
		return &intent.WaitingOn{Kind: intent.WaitBudget, Scope: key, Reason: fmt.Sprintf("%d of %d pushes in flight in scope %s", l.taken, l.limit, key)}
	}
	for _, key := range keys {
		e.lines[key].taken++
	}
	return nil
}

// release gives places back.
func (e *Enforcer) release(keys []string) {
	for _, key := range keys {
		if l := e.lines[key]; l != nil && l.taken > 0 {
			l.taken--
		}
	}
}

// usher wakes as many as there are free places, in every line. One that does
// not take its place leaves it to the next time: while anyone waits, the
// usher comes back.
func (e *Enforcer) usher(ctx context.Context) {
	const interval = 200 * time.Millisecond
	crowded := false
	for _, key := range slices.Sorted(maps.Keys(e.lines)) {
		l := e.lines[key]
		for free := l.limit - l.taken; free > 0 && len(l.waiting) > 0; {
			next := l.waiting[0]
			l.waiting = l.waiting[1:]
			next.inLine = false
			if e.assets[next.id] == next && next.trouble != nil && next.difference.Outcome == intent.Differs && !next.open() {
				e.soon(next, loop.Fresh)
				free--
			}
		}
		crowded = crowded || len(l.waiting) > 0
		if l.taken == 0 && len(l.waiting) == 0 {
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
