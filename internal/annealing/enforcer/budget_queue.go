package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// budgetQueue is a budget on pushes in flight as the enforcer counts it, and who
// waits for a place. The store holds the budget itself; this spares asking.
type budgetQueue struct {
	used, limit int
	// waiting by what they wait to push, and since when.
	waiting loop.Queue[*asset]
	// holders have the places. unhealthy is how many assets of the scope may be
	// so or in flight at once; 0: it does not matter.
	holders   map[*asset]bool
	unhealthy int
}

// place is one of those that a push takes: of how many, in which line.
type place struct {
	key   string
	limit int
	full  intent.WaitingOn
	// budget: the store is asked for it too.
	budget bool
}

// placesOf lists what a push of an asset takes: of the partition, of its plugin,
// of its type where the policy bounds it, and of its budgets.
func (e *Enforcer) placesOf(a *asset) []place {
	turn := func(key string, limit int, scope string) place {
		return place{key, limit, intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("%d pushes are under way %s, the most at once", limit, scope)}, false}
	}
	places := []place{
		turn("", 2*e.Limits.Pushes, "in the partition"),
		turn("plugin\x00"+a.kind.served.key, e.Limits.Pushes, "by plugin "+a.kind.served.name),
	}
	if most := a.kind.atOnce; most > 0 {
		places = append(places, turn("type\x00"+string(a.kind.name), most, fmt.Sprintf("of %s (at_once of its plugin in the partition's definition)", a.kind.name)))
	}
	for _, budget := range a.requirements.budgets {
		places = append(places, place{budget.Key, budget.Limit, fullOf(budget), true})
	}
	return places
}

// takePlaces takes all of the places, and returns their keys, or none: then the
// asset waits in the line of the first that is full, and the reason is returned.
// What is taken of budgets the store is asked for in its turn, until that time.
func (e *Enforcer) takePlaces(a *asset, places []place, now time.Time) (keys []string, uses []store.BudgetUse, until time.Time, full *intent.WaitingOn) {
	for _, wanted := range places {
		key := wanted.key
		l := e.queues[key]
		if l == nil {
			l = &budgetQueue{holders: map[*asset]bool{}, waiting: loop.Queue[*asset]{Compare: byID}}
			e.queues[key] = l
		}
		l.limit = wanted.limit
		room, isKnown := l.limit, true
		if wanted.budget {
			var end time.Time
			room, end, isKnown = e.room(a, store.BudgetUse{Key: key, Limit: l.limit}, l, now)
			uses, until = append(uses, store.BudgetUse{Key: key, Limit: room}), earlier(until, end)
		}
		if l.used < room {
			continue
		}
		if e.queuedIn[a] == nil {
			e.queuedIn[a] = l
			if a.lined.IsZero() {
				a.lined = now
			}
			l.waiting.Add(a, a.lined, a.urgency())
		}
		switch {
		case !isKnown:
			w := e.healthBudgets[key]
			w.waiters = append(w.waiters, a)
			reading := isRead(key)
			return nil, nil, until, &reading
		case room < l.limit:
			return nil, nil, until, e.waitForHealth(a, key, l)
		}
		return nil, nil, until, &wanted.full
	}
	for _, wanted := range places {
		e.queues[wanted.key].used++
		e.queues[wanted.key].holders[a] = true
		keys = append(keys, wanted.key)
	}
	a.lined = time.Time{}
	return keys, uses, until, nil
}

// isRead says that it is not known yet who is in a scope.
func isRead(key string) intent.WaitingOn {
	return intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("which assets have the scope %s is being read", key)}
}

// holdBeside lists the assets but this one whose pushes beside have places in a budget.
func (e *Enforcer) holdBeside(key string, but *asset) (ids []intent.AssetID) {
	for _, push := range e.Beside {
		if push.Asset != but.id && slices.Contains(push.Budgets, key) {
			ids = append(ids, push.Asset)
		}
	}
	return ids
}

// fullBeside says which budgets of an asset pushes beside fill.
func (e *Enforcer) fullBeside(a *asset) (waiting []intent.WaitingOn) {
	for _, use := range a.requirements.budgets {
		if ids := e.holdBeside(use.Key, a); len(ids) > 0 && len(ids) >= use.Limit {
			w := fullOf(use)
			w.Reason += ": " + listed(ids[:min(shownOf, len(ids))])
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// fullOf says that a budget's pushes are in flight.
func fullOf(budget store.BudgetUse) intent.WaitingOn {
	reason := fmt.Sprintf("%d of %d pushes in flight in scope %s", budget.Limit, budget.Limit, budget.Key)
	if budget.Key == turndowns {
		reason = fmt.Sprintf("%d of %d removals under way in the partition; checks.turndown.in_flight in its definition says how many at once", budget.Limit, budget.Limit)
	}
	return intent.WaitingOn{Kind: intent.WaitBudget, Scope: budget.Key, Reason: reason}
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

// waitForHealth says that too many assets of a scope are unhealthy.
func (e *Enforcer) waitForHealth(a *asset, key string, l *budgetQueue) *intent.WaitingOn {
	w := e.healthBudgets[key]
	ill, named := w.names(a), ""
	if len(ill) > 0 {
		named = " (" + listed(ill) + ")"
	}
	return &intent.WaitingOn{Kind: intent.WaitBudget, Unhealthy: true, Blockers: ill, Reason: fmt.Sprintf(
		"unhealthy, or not known to be healthy, in scope %s: %d%s; pushes in flight there: %d; at most %d together, with this one. An asset that is unhealthy itself may be pushed all the same",
		key, w.countUnhealthy(a, l), named, l.used+len(e.holdBeside(key, a)), l.unhealthy)}
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
		if l := e.queues[key]; l != nil && l.used > 0 {
			l.used--
			delete(l.holders, a)
		}
	}
}

// dispatchQueued wakes as many as there are free places, in every line, the most urgent
// first and by turns whoever waits longest. One that does not take its place
// leaves it to the next time: while anyone waits, dispatchQueued comes back.
func (e *Enforcer) dispatchQueued(ctx context.Context) {
	const interval = 200 * time.Millisecond
	crowded, now := false, e.now()
	for _, key := range slices.Sorted(maps.Keys(e.queues)) {
		l := e.queues[key]
		for free := e.free(key, l); free > 0; {
			priority, ok := l.waiting.Turn(now)
			if !ok {
				break
			}
			next, _ := l.waiting.PopOf(now, priority)
			delete(e.queuedIn, next)
			if e.assets[next.id] == next && next.trouble != nil && next.difference.Outcome == intent.Differs && !next.open() {
				e.soon(next, loop.Fresh)
				free--
			}
		}
		e.callUnhealthy(key, l)
		crowded = crowded || l.waiting.Len() > 0
		if l.used == 0 && l.waiting.Len() == 0 {
			delete(e.queues, key)
		}
	}
	if crowded && !e.ushering {
		e.ushering = true
		e.later(ctx, interval, func() {
			e.ushering = false
			e.dispatchQueued(ctx)
		})
	}
}
