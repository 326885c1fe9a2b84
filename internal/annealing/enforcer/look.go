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

// look decides what an asset needs: to be asked about, a pass over facts that still hold,
// or only a report.
func (e *Enforcer) look(ctx context.Context, a *asset, priority loop.Priority, now time.Time) {
	e.followPin(a, now)
	e.queueEnds(a, now)
	if a.trouble != nil && len(e.orphans.byID) > 0 {
		e.recheckOrphans(ctx, slices.Values(a.awaits))
	}
	target, effective, pin, exists := e.view.target(a, now)
	hasTarget := exists && (pin == nil || !pin.Waits())
	switch {
	case a.isBusy():
		a.again = true
	case a.open():
		e.reportOpen(a, target, effective)
	case !hasTarget:
		e.waitForTarget(a, target, effective, pin)
	case a.kind.served == nil:
		e.lookAtUnserved(ctx, a, target, effective)
	case e.view.modeNow(a) == check.Off:
		e.reportOff(a, target, effective, now)
	case a.kind.served.until.After(now):
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPlugin, Reason: a.kind.served.reason, Until: a.kind.served.until})
		e.queue.Add(a, a.kind.served.until, loop.Retry)
	case a.isLetBe(now):
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

// followPin starts an asset afresh when a pin began, ended or is another one.
func (e *Enforcer) followPin(a *asset, now time.Time) {
	if pinned := e.view.pinnedNow(a, now); a.pinned != pinned {
		a.pinned = pinned
		e.renew(a)
		e.relag(a, now)
	}
}

// waitForTarget takes up an asset that has no target now: it left intent, or its pin says so.
func (e *Enforcer) waitForTarget(a *asset, target intent.IncarnationID, effective intent.Digest, pin *intent.Pin) {
	switch {
	case pin == nil:
		e.forget(a)
	case pin.Waits():
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitNotSelected, Owner: pin.Holder.Name, Reason: fmt.Sprintf("the rollout %s has not let it go on yet; lehr rollout status %[1]s says what it waits for", pin.Rollout())})
	default:
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitTarget, Reason: fmt.Sprintf("the pin asks for %s, which does not have the asset; unpin it", target)})
	}
}

// lookAtUnserved reports an asset whose type no plugin is bound to. A model is read where a
// neighbour asks for its facts.
func (e *Enforcer) lookAtUnserved(ctx context.Context, a *asset, target intent.IncarnationID, effective intent.Digest) {
	if a.enforced > 0 {
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPluginMissing, Reason: fmt.Sprintf("it was enforced before, and no plugin is bound to %s any more; bind one under \"plugins\" in the partition's definition", a.kind.name)})
		return
	}
	e.report(a, intent.Report{State: e.view.unservedState(a), Target: target, Effective: effective})
	e.observer.readModel(ctx, a, target, effective)
}

// reportOff reports an asset whose mode is off, of which nothing is known from now on.
func (e *Enforcer) reportOff(a *asset, target intent.IncarnationID, effective intent.Digest, now time.Time) {
	e.afterPushes.forget(a)
	a.unwell = false
	e.pushLimits.health.set(a, healthNeverReported, now)
	e.report(a, intent.Report{State: intent.StateOff, Target: target, Effective: effective})
}

// holds reports whether the last difference may still be relied on.
func (e *Enforcer) holds(a *asset, target intent.IncarnationID, effective intent.Digest, now time.Time) bool {
	return a.trouble != nil && a.push == nil && a.difference.Outcome == intent.Differs &&
		a.difference.Incarnation == target && a.difference.Effective == effective && a.requirements.heeds == e.view.policyAtHead(a, target, now) && a.requirements.common.digestAsked() == e.view.commonDigest() &&
		a.requirements.inward.covers(e.incarnations.list(&e.view)) && !a.difference.At.After(now) && now.Sub(a.difference.At) < e.Limits.FactHold
}
