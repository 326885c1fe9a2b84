package enforcer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// look decides whether an asset needs a diff, a pass over facts that still
// hold, or nothing.
func (e *Enforcer) look(ctx context.Context, a *asset, priority loop.Priority, now time.Time) {
	if pinned := e.view.pinnedNow(a, now); a.pinned != pinned {
		a.pinned = pinned
		e.renew(a)
		e.relag(a, now)
	}
	e.queueEnds(a, now)
	if a.trouble != nil && len(e.orphans.byID) > 0 {
		e.recheckOrphans(ctx, slices.Values(a.awaits))
	}
	target, effective, pin, exists := e.view.target(a, now)
	switch {
	case a.looking || a.recording || a.trouble != nil && a.admitting:
		a.again = true
	case a.open():
		e.reportOpen(a, target, effective)
	case !exists && pin == nil:
		e.forget(a)
	case pin != nil && pin.Waits():
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitNotSelected, Owner: pin.Holder.Name, Reason: fmt.Sprintf("the rollout %s has not let it go on yet; lehr rollout status %[1]s says what it waits for", pin.Rollout())})
	case !exists:
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitTarget, Reason: fmt.Sprintf("the pin asks for %s, which does not have the asset; unpin it", target)})
	case a.kind.served == nil && a.enforced > 0:
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPluginMissing, Reason: fmt.Sprintf("it was enforced before, and no plugin is bound to %s any more; bind one under \"plugins\" in the partition's definition", a.kind.name)})
	case a.kind.served == nil:
		e.report(a, intent.Report{State: e.unservedState(a), Target: target, Effective: effective})
		e.observer.readModel(ctx, a, target, effective)
	case e.view.modeNow(a) == check.Off:
		e.afterPushes.forget(a)
		a.unwell = false
		e.pushLimits.health.set(a, healthNeverReported, now)
		e.report(a, intent.Report{State: intent.StateOff, Target: target, Effective: effective})
	case a.kind.served.until.After(now):
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPlugin, Reason: a.kind.served.reason, Until: a.kind.served.until})
		e.queue.Add(a, a.kind.served.until, loop.Retry)
	case a.madeWay(now):
		e.wait(a, target, effective, *a.busy)
		e.queue.Add(a, a.busy.Until, loop.Retry)
	case a.trouble != nil && a.apart.After(now):
		e.queue.Add(a, a.apart, loop.Retry)
	case priority == loop.Fresh && !a.kind.served.open() && !e.neighbours.facts.wanted[a] && e.holds(a, target, effective, now):
		e.pass(a, now)
	case a.trouble != nil && a.share > 0:
		a.kind.served.suspects.Add(a, now, priority)
	default:
		a.kind.served.ready.Add(a, now, priority)
	}
}

// holds reports whether the last difference may still be relied on.
func (e *Enforcer) holds(a *asset, target intent.IncarnationID, effective intent.Digest, now time.Time) bool {
	return a.trouble != nil && a.push == nil && a.difference.Outcome == intent.Differs &&
		a.difference.Incarnation == target && a.difference.Effective == effective && a.requirements.heeds == e.view.policyAtHead(a, target, now) &&
		a.requirements.inward.covers(e.incarnations.list(&e.view)) && !a.difference.At.After(now) && now.Sub(a.difference.At) < e.Limits.FactHold
}
