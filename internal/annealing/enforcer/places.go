package enforcer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// takePlaces takes all of the places, and returns their keys, or none: then the
// asset waits in the queue of the first that is full, and the reason is returned.
// What is taken of budgets the store is asked for in its turn, until that time.
func (p *pushLimits) takePlaces(a *asset, places []place, now time.Time) (keys []string, uses []store.BudgetUse, until time.Time, full *intent.WaitingOn) {
	for _, wanted := range places {
		key := wanted.key
		l := p.queues[key]
		if l == nil {
			l = newBudgetQueue(wanted.limit)
			p.queues[key] = l
		}
		l.limit = wanted.limit
		room, isKnown := l.limit, true
		if wanted.budget {
			var end time.Time
			room, end, isKnown = p.room(a, store.BudgetUse{Key: key, Limit: l.limit}, l, now)
			uses, until = append(uses, store.BudgetUse{Key: key, Limit: room}), earlier(until, end)
		}
		if l.used < room {
			continue
		}
		if p.queuedIn[a] == nil {
			p.queuedIn[a] = l
			if a.lined.IsZero() {
				a.lined = now
			}
			l.waiting.Add(a, a.lined, a.urgency())
		}
		switch {
		case !isKnown:
			w := p.health.byKey[key]
			w.waiters = append(w.waiters, a)
			reading := isRead(key)
			return nil, nil, until, &reading
		case room < l.limit:
			return nil, nil, until, p.waitForHealth(a, key, l)
		}
		return nil, nil, until, &wanted.full
	}
	for _, wanted := range places {
		p.queues[wanted.key].used++
		p.queues[wanted.key].holders[a] = true
		keys = append(keys, wanted.key)
	}
	a.lined = time.Time{}
	return keys, uses, until, nil
}

// placesOf lists what a push of an asset takes: of the partition, of its plugin,
// of its type where the policy bounds it, and of its budgets.
func (p *pushLimits) placesOf(a *asset) []place {
	turn := func(key string, limit int, scope string) place {
		return place{key, limit, intent.WaitingOn{Kind: intent.WaitTurn, Reason: fmt.Sprintf("%d pushes are under way %s, the most at once", limit, scope)}, false}
	}
	places := []place{
		turn("", 2*p.pushes, "in the partition"),
		turn("plugin\x00"+a.kind.served.key, p.pushes, "by plugin "+a.kind.served.name),
	}
	if most := a.kind.atOnce; most > 0 {
		places = append(places, turn("type\x00"+string(a.kind.name), most, fmt.Sprintf("of %s (at_once of its plugin in the partition's definition)", a.kind.name)))
	}
	for _, budget := range a.requirements.budgets {
		places = append(places, place{budget.Key, budget.Limit, fullOf(budget), true})
	}
	return places
}

// callQueued takes out of every queue as many as there are free places, the most urgent
// first and by turns whoever waits longest, and returns those that are to be looked at.
// One that does not take its place leaves it to the next call. remains: somebody still
// waits, so another call is needed.
func (p *pushLimits) callQueued(now time.Time) (called []*asset, remains bool) {
	for _, key := range slices.Sorted(maps.Keys(p.queues)) {
		l := p.queues[key]
		for free := p.free(key, l); free > 0; {
			priority, ok := l.waiting.Turn(now)
			if !ok {
				break
			}
			next, _ := l.waiting.PopOf(now, priority)
			delete(p.queuedIn, next)
			differs := next.trouble != nil && next.difference.Outcome == intent.Differs
			if p.find(next.id) == next && differs && !next.open() {
				called = append(called, next)
				free--
			}
		}
		called = append(called, p.callUnhealthy(key, l)...)
		remains = remains || l.waiting.Len() > 0
		if l.used == 0 && l.waiting.Len() == 0 {
			delete(p.queues, key)
		}
	}
	return called, remains
}

// requeue has an asset wait from now on, as after the clock was set back.
func (p *pushLimits) requeue(a *asset, now time.Time) {
	if l := p.queuedIn[a]; l != nil {
		l.waiting.Add(a, now, loop.Sweep)
	}
}

// fillHealthBudget takes over which assets are members of a health budget as of a head,
// and returns those that waited for that.
func (p *pushLimits) fillHealthBudget(key string, head intent.Sequence, ids []intent.AssetID) (called []*asset) {
	planned, waiters := p.health.fill(key, head, ids, p.find)
	for _, a := range planned {
		if p.find(a.id) == a && a.trouble != nil {
			called = append(called, a)
		}
	}
	for _, a := range waiters {
		l := p.queues[key]
		waits := l != nil && p.queuedIn[a] == l
		if waits && p.find(a.id) == a && a.trouble != nil && !a.open() {
			p.leaveQueue(a)
			called = append(called, a)
		}
	}
	return called
}
