package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/intent"
	"lehr.dev/loop"
	"lehr.dev/store"
)

// line is a budget on pushes in flight as the enforcer counts it, and who
// waits for a place. The store holds the budget itself; this spares asking.
type line struct {
	taken, limit int
	waiting      []*asset
	// holders have the places. unhealthy is how many assets of the scope may be
	// so or in flight at once; 0: it does not matter.
	holders   map[*asset]bool
	unhealthy int
}

// takePlaces takes a place in every budget, or none: then the asset waits in
// the line of the first that is full, and the reason is returned. The key ""
// is the limit on all pushes of the partition. What is taken of the others the
// store is asked for in its turn, until that time.
func (e *Enforcer) takePlaces(a *asset, keys []string, now time.Time) (uses []store.BudgetUse, until time.Time, full *intent.WaitingOn) {
	for i, key := range keys {
		l := e.lines[key]
		if l == nil {
			l = &line{holders: map[*asset]bool{}}
			e.lines[key] = l
		}
		l.limit = e.Limits.Pushes
		room, known := l.limit, true
		if i > 0 {
			use := a.requirements.budgets[i-1]
			l.limit = use.Limit
			var end time.Time
			room, end, known = e.room(a, use, l, now)
			uses, until = append(uses, store.BudgetUse{Key: key, Limit: room}), earlier(until, end)
		}
		if l.taken < room {
			continue
		}
		if !a.inLine {
			a.inLine = true
			l.waiting = append(l.waiting, a)
		}
		if key == "" {
			return nil, until, &intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("%d pushes are under way in the partition, the most at once", l.limit)}
		}
		if !known {
			return nil, until, &intent.WaitingOn{Kind: intent.WaitBudget, Reason: fmt.Sprintf("which assets have the scope %s is being read", key)}
		}
		if room < l.limit {
			return nil, until, e.ailed(a, key, l)
		}
		if key == turndowns {
			return nil, until, &intent.WaitingOn{Kind: intent.WaitBudget, Reason: fmt.Sprintf("%d of %d removals under way in the partition; checks.turndown.in_flight in its definition says how many at once", l.taken, l.limit)}
		}
		return nil, until, &intent.WaitingOn{Kind: intent.WaitBudget, Reason: fmt.Sprintf("%d of %d pushes in flight in scope %s", l.taken, l.limit, key)}
	}
	for _, key := range keys {
		e.lines[key].taken++
		e.lines[key].holders[a] = true
	}
	return uses, until, nil
}

// ailed says that too many assets of a scope are unhealthy.
func (e *Enforcer) ailed(a *asset, key string, l *line) *intent.WaitingOn {
	w := e.wards[key]
	ill := w.names(a)
	return &intent.WaitingOn{Kind: intent.WaitBudget, Blockers: ill, Reason: fmt.Sprintf(
		"unhealthy, or not known to be healthy, in scope %s: %d (%s); pushes in flight there: %d; at most %d together, with this one. An asset that is unhealthy itself may be pushed all the same",
		key, w.ailing(a, l), listed(ill), l.taken, l.unhealthy)}
}

func listed(ids []intent.AssetID) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, ", ")
}

// earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// release gives an asset's places back.
func (e *Enforcer) release(a *asset, keys []string) {
	for _, key := range keys {
		if l := e.lines[key]; l != nil && l.taken > 0 {
			l.taken--
			delete(l.holders, a)
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
		for free := e.free(key, l); free > 0 && len(l.waiting) > 0; {
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
