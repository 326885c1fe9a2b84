package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// wait reports that an asset is not acted on, and why.
func (e *Enforcer) wait(a *asset, target intent.IncarnationID, effective intent.Digest, waiting ...intent.WaitingOn) {
	report := intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Waiting: waiting}
	if a.trouble != nil && a.difference.Outcome == intent.Differs && a.difference.Effective == effective {
		d := a.difference
		report.Plan, report.PlanDigest = d.Plan, a.plan
		report.ResourceKey, report.Health, report.Unmanaged = d.ResourceKey, d.Health, d.Unmanaged
		report.Consent, report.Overrides, report.Passed = a.consent, a.overrides, a.passed
		report.PassedOver, report.Observed = a.passedOver, a.observed
	}
	e.report(a, report)
}

// reportOpen reports a push under way, or one in doubt.
func (e *Enforcer) reportOpen(a *asset, target intent.IncarnationID, effective intent.Digest) {
	if a.push.doubt {
		e.report(a, intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Push: a.push.id, Waiting: []intent.WaitingOn{{
			Kind: intent.WaitSettling, Until: a.push.settles,
			Reason: fmt.Sprintf("push %s of %s may still be running: its end was lost; looking again once that is impossible", a.push.id, a.push.target),
		}}})
		return
	}
	report := intent.Report{State: intent.StatePushing, Target: target, Effective: effective, Push: a.push.id}
	if a.difference.Outcome == intent.Differs {
		report.Plan, report.PlanDigest, report.ResourceKey = a.difference.Plan, a.push.plan, a.difference.ResourceKey
		report.Health = a.difference.Health
		report.Consent, report.Overrides, report.PassedOver = a.consent, a.overrides, a.passedOver
		report.Observed = a.observed
	}
	report.PushNote = a.push.progress
	e.report(a, report)
}

// report has the outcome of a pass stored, unless it says nothing new.
func (e *Enforcer) report(a *asset, report intent.Report) { e.reporter.add(a, report, e.now()) }

// startReports stores the newest report of each asset.
func (e *Enforcer) startReports(ctx context.Context) {
	group := e.reporter.take(e.find)
	if group == nil {
		return
	}
	for i := range group {
		if a := e.assets[group[i].Asset]; a != nil {
			group[i].Next = e.queue.Due(a)
		}
	}
	e.Runtime.Go("reports", func() {
		e.Runtime.Point("save reports")
		startedAt := e.Runtime.Now()
		err := e.Store.SaveReports(ctx, e.lease, group)
		elapsed := e.Runtime.Now().Sub(startedAt)
		e.inbox.Put(func() { e.reported(ctx, group, elapsed, err) })
	})
}

// mostReportPause bounds how late a report may be (L4).
const mostReportPause = time.Second

// reported puts back what could not be stored. The next group waits twice as long
// as this one took: pushes do not wait for reports, and must not wait for the
// writer behind them; and of what is overtaken meanwhile only the last is written.
func (e *Enforcer) reported(ctx context.Context, group []intent.Report, elapsed time.Duration, err error) {
	if fault.Is(err, fault.Conflict) {
		e.failed = err
		return
	}
	if err != nil {
		e.Log.Warn("cannot store reports; trying again", "partition", e.Partition, "reports", len(group), "error", err)
		e.reporter.putBack(group, e.find)
		e.later(ctx, time.Second, func() { e.reporter.saving = false })
		return
	}
	if elapsed == 0 {
		e.reporter.saving = false
		return
	}
	e.later(ctx, min(2*elapsed, mostReportPause), func() { e.reporter.saving = false })
}
