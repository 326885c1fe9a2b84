package enforcer

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// health is what the plugin told last of the health of an asset.
type health uint8

const (
	// healthUntold: it never told of it, so there is none that could be lost.
	healthNeverReported health = iota
	healthGood
	// healthIll: it is unhealthy, or it told before and cannot tell now (S11).
	healthBad
	// healthPushed: it was pushed since, and nobody has looked.
	healthPushed
)

// healthBudget is a value of an impacted scope of which only so many assets may be
// unhealthy, or in flight, at once. It is kept up by the looks that are taken
// anyway, so no push costs a look at what is beside it.
type healthBudget struct {
	unhealthyIn
	// members are the assets with that value; nil while they are read first.
	members map[*asset]bool
	// unsure are those that head changed since they were read, and at which sequence last:
	// members or not. Only of them is read what they are, when the health budget is asked for next.
	unsure map[*asset]intent.Sequence
	// reading: it is read. wanted: somebody asked for it since head moved.
	reading, wanted bool
	// told that it is read, and wait for that; planned are judged again then.
	waiters, planned []*asset
	// ill are those that count as unhealthy: told so, or not known to be healthy
	// any more. well are the others that told of it, looked at longest ago first.
	ill  map[*asset]bool
	well *list.List
	at   map[*asset]*list.Element
}

// unhealthyIn is how many assets with a value of a scope may be unhealthy. Both are
// what sources say: a key does not tell where one ends.
type unhealthyIn struct {
	most         int
	scope, value string
}

// field of an asset's scopes, as it is indexed.
func (bound unhealthyIn) field() string {
	return fmt.Sprintf("lehr.intent.v1.ImpactedScope.scopes[%q]", bound.scope)
}

// check: what is not indexed would be an empty scope (S11).
func (bound unhealthyIn) check() error {
	if len(bound.field()) > schema.MaxFieldBytes || len(bound.value) > schema.MaxFieldBytes {
		return fmt.Errorf("which assets are in scope %.40s=%.40s… is not known: it is longer than the %d bytes that are indexed; shorten it", bound.scope, bound.value, schema.MaxFieldBytes)
	}
	return nil
}

// shownOf so many assets a reason names the first.
const shownOf = 5

// freshHealth is for how many sweeps an asset that is not looked at counts as
// healthy.
const freshHealth = 3

// setHealth takes up what a look, a push or a person says of an asset's health.
func (e *Enforcer) setHealth(a *asset, h health, now time.Time) {
	a.health, a.healthAt = h, now.UnixNano()
	for _, w := range e.healthBudgetsOf[a] {
		wasIll := w.ill[a]
		w.setHealth(a)
		e.healed = e.healed || wasIll && !w.ill[a]
	}
}

// ails: it counts as unhealthy, also where it is not looked at any more.
func (a *asset) isUnhealthy() bool {
	return a.unwell || a.health == healthBad || a.health == healthPushed
}

// hasUnhealthy reports whether an asset is of the health budget, and counts as unhealthy; one of which is
// not known whether it is a member may be (S11).
func (w *healthBudget) hasUnhealthy(a *asset) bool {
	return w.ill[a] || w.unsure[a] > 0 && !w.members[a] && a.isUnhealthy()
}

// setHealth puts an asset where what it told belongs.
func (w *healthBudget) setHealth(a *asset) {
	delete(w.ill, a)
	if at := w.at[a]; at != nil {
		w.well.Remove(at)
		delete(w.at, a)
	}
	switch {
	case a.isUnhealthy():
		w.ill[a] = true
	case a.health == healthGood:
		w.at[a] = w.well.PushBack(a)
	}
}

// healthOf is what a look tells.
func healthOf(a *asset, d intent.Difference, turnedDown bool) health {
	switch {
	case d.Outcome == intent.Unknown && a.health == healthPushed:
		return healthPushed // Nobody could look.
	case d.Outcome == intent.Unknown:
		if a.health == healthNeverReported {
			return healthNeverReported
		}
		return healthBad
	case d.Outcome == intent.InSync && len(d.Current) == 0 && turnedDown:
		return healthNeverReported // Nothing is there.
	case d.Health.State == intent.Healthy:
		return healthGood
	case d.Health.State == intent.Unhealthy:
		return healthBad
	case a.health == healthGood || a.health == healthBad:
		return healthBad
	}
	return healthNeverReported
}

// reportedHealth is the health that a report of the asset shows. What the plugin told before,
// and is not known now, is in it, so that the next process knows that too (S11).
func (a *asset) reportedHealth(h intent.Health) intent.Health {
	pluginTold := a.health == healthGood || a.health == healthBad
	plain := h.State == intent.Healthy || h.State == intent.Unhealthy
	switch {
	case !pluginTold, plain && !h.IsAfterPush(), h.Plugin != "":
		return h
	case !plain:
		h.State = intent.HealthUnknown
	}
	h.Plugin = intent.HealthUnknown
	h.Reason = strings.TrimPrefix(h.Reason+"; it was told before", "; ")
	return h
}

// storedHealth is what an earlier process was told last by the plugin; nobody knows how long
// ago. The state of one that is asked about after its push is not the plugin's.
func storedHealth(report intent.Report) health {
	state := report.Health.Plugin
	if state == "" && !report.Health.IsAfterPush() && report.Health.State != intent.HealthUnknown {
		state = report.Health.State
	}
	switch {
	case report.State == intent.StatePushing:
		return healthPushed
	case state == intent.Healthy:
		return healthGood
	case state == intent.Unhealthy, state == intent.HealthUnknown:
		return healthBad
	}
	return healthNeverReported
}

// unsettles: what a push makes of an asset's health only a look after it tells. Of
// new content even that it tells of it is not known.
func (e *Enforcer) unsettles(a *asset, effective intent.Digest, now time.Time) {
	if h := healthBad; a.health == healthGood || a.health == healthBad {
		if a.enforcedAs() != effective {
			h = healthPushed
		}
		e.setHealth(a, h, now)
		return
	}
	e.setHealth(a, healthPushed, now)
}

// healthBudgetOf of a scope's value, by its key; nil: its assets are being read.
func (e *Enforcer) healthBudgetOf(key string, bound unhealthyIn, now time.Time) *healthBudget {
	w := e.healthBudgets[key]
	if w == nil {
		w = &healthBudget{unhealthyIn: bound, unsure: map[*asset]intent.Sequence{}, ill: map[*asset]bool{}, well: list.New(), at: map[*asset]*list.Element{}}
		e.healthBudgets[key] = w
	}
	w.wanted = true
	if !w.reading && (w.members == nil || len(w.unsure) > 0) {
		e.unreadHealthBudgets = append(e.unreadHealthBudgets, key)
	}
	if w.members == nil {
		return nil
	}
	for front := w.well.Front(); front != nil; front = w.well.Front() {
		a := front.Value.(*asset)
		if age := now.Sub(time.Unix(0, a.healthAt)); age >= 0 && age < e.healthHolds() {
			break
		}
		w.well.Remove(front)
		delete(w.at, a)
		w.ill[a] = true
	}
	return w
}

func (e *Enforcer) healthHolds() time.Duration { return freshHealth * e.Limits.Sweep }

// countUnhealthy counts the assets that count as unhealthy in a health budget, beside the one that is to be pushed and those that hold a place in the line.
func (w *healthBudget) countUnhealthy(a *asset, l *budgetQueue) int {
	count := len(w.ill)
	for one := range w.unsure {
		if !w.ill[one] && w.hasUnhealthy(one) {
			count++
		}
	}
	for holder := range l.holders {
		if holder != a && w.hasUnhealthy(holder) {
			count--
		}
	}
	if a != nil && w.hasUnhealthy(a) {
		count--
	}
	return count
}

// goingBack counts those under way back in a health budget that do not count as unhealthy.
func (e *Enforcer) goingBack(key string, w *healthBudget) (count int) {
	if l := e.queues[key+check.Back]; l != nil {
		for holder := range l.holders {
			if !w.hasUnhealthy(holder) {
				count++
			}
		}
	}
	return count
}

// names are the first of those that count as unhealthy.
func (w *healthBudget) names(but *asset) []intent.AssetID {
	var ids []intent.AssetID
	for a := range w.ill {
		if a != but {
			ids = append(ids, a.id)
		}
	}
	for a := range w.unsure {
		if a != but && !w.ill[a] && w.hasUnhealthy(a) {
			ids = append(ids, a.id)
		}
	}
	slices.Sort(ids)
	return ids[:min(shownOf, len(ids))]
}

// healthyUntil is when the first asset that counts as healthy does so no more.
func (w *healthBudget) healthyUntil(holds time.Duration) time.Time {
	if front := w.well.Front(); front != nil {
		return time.Unix(0, front.Value.(*asset).healthAt).Add(holds)
	}
	return time.Time{}
}

// room is how many pushes may be in flight at once under a budget, by the health
// of the assets in its scope: as many as it says, less those that are unhealthy.
// One that is unhealthy itself may be pushed all the same, for that may mend it.
// What passes by it ends at that time. Not known: the assets are being read.
func (e *Enforcer) room(a *asset, use store.BudgetUse, l *budgetQueue, now time.Time) (room int, until time.Time, isKnown bool) {
	bound := a.requirements.unhealthy[use.Key]
	if l.unhealthy = bound.most; l.unhealthy == 0 {
		return use.Limit, time.Time{}, true
	}
	w := e.healthBudgetOf(use.Key, bound, now)
	if w == nil {
		return 0, time.Time{}, false
	}
	if w.hasUnhealthy(a) {
		return use.Limit, time.Time{}, true
	}
	room = l.unhealthy - w.countUnhealthy(a, l) - e.goingBack(use.Key, w)
	for _, id := range e.holdBeside(use.Key, a) {
		if holder := e.assets[id]; holder == nil || !w.hasUnhealthy(holder) {
			room--
		}
	}
	return min(use.Limit, room), w.healthyUntil(e.healthHolds()), true
}

// wouldWait says where it could not be pushed either, once what is in its way is gone:
// beside what is unhealthy. Who has places meanwhile changes too often to be told.
func (e *Enforcer) wouldWait(a *asset, now time.Time) (waiting []intent.WaitingOn) {
	for _, use := range a.requirements.budgets {
		l := e.queues[use.Key]
		if l == nil {
			l = &budgetQueue{limit: use.Limit}
		}
		room, _, isKnown := e.room(a, use, l, now)
		switch {
		case isKnown && room <= 0:
			waiting = append(waiting, *e.waitForHealth(a, use.Key, l))
		case !isKnown && e.Plans: // Nobody comes back to it.
			w := e.healthBudgets[use.Key]
			w.planned = append(w.planned, a)
			waiting = append(waiting, isRead(use.Key))
		}
	}
	return waiting
}

// free places in a line, for whoever is healthy.
func (e *Enforcer) free(key string, l *budgetQueue) int {
	free := l.limit - l.used
	if w := e.healthBudgets[key]; l.unhealthy > 0 && w != nil {
		if w.members == nil {
			return 0
		}
		free = min(free, l.unhealthy-w.countUnhealthy(nil, l)-e.goingBack(key, w)-l.used)
	}
	return free
}

// callUnhealthy wakes those in a line that are unhealthy themselves, as many as its
// limit has places for: free counts none for them while others are unhealthy too.
func (e *Enforcer) callUnhealthy(key string, l *budgetQueue) {
	w, free := e.healthBudgets[key], l.limit-l.used
	if l.unhealthy == 0 || w == nil || free <= 0 || l.waiting.Len() == 0 {
		return
	}
	var called []*asset
	for a := range w.ill {
		if e.queuedIn[a] == l && a.trouble != nil {
			called = append(called, a)
		}
	}
	slices.SortFunc(called, func(a, b *asset) int { return cmp.Or(a.lined.Compare(b.lined), byID(a, b)) })
	for _, a := range called[:min(free, len(called))] {
		l.waiting.Remove(a)
		delete(e.queuedIn, a)
		e.soon(a, loop.Fresh)
	}
}

// budgetShrank reports whether a scope has less room than when the admission was
// decided.
func (e *Enforcer) budgetShrank(g admission) bool {
	if g.asset.trouble == nil || len(g.asset.requirements.unhealthy) == 0 {
		return false
	}
	return slices.ContainsFunc(g.Budgets, func(use store.BudgetUse) bool {
		l := e.queues[use.Key]
		if l == nil || g.asset.requirements.unhealthy[use.Key].most == 0 {
			return false
		}
		room, _, isKnown := e.room(g.asset, use, l, e.now())
		return !isKnown || room < use.Limit
	})
}
