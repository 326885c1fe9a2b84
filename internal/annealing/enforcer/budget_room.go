package enforcer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// goingBack counts the pushes in flight of a scope that take an asset back, and whose
// asset does not count as unhealthy.
func (p *pushLimits) goingBack(key string, w *healthBudget) (count int) {
	if l := p.queues[key+check.Back]; l != nil {
		for holder := range l.holders {
			if !w.hasUnhealthy(holder) {
				count++
			}
		}
	}
	return count
}

// room is how many pushes may be in flight at once under a budget, by the health
// of the assets in its scope: as many as it says, less those that are unhealthy.
// One that is unhealthy itself may be pushed all the same, for that may mend it.
// The number holds until that time; zero: until something changes. isKnown is false while
// the members are being read.
func (p *pushLimits) room(a *asset, use store.BudgetUse, l *budgetQueue, now time.Time) (room int, end time.Time, isKnown bool) {
	bound := a.requirements.unhealthy[use.Key]
	if l.unhealthy = bound.most; l.unhealthy == 0 {
		return use.Limit, time.Time{}, true
	}
	w := p.health.get(use.Key, bound, now)
	if w == nil {
		return 0, time.Time{}, false
	}
	if w.hasUnhealthy(a) {
		return use.Limit, time.Time{}, true
	}
	room = l.unhealthy - w.countUnhealthy(a, l.holders) - p.goingBack(use.Key, w)
	for _, id := range p.holdBeside(use.Key, a) {
		if holder := p.find(id); holder == nil || !w.hasUnhealthy(holder) {
			room--
		}
	}
	return min(use.Limit, room), w.healthyUntil(p.health.period), true
}

// wouldWait says what else an asset would wait for once what is in its way is gone: the
// unhealthy ones of its scopes. Who has places meanwhile changes too often to be reported.
// plans: the asset is looked at only once, so it is called again when a scope was read.
func (p *pushLimits) wouldWait(a *asset, plans bool, now time.Time) (waiting []intent.WaitingOn) {
	for _, use := range a.requirements.budgets {
		l := p.queues[use.Key]
		if l == nil {
			l = &budgetQueue{limit: use.Limit}
		}
		room, _, isKnown := p.room(a, use, l, now)
		switch {
		case isKnown && room <= 0:
			waiting = append(waiting, *p.waitForHealth(a, use.Key, l))
		case !isKnown && plans:
			w := p.health.byKey[use.Key]
			w.planned = append(w.planned, a)
			waiting = append(waiting, isRead(use.Key))
		}
	}
	return waiting
}

// free counts the free places of a queue, for whoever is healthy.
func (p *pushLimits) free(key string, l *budgetQueue) int {
	free := l.limit - l.used
	if w := p.health.byKey[key]; l.unhealthy > 0 && w != nil {
		if w.members == nil {
			return 0
		}
		free = min(free, l.unhealthy-w.countUnhealthy(nil, l.holders)-p.goingBack(key, w)-l.used)
	}
	return free
}

// callUnhealthy takes out of a queue those that are unhealthy themselves, as many as its
// limit has places for: free counts none for them while others are unhealthy too.
func (p *pushLimits) callUnhealthy(key string, l *budgetQueue) (called []*asset) {
	w, free := p.health.byKey[key], l.limit-l.used
	if l.unhealthy == 0 || w == nil || free <= 0 || l.waiting.Len() == 0 {
		return nil
	}
	for a := range w.ill {
		if p.queuedIn[a] == l && a.trouble != nil {
			called = append(called, a)
		}
	}
	slices.SortFunc(called, func(a, b *asset) int { return cmp.Or(a.lined.Compare(b.lined), byID(a, b)) })
	called = called[:min(free, len(called))]
	for _, a := range called {
		p.leaveQueue(a)
	}
	return called
}

// shrank reports whether a scope has less room than when the admission was decided.
func (p *pushLimits) shrank(g admission, now time.Time) bool {
	if g.asset.trouble == nil || len(g.asset.requirements.unhealthy) == 0 {
		return false
	}
	return slices.ContainsFunc(g.Budgets, func(use store.BudgetUse) bool {
		l := p.queues[use.Key]
		if l == nil || g.asset.requirements.unhealthy[use.Key].most == 0 {
			return false
		}
		room, _, isKnown := p.room(g.asset, use, l, now)
		return !isKnown || room < use.Limit
	})
}

// waitForHealth says that too many assets of a scope are unhealthy.
func (p *pushLimits) waitForHealth(a *asset, key string, l *budgetQueue) *intent.WaitingOn {
	w := p.health.byKey[key]
	ill, named := w.names(a), ""
	if len(ill) > 0 {
		named = " (" + listed(ill) + ")"
	}
	return &intent.WaitingOn{Kind: intent.WaitBudget, Unhealthy: true, Blockers: ill, Reason: fmt.Sprintf(
		"unhealthy, or not known to be healthy, in scope %s: %d%s; pushes in flight there: %d; at most %d together, with this one. An asset that is unhealthy itself may be pushed all the same",
		key, w.countUnhealthy(a, l.holders), named, l.used+len(p.holdBeside(key, a)), l.unhealthy)}
}

// holdBeside lists the assets but this one whose pushes beside have places in a budget.
func (p *pushLimits) holdBeside(key string, but *asset) (ids []intent.AssetID) {
	for _, push := range p.beside {
		if push.Asset != but.id && slices.Contains(push.Budgets, key) {
			ids = append(ids, push.Asset)
		}
	}
	return ids
}

// fullBeside says which budgets of an asset pushes beside fill.
func (p *pushLimits) fullBeside(a *asset) (waiting []intent.WaitingOn) {
	for _, use := range a.requirements.budgets {
		if ids := p.holdBeside(use.Key, a); len(ids) > 0 && len(ids) >= use.Limit {
			w := fullOf(use)
			w.Reason += ": " + listed(ids[:min(shownOf, len(ids))])
			waiting = append(waiting, w)
		}
	}
	return waiting
}
