package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// pass decides about one asset that differs, from facts alone: it makes no call and waits
// for nothing. What it decided ends in an admission, which is the way to a push, or in a
// report of what the asset waits for.
func (e *Enforcer) pass(a *asset, now time.Time) {
	e.beginPass(a, now)
	facts := e.facts(a, now)
	decision := e.decide(a, facts)
	full := e.pushLimits.fullBeside(a)
	if decision.Push() && len(full) == 0 {
		e.admit(a, facts, decision)
		return
	}
	e.reportWaiting(a, facts, slices.Concat(decision.Waiting(), full))
	e.again(a, now)
}

// beginPass ends what the asset waited for since the last pass, and has the questions of
// its checks asked.
func (e *Enforcer) beginPass(a *asset, now time.Time) {
	e.leaveWaiters(a)
	e.tracing.markDecision(a)
	a.reconsider()
	e.inquiries.ask(a, now)
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
		Health:    a.difference.Health,
		Missing:   e.missing(a),
	}
	if hold, ok := e.view.holds[a.id]; ok {
		facts.Hold = &hold
	}
	facts.Verification, facts.Head = e.view.verificationOf(a.id), e.view.head
	e.addConsent(a, &facts)
	e.addChecks(a, &facts)
	if own := a.requirements.standing; own != nil && own.turndown {
		facts.Turndown = &check.Turndown{Dependants: sharersOf(a, e.troubled)}
	}
	e.neighbours.solve(a, &facts)
	return facts
}

// addConsent adds what people said of the plan and of the content.
func (e *Enforcer) addConsent(a *asset, facts *check.Facts) {
	content := contentOf{a.id, a.difference.Effective}
	plan := planOf{content, a.plan}
	facts.Consent = a.requirements.quorum.Consent(a.requirements.authors, e.view.approvals[plan], facts.Now)
	if facts.Consent.Reached() {
		facts.Approved, facts.ApprovedUntil = true, facts.Consent.Until
	}
	facts.Rule, facts.IsFound = a.requirements.rule, a.requirements.isFound
	facts.Rejections = e.view.rejections[plan]
	facts.Overrides, facts.Allowed = e.view.overrides[content], a.requirements.overridable
}

// addChecks adds the checks of the policies, and what they look at.
func (e *Enforcer) addChecks(a *asset, facts *check.Facts) {
	r := &a.requirements
	facts.Checks, facts.Content, facts.Origin = r.checks, r.content, r.origin
	facts.Origin.Incarnation = a.difference.Incarnation
	facts.Back, facts.Others, facts.Trains = r.isRollback, r.partitions, r.trains
	facts.Windows = e.pushLimits.rates.windowsOf(a)
	facts.Answers, facts.Own, facts.Stopped = e.inquiries.answers, r.own, a.stopped
}

// decide asks every check, and keeps what reports say of the decision and when it may be
// another one by itself.
func (e *Enforcer) decide(a *asset, facts check.Facts) check.Decision {
	a.sides = check.Sides(facts)
	a.consent, a.overrides = reportedConsent(facts)
	decision := check.Decide(facts)
	a.passed, a.passedOver = decision.Passed(), decision.PassedOver()
	a.observed = decision.Observed()
	if a.ends = decision.Ends(); !e.pushLimits.rates.wakes(a, facts) {
		a.ends = time.Time{}
	}
	if a.requirements.err != nil {
		decision.Verdicts = append(decision.Verdicts, intent.IsBroken("requirements", a.requirements.err))
	}
	return decision
}

// reportWaiting has the asset wait for what its checks wait for, and reports that.
func (e *Enforcer) reportWaiting(a *asset, facts check.Facts, waiting []intent.WaitingOn) {
	e.waiters.await(a, facts, e.neighbours.asked)
	d := a.difference
	if e.neighbours.asked && a.reportedContent == d.Effective {
		// A neighbour is looked at anew, and its answer leads to the next pass: the report
		// stays as it is, so that what is at rest writes nothing (L10).
		return
	}
	waiting = append(waiting, e.pushLimits.wouldWait(a, e.Plans, facts.Now)...)
	e.wait(a, d.Incarnation, d.Effective, waiting...)
	a.reportedContent = d.Effective
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
