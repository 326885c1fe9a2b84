package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// pass decides about one asset that differs, from facts alone: it makes no
// call and waits for nothing.
func (e *Enforcer) pass(a *asset, now time.Time) {
	e.leaveWaiters(a)
	e.tracing.markDecision(a)
	a.reconsider()
	e.inquiries.ask(a, now)
	facts := e.facts(a, now)
	a.sides = check.Sides(facts)
	a.consent, a.overrides = reportedConsent(facts)
	decision := check.Decide(facts)
	a.passedOver = decision.PassedOver()
	if a.ends, a.passed = decision.Ends(), decision.Passed(); !e.pushLimits.rates.wakes(a, facts) {
		a.ends = time.Time{}
	}
	if a.requirements.err != nil {
		decision.Verdicts = append(decision.Verdicts, intent.IsBroken("requirements", a.requirements.err))
	}
	full := e.pushLimits.fullBeside(a)
	if decision.Push() && len(full) == 0 {
		e.admit(a, facts, decision)
		return
	}
	e.waiters.await(a, facts, e.neighbours.asked)
	// While a neighbour is only looked at anew, what was told stands: the
	// answer leads to the next pass. So what is at rest writes nothing (L10).
	if !e.neighbours.asked || a.reportedContent != a.difference.Effective {
		e.wait(a, a.difference.Incarnation, a.difference.Effective, slices.Concat(decision.Waiting(), full, e.pushLimits.wouldWait(a, e.Plans, now))...)
		a.reportedContent = a.difference.Effective
	}
	e.again(a, now)
}

// facts gathers what the checks look at.
func (e *Enforcer) facts(a *asset, now time.Time) check.Facts {
	facts := check.Facts{
		Now:   now,
		Asset: a.id,
		Mode:  e.view.modeNow(a),
		Modes: e.view.modePlaces(a),
		Stop:  e.view.stop,
		Plan:  a.difference.Plan,

		Effective: a.difference.Effective,
		Marked:    a.requirements.marked,
		Retry:     a.retry,
	}
	if hold, ok := e.view.holds[a.id]; ok {
		facts.Hold = &hold
	}
	e.consent(a, &facts)
	if own := a.requirements.standing; own != nil && own.turndown {
		facts.Turndown = &check.Turndown{Dependants: sharersOf(a, e.troubled)}
	}
	e.neighbours.solve(a, &facts)
	return facts
}

// consent gathers what people said of the plan and of the content.
func (e *Enforcer) consent(a *asset, facts *check.Facts) {
	content := contentOf{a.id, a.difference.Effective}
	plan := planOf{content, a.plan}
	facts.Consent = a.requirements.quorum.Consent(a.requirements.authors, e.view.approvals[plan], facts.Now)
	if facts.Consent.Reached() {
		facts.Approved, facts.ApprovedUntil = true, facts.Consent.Until
	}
	facts.Rejections = e.view.rejections[plan]
	facts.Overrides, facts.Allowed = e.view.overrides[content], a.requirements.overridable
	facts.Checks, facts.Content, facts.Origin = a.requirements.checks, a.requirements.content, a.requirements.origin
	facts.Back = a.requirements.isRollback
	facts.Windows, facts.Others = e.pushLimits.rates.windowsOf(a), a.requirements.partitions
	facts.Answers, facts.Own, facts.Stopped = e.inquiries.answers, a.requirements.own, a.stopped
	facts.Origin.Incarnation, facts.Health = a.difference.Incarnation, a.difference.Health
}

// reportedConsent is what a report tells of it: who consents, where consent is asked for
// or was given, and which overrides count.
func reportedConsent(facts check.Facts) (*intent.Consent, []intent.Override) {
	var overrides []intent.Override
	for _, o := range facts.Overrides {
		if o.InForce(facts.Now) && check.CheckOverride(o.Check, facts.Allowed) == nil {
			overrides = append(overrides, o)
		}
	}
	if !check.AsksApproval(facts) && len(facts.Consent.Approved) == 0 {
		return nil, overrides
	}
	consent := facts.Consent // Not of the facts, which would all be kept.
	return &consent, overrides
}

// inSync records that production is as intent says.
func (e *Enforcer) inSync(a *asset, g *observation, now time.Time) {
	a.seenAt = e.neighbours.facts.seenTime(g.difference.At, now).UnixNano()
	e.clearTrouble(a, now)
	e.wakeWaiters(a.id, false)
	absent := a.turnsDown()
	report := intent.Report{
		State: intent.StateInSync, Target: g.target, Effective: g.effective,
		ResourceKey: g.difference.ResourceKey, Health: g.difference.Health, Unmanaged: g.difference.Unmanaged,
		Absent: absent,
	}
	if e.view.modeNow(a) != check.Enforce || a.settled && a.enforcedAs() == g.effective {
		e.report(a, report)
	} else {
		a.recording = true
		e.enforced.Add(sighting{a, report, store.Enforced{
			Asset: a.id, Type: a.kind.name, Effective: g.effective, Policy: e.view.policy.digest,
			Incarnation: g.target, ResourceKey: g.difference.ResourceKey, Absent: absent, At: now,
		}})
	}
	e.again(a, now)
}

// differs takes up a difference. One against content that had been in sync
// means that something else changed production; when that goes on, the
// repairs slow down and the report names the fields (L10).
func (e *Enforcer) differs(a *asset, g *observation) {
	drifted := a.seenAt != 0
	t := e.trouble(a)
	t.share, t.broken, t.apart = 0, 0, time.Time{}
	plan := g.difference.Plan.Digest()
	if t.plan != plan {
		t.vain = 0 // The last push had an effect.
	}
	if t.plan != plan || t.difference.Outcome != intent.Differs {
		a.calm = 0
	}
	e.pushLimits.rates.learn(g.requirements.endedPushes)
	g.requirements.endedPushes = nil // Of that time: another look is not to learn it again.
	t.difference, t.plan, t.requirements = g.difference, plan, g.requirements
	t.keepLook(g)
	if drifted {
		a.seenAt = 0
		e.retries.drifted(a, g.difference)
	}
}

// again puts an asset that was looked at back in the queue.
func (e *Enforcer) again(a *asset, now time.Time) {
	due := now.Add(e.pause(a))
	if a.trouble != nil && a.retry != nil && a.retry.Until.After(now) && a.retry.Until.Before(due) {
		due = a.retry.Until
	}
	if a.trouble != nil && a.ends.After(now) {
		e.queue.Add(a, a.ends, loop.Retry)
	}
	a.calm = min(a.calm+1, calmest)
	e.queue.Add(a, due, loop.Sweep)
}

// queueEnds has an asset looked at when a pin or hold of it, what was said of
// its plan, or what a check answered ends by itself.
func (e *Enforcer) queueEnds(a *asset, now time.Time) {
	if end := e.view.holds[a.id].Until; end.After(now) {
		e.queue.Add(a, end, loop.Retry)
	}
	if a.trouble != nil {
		e.queueEndsOfConsents(a, now)
		if a.ends.After(now) {
			e.queue.Add(a, a.ends, loop.Retry)
		}
	}
	for _, pin := range e.view.pins[a.id] {
		if pin.Until.After(now) {
			e.queue.Add(a, pin.Until, loop.Retry)
		}
	}
}

func (e *Enforcer) queueEndsOfConsents(a *asset, now time.Time) {
	content := contentOf{a.id, a.difference.Effective}
	for _, r := range e.view.rejections[planOf{content, a.plan}] {
		if r.Until.After(now) {
			e.queue.Add(a, r.Until, loop.Retry)
		}
	}
	for _, o := range e.view.overrides[content] {
		if o.InForce(now) {
			e.queue.Add(a, o.Until, loop.Retry)
		}
	}
}
