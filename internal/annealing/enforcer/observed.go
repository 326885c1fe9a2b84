package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// handleBatch takes up what a batch found.
func (e *Enforcer) handleBatch(ctx context.Context, s *served, batch []*observation, err error) {
	if ctx.Err() != nil {
		return
	}
	now := e.now()
	e.observer.endBatch(s, batch, err, now)
	for _, g := range batch {
		e.contain(g.asset, func() { e.handleResult(ctx, s, g, err, len(batch), now) })
	}
}

// handleResult takes up what was found of one asset in a batch.
func (e *Enforcer) handleResult(ctx context.Context, s *served, g *observation, err error, size int, now time.Time) {
	a := g.asset
	if e.assets[a.id] != a {
		a.looking = false
		return
	}
	if g.difference.At.After(now) { // The clock was set back meanwhile.
		g.difference.At = now.Add(-e.Limits.FactHold)
	}
	moved := e.hasMoved(g, now)
	if err == nil && !moved && !g.requirements.inward.covers(e.incarnations.list(&e.view)) {
		e.observer.readInward(ctx, s, g, size)
		return
	}
	a.looking = false
	if a.again || moved {
		a.again = false
		e.soon(a, loop.Fresh)
	}
	switch {
	case a.open():
	case moved:
		if err == nil && g.asksForPause() { // Whatever the target is by now.
			e.trouble(a).failures++
			e.retries.makeWay(a, g.difference.RetryAfter, g.difference.Reason, now)
		}
	case err == nil && g.old && (g.difference.Outcome == intent.Differs || g.records()):
		// Nothing is decided about what was so a while ago, and nothing recorded: a push may
		// have come since (S26).
		e.soon(a, loop.Fresh)
	case err != nil:
		e.handlePluginFailure(a, s, g, err, size, now)
	case g.panicked != nil:
		e.quarantine(a, g.panicked.Error(), now)
	case g.err != nil:
		e.handleReadFailure(a, g.err, now)
	default:
		e.keepFound(a, g, now)
		e.applyDifference(a, g, now)
	}
}

// records reports whether what was found is to be recorded as what the asset was enforced with.
func (g *observation) records() bool {
	return g.difference.Outcome == intent.InSync && g.asset.enforcedAs() != g.effective
}

// hasMoved reports whether what was found is not about the present target.
func (e *Enforcer) hasMoved(g *observation, now time.Time) bool {
	a := g.asset
	target, effective, _, _ := e.view.target(a, now)
	moved := target != g.target || effective != g.effective
	if g.difference.Outcome == intent.Differs && g.heeds != e.view.policyAtHead(a, target, now) {
		moved = true
	}
	if moved && e.rebase(g, target, effective, now) {
		moved = false
	}
	if g.difference.Outcome == intent.Differs && g.common.digestAsked() != e.view.commonDigest() {
		moved = true
	}
	// To another content and back meanwhile: what was known of it is forgotten.
	reliedOnContent := g.contentKnown && !g.read && g.difference.Outcome == intent.InSync
	return moved || reliedOnContent && !a.isContentKnown(effective)
}

// keepFound keeps what was found of an asset and its content, for itself and its neighbours.
func (e *Enforcer) keepFound(a *asset, g *observation, now time.Time) {
	if g.read {
		a.read, a.mode, a.turndown, a.judge = true, levelOf(g.mode), g.turndown, g.judge
	}
	if e.neighbours.keep(a, g, now) {
		e.wakeWaiters(a.id, true)
	}
	e.afterPushes.follow(a, g, now)
	if g.difference.Outcome != intent.Pending || g.tellsHealth() {
		e.pushLimits.health.set(a, healthOf(a, g.difference, a.turnsDown()), now)
	}
	a.notePending(g)
}

// handleModel takes up the facts of a model, for the neighbours that asked.
func (e *Enforcer) handleModel(a *asset, facts *neighbourFacts, err error) {
	if a.again {
		a.again = false
		e.soon(a, loop.Fresh)
	}
	if err != nil {
		e.Log.Warn("cannot read how a model stands", "partition", e.Partition, "asset", a.id, "error", err)
		return
	}
	facts.model, facts.pinned = true, a.pinned
	e.neighbours.facts.put(a, facts)
	e.wakeWaiters(a.id, true)
}

// rebase makes what was found as of an older head a fact as of this one, when
// neither the asset's content nor the policy has changed: else heads that move
// faster than diffs would keep an asset from ever being decided about (L2).
func (e *Enforcer) rebase(g *observation, target intent.IncarnationID, effective intent.Digest, now time.Time) bool {
	if effective != g.effective || g.policy != e.view.policy.digest || g.asset.pinned != 0 || e.view.pinnedNow(g.asset, now) != 0 {
		return false
	}
	g.target, g.difference.Incarnation = target, target
	return true
}

// handlePluginFailure deals with a batch that failed as a whole: its assets are looked at
// in batches of half the size, and one that fails alone backs off. A plugin
// that was down already says nothing of them.
func (e *Enforcer) handlePluginFailure(a *asset, s *served, g *observation, err error, size int, now time.Time) {
	t := e.trouble(a)
	alone := size == 1
	if g.reached {
		t.share = max(1, size/2)
	}
	if alone && g.reached {
		if t.broken++; t.broken >= tries {
			e.quarantine(a, fmt.Sprintf("looked at alone, it made its plugin fail %d times in a row: %v", t.broken, err), now)
			return
		}
	}
	waiting := intent.WaitingOn{Kind: intent.WaitPlugin, Reason: err.Error()}
	switch {
	case s.until.After(now):
		waiting.Reason, waiting.Until = s.reason, s.until
	case alone:
		t.failures++
		waiting.Until = now.Add(e.Limits.Retry.After(t.failures))
	default:
		waiting.Until = now
	}
	e.queue.Add(a, waiting.Until, loop.Retry)
	if alone || s.until.After(now) {
		target, effective, _, _ := e.view.target(a, now)
		e.wait(a, target, effective, waiting)
	}
}

// handleReadFailure deals with intent that cannot be read, such as a corrupt body.
func (e *Enforcer) handleReadFailure(a *asset, err error, now time.Time) {
	t := e.trouble(a)
	t.failures++
	end := now.Add(e.Limits.Retry.After(t.failures))
	target, effective, _, _ := e.view.target(a, now)
	e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitTarget, Reason: "its intent cannot be read: " + err.Error(), Until: end})
	e.queue.Add(a, end, loop.Retry)
}

// applyDifference takes up the difference of one asset.
func (e *Enforcer) applyDifference(a *asset, g *observation, now time.Time) {
	e.tracing.endByLook(a, g, now)
	switch {
	case e.view.modeNow(a) == check.Off:
		e.pushLimits.health.set(a, healthNeverReported, now)
		e.report(a, intent.Report{State: intent.StateOff, Target: g.target, Effective: g.effective})
	case g.difference.Outcome == intent.InSync && a.turnsDown() && len(g.difference.Current) > 0:
		e.reportUnknown(a, g, "it has a Turndown, and its plugin calls it in sync while something is there: the plugin does not know turndowns. Take the newest one, or remove the real thing by hand", now)
	case g.difference.Outcome == intent.InSync:
		e.inSync(a, g, now)
	case g.difference.Outcome == intent.Differs:
		e.differs(a, g)
		e.pass(a, now)
	case g.difference.Outcome == intent.Pending:
		e.reportPending(a, g, now)
	case a.absent && !a.lags:
		e.stayedAway(a, g, now)
	default:
		e.reportUnknown(a, g, "the difference is unknown: "+g.difference.Reason, now)
	}
}

// stayedAway reports an asset that was seen gone, as its target asks, and of
// which its plugin cannot tell any more: often what it was looked at through
// went after it, as a balancer's process after the balancer. Its neighbours go
// on as after one that was turned down and left intent: else what is to go after
// it would wait for ever (L1). Nothing but its absence counts as known (S11).
func (e *Enforcer) stayedAway(a *asset, g *observation, now time.Time) {
	at := e.neighbours.facts.seenTime(g.difference.At, now)
	a.seenAt = at.UnixNano()
	e.neighbours.keepRemoved(a, g.effective, at)
	e.clearTrouble(a, now)
	e.wakeWaiters(a.id, false)
	e.report(a, intent.Report{
		State: intent.StateInSync, Target: g.target, Effective: g.effective, Absent: true,
		PushNote: "seen gone before; its plugin cannot tell now: " + g.difference.Reason,
	})
	e.again(a, now)
}

// reportUnknown reports an asset of which the plugin's answer says nothing.
func (e *Enforcer) reportUnknown(a *asset, g *observation, reason string, now time.Time) {
	t := e.trouble(a)
	t.share, t.difference, a.seenAt = 0, intent.Difference{}, 0
	e.neighbours.facts.drop(a)
	if !g.hinted || t.failures == 0 { // Looks for hints lengthen no pause.
		t.failures++
	}
	if g.difference.RetryAfter > 0 {
		e.retries.makeWay(a, g.difference.RetryAfter, g.difference.Reason, now)
		e.soon(a, loop.Retry)
		return
	}
	end := now.Add(e.Limits.Retry.After(t.failures))
	report := intent.Report{State: intent.StateWaiting, Target: g.target, Effective: g.effective, Waiting: []intent.WaitingOn{{Kind: intent.WaitUnknown, Reason: reason, Until: end}}}
	if g.difference.Health.State == intent.Unhealthy {
		report.Health = g.difference.Health
	}
	e.report(a, report)
	e.queue.Add(a, end, loop.Retry)
}
