package enforcer

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// health is what the plugin reported last of the health of an asset.
type health uint8

const (
	// healthNeverReported: its plugin never reported it, so none can be lost.
	healthNeverReported health = iota
	healthGood
	// healthBad: it is unhealthy, or its plugin reported before and cannot now (S11).
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
	// reading: its members are being read. wanted: somebody asked for it since head moved.
	reading, wanted bool
	// waiters wait until the members are read; planned are looked at again then.
	waiters, planned []*asset
	// ill are those that count as unhealthy: told so, or not known to be healthy
	// any more. well are the others that told of it, looked at longest ago first.
	ill  map[*asset]bool
	well *list.List
	at   map[*asset]*list.Element
}

// healthBudgets are the health budgets of a partition. It only holds state; the enforcer
// reads the members from the store and passes them in.
type healthBudgets struct {
	byKey map[string]*healthBudget
	// byAsset are the budgets that an asset is a member of.
	byAsset map[*asset][]*healthBudget
	// unread are the keys of those whose members are to be read.
	unread []string
	// recovered: a member stopped being unhealthy, so that another push may have room.
	recovered bool
	// period is for how long an asset that is not looked at counts as healthy.
	period time.Duration
}

func newHealthBudgets(period time.Duration) healthBudgets {
	return healthBudgets{byKey: map[string]*healthBudget{}, byAsset: map[*asset][]*healthBudget{}, period: period}
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

// set records what a look, a push or a person says of an asset's health.
func (b *healthBudgets) set(a *asset, h health, now time.Time) {
	a.health, a.healthAt = h, now.UnixNano()
	for _, w := range b.byAsset[a] {
		wasIll := w.ill[a]
		w.setHealth(a)
		b.recovered = b.recovered || wasIll && !w.ill[a]
	}
}

// isUnhealthy reports whether it counts as unhealthy, also where it is not looked at any
// more.
func (a *asset) isUnhealthy() bool {
	return a.unwell || a.health == healthBad || a.health == healthPushed
}

// hasUnhealthy reports whether an asset is a member of the health budget and counts as
// unhealthy. One that may be a member counts as one (S11).
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
	case d.Outcome == intent.Unknown && d.Health.State == intent.Unhealthy:
		return healthBad // What is to be done is not known, and that it is not well is.
	case (d.Outcome == intent.Unknown || d.Outcome == intent.Pending) && a.health == healthPushed:
		return healthPushed // Nobody could look, or it is not over.
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
	case a.health == healthGood || a.health == healthBad || d.Health.IsByAddon():
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
	case !pluginTold, plain && !h.IsAfterPush(), h.Plugin != "", h.IsByAddon():
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
	case state == intent.Unhealthy, state == intent.HealthUnknown, report.Health.IsByAddon():
		return healthBad
	}
	return healthNeverReported
}

// markPushed records that an asset is pushed: only a look after the push tells its health.
// Of new content it is not even known whether it reports any.
func (b *healthBudgets) markPushed(a *asset, effective intent.Digest, now time.Time) {
	if h := healthBad; a.health == healthGood || a.health == healthBad {
		if a.enforcedAs() != effective {
			h = healthPushed
		}
		b.set(a, h, now)
		return
	}
	b.set(a, healthPushed, now)
}

// get returns the budget of a scope's value, by its key; nil: its members are being read.
func (b *healthBudgets) get(key string, bound unhealthyIn, now time.Time) *healthBudget {
	w := b.byKey[key]
	if w == nil {
		w = &healthBudget{unhealthyIn: bound, unsure: map[*asset]intent.Sequence{}, ill: map[*asset]bool{}, well: list.New(), at: map[*asset]*list.Element{}}
		b.byKey[key] = w
	}
	w.wanted = true
	if !w.reading && (w.members == nil || len(w.unsure) > 0) {
		b.unread = append(b.unread, key)
	}
	if w.members == nil {
		return nil
	}
	for front := w.well.Front(); front != nil; front = w.well.Front() {
		a := front.Value.(*asset)
		if age := now.Sub(time.Unix(0, a.healthAt)); age >= 0 && age < b.period {
			break
		}
		w.well.Remove(front)
		delete(w.at, a)
		w.ill[a] = true
	}
	return w
}

// countUnhealthy counts the assets that count as unhealthy in a health budget, without the
// one that is to be pushed and without those that hold a place in the queue.
func (w *healthBudget) countUnhealthy(a *asset, holders map[*asset]bool) int {
	count := len(w.ill)
	for one := range w.unsure {
		if !w.ill[one] && w.hasUnhealthy(one) {
			count++
		}
	}
	for holder := range holders {
		if holder != a && w.hasUnhealthy(holder) {
			count--
		}
	}
	if a != nil && w.hasUnhealthy(a) {
		count--
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
