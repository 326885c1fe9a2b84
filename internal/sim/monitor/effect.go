package monitor

import (
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
)

// Effect looks at one change of production. What others did, and what the
// target refused, is no change by Lehr.
func (m *Monitor) Effect(e world.Effect) {
	m.makes(e)
	if e.By != world.ByLehr || e.Refused != "" {
		return
	}
	m.hold(e.Push != "", "S21", "effect %d changed %s (%s) without a push", e.Number, e.Key, e.Asset)
	if e.Push == "" {
		return
	}
	m.deliveredEffect(e.Asset)
	m.courseEffect(e.Asset)
	p := m.pushes[e.Push]
	if p == nil {
		m.Commit()
		p = m.pushes[e.Push]
	}
	m.hold(p != nil, "S1", "effect %d changed %s for push %s, which was never admitted", e.Number, e.Key, e.Push)
	if p == nil {
		return
	}
	m.outdate(p)
	m.bound(e, p)
	m.unfinished(e, p)
	m.timely(e, p)
	m.inOrder(e, p)
	m.asked(e, p)
	m.sealed(e, p)
	m.named(e, p)
	m.carriesOutput(e)
	m.inProduction(e, p)
	m.inPace(e, p)
	m.protected(e, p)
	m.received(e)
}

// bound: the effect is what was admitted, and nothing else (S1).
func (m *Monitor) bound(e world.Effect, p *push) {
	own, _ := m.at(p.asset, p.target)
	content := e.Effective == p.effective || e.Effective == own.digest
	m.hold(e.Asset == p.asset && content && e.Plan == p.plan && e.Incarnation.Sequence == p.target, "S1",
		"effect %d of push %s is of %s to %s, content %s, plan %s; admitted was %s to %d, content %s, plan %s", e.Number, p.id,
		e.Asset, e.Incarnation, e.Effective.Short(), e.Plan.Short(), p.asset, p.target, p.effective.Short(), p.plan.Short())
	// It goes to the asset's own resource, also where a plugin had told that of another.
	m.hold(e.Key == p.key || p.swapped, "S3", "effect %d of push %s changed %s, and admitted was a push of %s", e.Number, p.id, e.Key, p.key)
	m.hold(e.Token == p.epoch, "S4", "effect %d of push %s carries the token %d, and was admitted under epoch %d", e.Number, p.id, e.Token, p.epoch)
}

// disobeyed: the plugin began without a permit, which is no fault of Lehr's
// where the target compares.
func disobeyed(e world.Effect) bool { return e.PermitLeft <= 0 && e.Class != plugin.Unguarded }

// unfinished: no effect comes after the journal let go of its push.
func (m *Monitor) unfinished(e world.Effect, p *push) {
	m.hold(e.PermitLeft > 0 || e.Class != plugin.Unguarded, "S3", "effect %d of push %s of %s began %s after its permit had ended", e.Number, p.id, p.asset, -e.PermitLeft)
	if p.closed.IsZero() || disobeyed(e) {
		return
	}
	m.fail("S1", "effect %d of push %s of %s came %s after the push was closed as %q", e.Number, p.id, p.asset, e.At.Sub(p.closed), p.ending)
}

// late is by how much the effect came later than the permit and the longest
// effect after the time, with the margin of the lock delay.
func (m *Monitor) late(e world.Effect, start time.Time) time.Duration {
	return e.At.Sub(start) - (plugin.PermitPeriod + m.longest(e) + plugin.LockDelayMargin)
}

// longest is how long an effect may go on that cannot be cut off.
func (m *Monitor) longest(e world.Effect) time.Duration {
	if own, ok := m.at(e.Asset, e.Incarnation.Sequence); ok {
		return max(m.options.Served(own.kind).LongestEffect, 0)
	}
	return time.Second
}

// timely: no effect comes long after its content was superseded (S2), after a
// stop was answered (S18), or after another process took the lease (S4).
func (m *Monitor) timely(e world.Effect, p *push) {
	if disobeyed(e) {
		return
	}
	m.ask("S2")
	if !p.superseded.IsZero() && m.late(e, p.superseded) > 0 {
		m.fail("S2", "effect %d of push %s of %s carried content %s to production %s after the asset followed other content", e.Number, p.id, p.asset, p.effective.Short(), e.At.Sub(p.superseded))
	}
	if over, ok := m.over[p.epoch]; ok {
		m.hold(m.late(e, over) <= 0, "S4", "effect %d of push %s of %s came %s after the lease of its epoch %d was lost", e.Number, p.id, p.asset, e.At.Sub(over), p.epoch)
	}
	for _, scope := range slices.Sorted(maps.Keys(m.stops)) {
		if stop := m.stops[scope]; stop.binds(e.Replica) {
			m.hold(m.late(e, stop.at) <= 0, "S18", "effect %d of push %s of %s came %s after the stop of %q was answered", e.Number, p.id, p.asset, e.At.Sub(stop.at), scope)
		}
	}
}

// inOrder: an earlier push has no effect after a later one's (S2, S3), and a
// fenced target accepts no lower token (S4).
func (m *Monitor) inOrder(e world.Effect, p *push) {
	m.ask("S3")
	if last := m.lastOf[p.asset]; last != nil && last.ordinal > p.ordinal {
		if last.effective != p.effective {
			m.fail("S2", "effect %d of push %s brought content %s of %s after push %s, which is newer, had brought %s", e.Number, p.id, p.effective.Short(), p.asset, last.id, last.effective.Short())
		}
		m.fail("S3", "effect %d of push %s of %s came after the later push %s had begun", e.Number, p.id, p.asset, last.id)
	}
	if last := m.lastOn[e.Key]; last != nil && last.ordinal > p.ordinal && last.asset != p.asset {
		m.fail("S3", "effect %d of push %s of %s changed %s after the later push %s of %s had begun", e.Number, p.id, p.asset, e.Key, last.id, last.asset)
	}
	m.lastOf[p.asset], m.lastOn[e.Key] = p, p
	if e.Class != plugin.Fenced {
		return
	}
	m.hold(e.Token >= m.tokens[e.Key], "S4", "effect %d of push %s: the target %s accepted the token %d after %d", e.Number, p.id, e.Key, e.Token, m.tokens[e.Key])
	m.tokens[e.Key] = max(m.tokens[e.Key], e.Token)
}

// asked: somebody asked for what it does: a removal by a Turndown (S5), what
// destroys by an approval (S9).
func (m *Monitor) asked(e world.Effect, p *push) {
	content, ok := m.contentAt(e.Asset, e.Incarnation.Sequence)
	m.hold(ok, "S5", "effect %d of push %s changed %s for %s, which is not in %s", e.Number, p.id, e.Key, e.Asset, e.Incarnation)
	vanished := e.Delete || e.Action == intent.ActionDelete || e.Before != "" && e.After == "" && e.Action != intent.ActionReplace
	if vanished {
		m.hold(content.turndown, "S5", "effect %d of push %s removed %s, and %s has no Turndown in %s", e.Number, p.id, e.Key, e.Asset, e.Incarnation)
	}
	byRule := p.rule != "" && vanished && e.Action != intent.ActionReplace
	if e.Destructive || vanished {
		m.hold(len(p.approvers) > 0 || byRule, "S9", "effect %d of push %s of %s destroyed something without an approval", e.Number, p.id, p.asset)
	}
}

// inProduction: budgets are kept by what really runs (S8).
func (m *Monitor) inProduction(e world.Effect, p *push) {
	m.working[p.id] = p
	for _, key := range slices.Sorted(maps.Keys(p.budgets)) {
		if limit := p.budgets[key]; limit > 0 {
			m.ask("S8")
			m.within(p, key, max(limit, m.highest(key)), m.working, "at work")
		}
	}
	if e.Step >= e.Steps {
		delete(m.working, p.id)
	}
}

// highest limit under which the pushes at work were admitted: each may be as
// many as was allowed then.
func (m *Monitor) highest(key string) (limit int) {
	for _, p := range m.working {
		limit = max(limit, p.budgets[key])
	}
	return limit
}
