package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// applyHead takes over members of a new head and wakes what changed.
func (e *Enforcer) applyHead(changes []store.Change, returning map[intent.AssetID]store.Enforced, priority loop.Priority) {
	e.incarnations.cached = nil
	now := e.now()
	for _, change := range changes {
		a := e.assets[change.Asset]
		if change.After == nil {
			if a != nil {
				e.drop(a)
			}
			continue
		}
		if a == nil {
			a = e.enter(change.Asset, returning, now)
		}
		a.kind = e.view.kindOf(change.After.Type)
		if a.effective != change.After.Effective {
			a.setEffective(change.After.Effective)
			e.renew(a)
			e.relag(a, now)
		}
		e.soon(a, priority)
	}
}

// enter takes an asset into the loop, with what it was enforced with before.
func (e *Enforcer) enter(id intent.AssetID, returning map[intent.AssetID]store.Enforced, now time.Time) *asset {
	a := &asset{id: id}
	e.assets[id] = a
	e.orphans.unmark(id)
	if record, enforced := returning[id]; enforced {
		e.setEnforced(a, record, now)
	}
	return a
}

// renew starts an asset afresh after its intent changed: what failed before
// says nothing of the new content.
func (e *Enforcer) renew(a *asset) {
	a.read, a.turndown, a.mode, a.judge, a.calm, a.seenAt = false, false, 0, judgeUnknown, 0, 0
	e.leaveWaiters(a)
	e.afterPushes.forget(a)
	e.neighbours.facts.drop(a)
	if a.trouble != nil {
		*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}
	}
}

// drop takes an asset that left head out of the loop. Production keeps what
// it has: absence never deletes (S5).
func (e *Enforcer) drop(a *asset) {
	a.setEffective(intent.Digest{})
	e.relag(a, e.now())
	if len(e.view.pins[a.id]) > 0 || a.open() || a.recording || a.trouble != nil && a.admitting {
		e.renew(a)
		e.soon(a, loop.Fresh)
		return
	}
	e.forget(a)
}

// forget ends the loop of an asset that intent does not name any more.
func (e *Enforcer) forget(a *asset) {
	e.tracing.end(a, "gone", e.now())
	e.queue.Remove(a)
	e.leaveWaiters(a)
	e.afterPushes.forget(a)
	e.pushLimits.health.leaveAll(a)
	delete(e.assets, a.id)
	delete(e.troubled, a)
	e.neighbours.facts.forget(a)
	e.incarnations.setLag(a, false)
	if a.enforced > 0 {
		e.orphans.mark(a.id, orphan{a.enforced, a.enforcedAs(), a.absent})
	}
	e.wakeWaiters(a.id, false)
	e.report(a, intent.Report{State: intent.StateGone, Target: e.view.head, Absent: a.absent})
}

// applyKinds takes over a changed policy: modes, plugins, requirements.
func (e *Enforcer) applyKinds(previous view) {
	if previous.policy == nil || previous.policy.digest == e.view.policy.digest {
		return
	}
	for _, a := range e.assets {
		prev := a.kind.served
		if a.kind = e.view.kindOf(a.kind.name); a.kind.served != prev {
			a.forgive()
		}
		a.settled = false
		e.afterPushes.forget(a)
		e.soon(a, loop.Fresh)
	}
}

// applyPins wakes assets whose pins changed, now and when a pin ends.
func (e *Enforcer) applyPins(previous view, returning map[intent.AssetID]store.Enforced) {
	e.incarnations.cached = nil
	for id := range previous.pins {
		if !slices.Equal(previous.pins[id], e.view.pins[id]) {
			e.repinned(id, returning)
		}
	}
	for id, pins := range e.view.pins {
		if !slices.Equal(previous.pins[id], pins) {
			e.repinned(id, returning)
		}
		for _, pin := range pins {
			if a := e.assets[id]; a != nil && !pin.Until.IsZero() {
				e.queue.Add(a, pin.Until, loop.Fresh)
			}
		}
	}
}

// repinned starts an asset afresh after its pins changed, and takes it up where only a pin
// names it.
func (e *Enforcer) repinned(id intent.AssetID, returning map[intent.AssetID]store.Enforced) {
	a := e.assets[id]
	if a == nil {
		for _, pin := range e.view.pins[id] {
			if member, ok := e.view.pinned[pinnedAt{id, pin.Incarnation.Sequence}]; ok {
				if a == nil {
					a = e.enter(id, returning, e.now())
				}
				a.kind = e.view.kindOf(member.Type)
			}
		}
		if a == nil {
			return
		}
	}
	e.renew(a)
	e.relag(a, e.now())
	e.soon(a, loop.Fresh)
}

// wakeTroubled looks again at what waits: a hold, an approval, a stop or a
// policy may have changed.
func (e *Enforcer) wakeTroubled() {
	for a := range e.troubled {
		e.soon(a, loop.Fresh)
	}
	for id, hold := range e.view.holds {
		if a := e.assets[id]; a != nil && !hold.Until.IsZero() {
			e.queue.Add(a, hold.Until, loop.Fresh)
		}
	}
}
