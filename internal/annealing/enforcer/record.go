package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/sight"
)

// unservedState returns the state of an asset whose type no plugin is bound to. That it
// is not looked at may be meant.
func (e *Enforcer) unservedState(a *asset) intent.State {
	switch {
	case a.kind.model:
		return intent.StateModel
	case e.view.modeNow(a) == check.Off:
		return intent.StateOff
	}
	return intent.StateUnserved
}

// wait reports that an asset is not acted on, and why.
func (e *Enforcer) wait(a *asset, target intent.IncarnationID, effective intent.Digest, waiting ...intent.WaitingOn) {
	report := intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Waiting: waiting}
	if a.trouble != nil && a.difference.Outcome == intent.Differs && a.difference.Effective == effective {
		d := a.difference
		report.Plan, report.PlanDigest = d.Plan, a.plan
		report.ResourceKey, report.Health, report.Unmanaged = d.ResourceKey, d.Health, d.Unmanaged
		report.Consent, report.Overrides, report.Passed = a.consent, a.overrides, a.passed
		report.PassedOver = a.passedOver
	}
	e.report(a, report)
}

// reportOpen reports a push under way, or one in doubt.
func (e *Enforcer) reportOpen(a *asset, target intent.IncarnationID, effective intent.Digest) {
	if a.push.doubt {
		e.report(a, intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Push: a.push.id, Waiting: []intent.WaitingOn{{
			Kind:   intent.WaitSettling,
			Reason: fmt.Sprintf("push %s of %s may still be running: its end was lost; looking again once that is impossible", a.push.id, a.push.target),
		}}})
		return
	}
	report := intent.Report{State: intent.StatePushing, Target: target, Effective: effective, Push: a.push.id}
	if a.difference.Outcome == intent.Differs {
		report.Plan, report.PlanDigest, report.ResourceKey = a.difference.Plan, a.push.plan, a.difference.ResourceKey
		report.Health = a.difference.Health
		report.Consent, report.Overrides, report.PassedOver = a.consent, a.overrides, a.passedOver
	}
	report.PushNote = a.push.progress
	e.report(a, report)
}

// report stores the outcome of a pass, unless it says nothing new.
func (e *Enforcer) report(a *asset, report intent.Report) {
	report.Partition, report.Asset, report.Type, report.At = e.Partition, a.id, a.kind.name, e.now()
	if pins := e.view.pins[a.id]; len(pins) > 0 {
		if _, pin := intent.Target(e.view.head, pins, report.At); pin != nil {
			report.Pinned = fmt.Sprintf("pinned to %s by %s: %s", pin.Incarnation, pin.Holder.Name, pin.Reason)
		}
	}
	if report.State == intent.StateInSync || report.State == intent.StateWaiting || report.State == intent.StatePushing {
		report.Health = e.afterPushes.health(a, report.Health, report.At)
	}
	if report.PushNote == "" && a.trouble != nil && report.State != intent.StateInSync && !a.open() {
		report.PushNote = a.note
	}
	report.Health = a.reportedHealth(report.Health)
	if a.kind.served != nil && report.State != intent.StateInSync {
		report.Guarantee = string(a.kind.served.guarantee(a.kind.name))
	}
	e.waitTimes.stamp(a, &report)
	e.tally(a, report)
	look := sight.Look{At: report.At, Effective: report.Effective, State: report.State, Health: report.Health.State, Absent: report.Absent}
	if len(report.Waiting) > 0 {
		look.Waits = report.Waiting[0].Kind
	}
	e.Sight.Saw(a.id, look)
	if report.Key() == a.reported {
		delete(e.reports, a.id)
		return
	}
	e.reports[a.id] = report
}

// tally counts the asset where its report says that it is.
func (e *Enforcer) tally(a *asset, report intent.Report) {
	if report.State == intent.StateGone {
		e.Measure.Stances.Leave(a.counted)
		a.counted = 0
		return
	}
	stance := measure.Stance{State: string(report.State)}
	if len(report.Waiting) > 0 {
		stance.Kind = string(report.Waiting[0].Kind)
	}
	a.counted = e.Measure.Stances.Move(a.counted, stance)
}

// startReports stores the newest report of each asset.
func (e *Enforcer) startReports(ctx context.Context) {
	if e.reporting || len(e.reports) == 0 {
		return
	}
	e.reporting = true
	group := slices.AppendSeq(make([]intent.Report, 0, len(e.reports)), maps.Values(e.reports))
	slices.SortFunc(group, func(a, b intent.Report) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	e.reports = map[intent.AssetID]intent.Report{} // A cleared one keeps its room: a start reports of all.
	for i := range group {
		if a := e.assets[group[i].Asset]; a != nil {
			group[i].Next = e.queue.Due(a)
			a.reported = group[i].Key()
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
		for _, report := range group {
			if _, newer := e.reports[report.Asset]; !newer {
				e.reports[report.Asset] = report
			}
			// Nothing is known to be stored: the next one is no repetition.
			if a := e.assets[report.Asset]; a != nil {
				a.reported = 0
			}
		}
		e.later(ctx, time.Second, func() { e.reporting = false })
		return
	}
	if elapsed == 0 {
		e.reporting = false
		return
	}
	e.later(ctx, min(2*elapsed, mostReportPause), func() { e.reporting = false })
}
