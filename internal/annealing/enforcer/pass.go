package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
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
