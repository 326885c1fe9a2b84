package enforcer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// admit asks for the one atomic step that authorises a push. All that the
// decision rested on is compared there again.
func (e *Enforcer) admit(a *asset, facts check.Facts, decision check.Decision) {
	d := a.difference
	keys, uses, placesUntil, full := e.pushLimits.takePlaces(a, e.pushLimits.placesOf(a), facts.Now)
	if full != nil {
		e.wait(a, d.Incarnation, d.Effective, *full)
		e.queue.Add(a, facts.Now.Add(e.Limits.Sweep), loop.Sweep)
		return
	}
	_, _, pin, _ := e.view.target(a, facts.Now)
	end := earlier(decision.ValidUntil(), placesUntil)
	if pin != nil && !pin.Until.IsZero() && (end.IsZero() || pin.Until.Before(end)) {
		end = pin.Until
	}
	e.pushes++
	a.admitting = true
	e.tracing.markDecided(a)
	e.admissions.Add(admission{a, a.kind.served, keys, protectionsOf(facts), asksAfter(facts), store.Admission{
		Push:          intent.PushID(fmt.Sprintf("%s/%d-%d", e.Partition, e.lease.Epoch, e.pushes)),
		Asset:         a.id,
		Target:        d.Incarnation,
		Effective:     d.Effective,
		Plan:          a.plan,
		PlanDetail:    d.Plan,
		Base:          d.Base,
		ResourceKey:   d.ResourceKey,
		Revision:      e.view.revision,
		ValidUntil:    end,
		Quiet:         facts.Relied(),
		NeedsApproval: check.ConsumesApproval(facts),
		Rule:          check.ApprovedByRule(facts),
		Quorum:        a.requirements.quorum,
		Overrides:     decision.Overridden(),
		Budgets:       uses,
		Rates:         e.pushLimits.rates.reserve(facts),
		Removes:       facts.Turndown != nil,
		Checks:        decision.Passed(),
		Grounds:       append(grounds(d.Incarnation, e.view.head, pin), decision.Grounds(facts)...),
	}})
}

// grounds say why that incarnation is what is pushed.
func grounds(target, head intent.IncarnationID, pin *intent.Pin) []intent.Ground {
	fact := target.String() + ", which is head"
	switch {
	case pin != nil:
		fact = fmt.Sprintf("%s, pinned by %s: %s", target, pin.Holder.Name, pin.Reason)
	case target != head:
		fact = fmt.Sprintf("%s; head is %s, with the same content", target, head)
	}
	return []intent.Ground{{Check: "target", Fact: fact}}
}

// startAdmissions hands a group of admissions to the store.
func (e *Enforcer) startAdmissions(ctx context.Context) {
	group := e.admissions.Take()
	if group == nil {
		return
	}
	if group = slices.DeleteFunc(group, e.isSuperseded); len(group) == 0 {
		e.admissions.Done()
		return
	}
	e.Runtime.Go("admit", func() {
		e.Runtime.Point("admit")
		now := e.Runtime.Now()
		admissions := make([]store.Admission, len(group))
		for i := range group {
			group[i].At = now
			admissions[i] = group[i].Admission
		}
		refusals, err := e.Store.Admit(ctx, e.lease, admissions)
		e.Runtime.Point("admitted")
		e.inbox.Put(func() { e.admitted(ctx, group, refusals, err) })
	})
}

// isSuperseded reports whether an admission does not hold any more, and then takes it back:
// while it waited for its group, a push began of an asset on which it rests, or its scope
// got less room. The store sees such a push only while it is open, and what that push
// changed the decision did not see.
func (e *Enforcer) isSuperseded(g admission) bool {
	isPushed := func(id intent.AssetID) bool { return e.assets[id] != nil && e.assets[id].open() }
	if !slices.ContainsFunc(g.Quiet, isPushed) && !e.pushLimits.shrank(g, e.now()) {
		return false
	}
	g.asset.admitting = false
	e.pushLimits.release(g.asset, g.keys)
	e.pushLimits.rates.countOpen(keysOf(g.Rates), -1)
	if e.assets[g.asset.id] == g.asset {
		e.soon(g.asset, loop.Fresh)
	}
	return true
}

// admitted starts the pushes that were admitted and reports why others not.
func (e *Enforcer) admitted(ctx context.Context, group []admission, refusals []*store.Refusal, err error) {
	if fault.Is(err, fault.Conflict) {
		e.failed = err
		return
	}
	if err != nil {
		e.startAsking(ctx, group, err)
		return
	}
	e.admissions.Done()
	for i, g := range group {
		if refusals[i] == nil {
			g.asset.markPresent()
			e.startPush(ctx, g, g.keys)
			continue
		}
		e.handleRefusal(ctx, g, refusals[i].Waiting)
	}
	e.dispatchQueued(ctx)
}

// markPresent records that an admitted asset is not gone any more, as its enforced record
// says from its admission on; when it is gone again, that is to be recorded.
func (a *asset) markPresent() {
	a.admitting = false
	if a.absent {
		a.absent, a.settled = false, false
	}
}

// handleRefusal takes up an admission that was not granted.
func (e *Enforcer) handleRefusal(ctx context.Context, g admission, waiting intent.WaitingOn) {
	g.asset.admitting = false
	e.Measure.Refused.Of(string(waiting.Kind)).Add(1)
	e.pushLimits.release(g.asset, g.keys)
	e.pushLimits.rates.countOpen(keysOf(g.Rates), -1)
	if waiting.Kind == intent.WaitRate {
		for _, use := range g.Rates {
			e.pushLimits.rates.forget(use.Key) // What is known of it is wrong.
		}
	}
	if e.assets[g.asset.id] == g.asset {
		e.refused(ctx, g.asset, g, waiting, e.now())
	}
}

// startAsking finds out what became of admissions whose answer was lost: the
// store may have carried them out. Until that is known the group is under way.
func (e *Enforcer) startAsking(ctx context.Context, group []admission, admitErr error) {
	e.Log.Warn("cannot admit pushes; asking the journal", "partition", e.Partition, "pushes", len(group), "error", admitErr)
	waiting := intent.WaitingOn{Kind: intent.WaitStore, Reason: "the push could not be admitted: " + admitErr.Error()}
	for _, g := range group {
		if e.assets[g.asset.id] == g.asset {
			e.wait(g.asset, g.Target, g.Effective, waiting)
		}
	}
	e.Runtime.Go("ask the journal", func() {
		for e.Runtime.Wait(ctx, time.Second, nil) == nil {
			e.Runtime.Point("ask the journal")
			open, err := e.Store.OpenPushes(ctx, e.Partition)
			if err == nil {
				e.inbox.Put(func() { e.answered(ctx, group, open, waiting) })
				return
			}
		}
	})
}

// answered takes up which of the admissions are in the journal after all.
// Their pushes were never begun, so they can be closed; to begin them now
// would be to act on what was decided a while ago.
func (e *Enforcer) answered(ctx context.Context, group []admission, open []store.OpenPush, waiting intent.WaitingOn) {
	e.admissions.Done()
	for _, g := range group {
		if !slices.ContainsFunc(open, func(p store.OpenPush) bool { return p.Push == g.Push }) {
			e.handleRefusal(ctx, g, waiting)
			continue
		}
		g.asset.markPresent()
		e.trouble(g.asset).push = &push{id: g.Push, target: g.Target, effective: g.Effective, plan: g.Plan, approved: g.NeedsApproval, admitted: g.At, budgets: g.keys, rates: keysOf(g.Rates)}
		e.Measure.Pushes.Open(string(g.Push), g.At, false)
		const reason = "not begun: the answer to its admission was lost"
		e.closings.Add(closing{g.asset, plugin.PushResult{Ending: plugin.Stopped, Reason: reason}, store.Closing{
			Push: g.Push, Ending: string(plugin.Stopped), Reason: reason, At: e.Runtime.Now(),
		}})
	}
	e.dispatchQueued(ctx)
}

// refused reports an admission that was not granted and looks again: at once
// when only the world had moved.
func (e *Enforcer) refused(ctx context.Context, a *asset, g admission, waiting intent.WaitingOn, now time.Time) {
	if waiting.Kind == intent.WaitStale {
		e.refresh(ctx)
		if e.assets[a.id] != a {
			return
		}
		if e.viewErr == nil {
			e.soon(a, loop.Fresh)
			return
		}
		waiting = intent.WaitingOn{Kind: intent.WaitStore, Reason: "what changed in the partition cannot be read: " + e.viewErr.Error()}
	}
	if a.trouble != nil {
		for _, id := range waiting.Blockers {
			e.waiters.add(a, id, true)
		}
	}
	e.wait(a, g.Target, g.Effective, waiting)
	e.again(a, now)
	if a.again {
		a.again = false
		e.soon(a, loop.Fresh)
	}
}
