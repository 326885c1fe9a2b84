package enforcer

import (
	"context"
	"maps"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// load reads everything once, and takes up the pushes that an earlier holder
// of the lease left open.
func (e *Enforcer) load(ctx context.Context) error {
	if err := e.update(ctx); err != nil {
		return err
	}
	if err := e.loadEnforced(ctx); err != nil {
		return err
	}
	if err := e.loadReports(ctx); err != nil {
		return err
	}
	// What is not known to have been enforced goes before the sweep. The others
	// are looked at once, and then in the pace of the sweep, so that a start is
	// no storm (L11).
	for _, a := range e.assets {
		if a.enforcedAs() != a.effective {
			e.soon(a, loop.Fresh)
		} else {
			a.calm = calmest
		}
	}
	if err := e.memos.load(ctx); err != nil {
		return err
	}
	if err := e.outputs.load(ctx, e.Store, e.Partition, e.Runtime.Now()); err != nil {
		return err
	}
	return e.inherit(ctx)
}

// loadEnforced reads what every asset was enforced with last.
func (e *Enforcer) loadEnforced(ctx context.Context) error {
	for page := (intent.AssetID)(""); ; {
		records, err := e.Store.EnforcedPage(ctx, e.Partition, page, pageSize)
		if err != nil {
			return err
		}
		for _, record := range records {
			page = record.Asset
			if a := e.assets[record.Asset]; a != nil {
				e.setEnforced(a, record, e.Runtime.Now())
			} else {
				e.orphans.mark(record.Asset, orphanOf(record))
			}
		}
		if len(records) < pageSize {
			return nil
		}
	}
}

// loadReports takes over what an earlier process reported.
func (e *Enforcer) loadReports(ctx context.Context) error {
	for page := (intent.AssetID)(""); ; {
		reports, err := e.Store.ListReports(ctx, e.Partition, store.ReportFilter{After: page, Limit: pageSize})
		if err != nil {
			return err
		}
		for _, report := range reports {
			page = report.Asset
			if a := e.assets[report.Asset]; a != nil {
				a.reported = report.Key()
				a.health, a.unwell = storedHealth(report), report.Health.IsAfterPush()
				a.judge = storedJudge(report, a.enforcedAs())
				e.reporter.waitTimes.restore(a, report)
			} else if report.State != intent.StateGone {
				// It left intent while nobody looked.
				e.reporter.pending[report.Asset] = intent.Report{
					Partition: e.Partition, Asset: report.Asset, Type: report.Type, At: e.Runtime.Now(), State: intent.StateGone, Target: e.view.head,
					Absent: e.orphans.byID[report.Asset].absent,
				}
			}
		}
		if len(reports) < pageSize {
			return nil
		}
	}
}

// refresh reads what changed. When the store cannot be read now, what is
// known stays, and admission will refuse what has become stale.
func (e *Enforcer) refresh(ctx context.Context) {
	err := e.update(ctx)
	e.viewErr, e.outputs.moved = err, true
	if len(e.orphans.byID) > 0 {
		e.recheckOrphans(ctx, maps.Keys(e.waiters))
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case fault.Is(err, fault.Conflict):
		e.failed = err
	case !e.catchingUp:
		e.Log.Warn("cannot read the partition; trying again", "partition", e.Partition, "error", err)
		e.catchingUp = true
		e.later(ctx, time.Second, func() {
			e.catchingUp = false
			e.refresh(ctx)
		})
	}
}

// update brings the view up to the store's revision and wakes what it touches.
func (e *Enforcer) update(ctx context.Context) error {
	if err := e.Store.Check(ctx, e.lease); err != nil {
		return err
	}
	partition, err := e.Store.Partition(ctx, e.Partition)
	if err != nil {
		return err
	}
	if partition.Revision == e.view.revision && e.view.policy != nil {
		return nil
	}
	next := view{head: partition.Head, revision: partition.Revision, stop: partition.Stop}
	if err := e.read.readBrakes(ctx, e.Partition, &e.view, &next); err != nil {
		return err
	}
	if err := e.readPolicy(ctx, &next); err != nil {
		return err
	}
	if err := e.readCommon(ctx, &next); err != nil {
		return err
	}
	var retried []intent.AssetID
	if e.view.policy != nil { // At the start nothing has failed yet.
		if retried, err = e.Store.Retries(ctx, e.Partition, e.view.revision); err != nil {
			return err
		}
	}
	changed, err := e.read.headChanges(ctx, e.view.head, next.head)
	if err != nil {
		return err
	}
	returning, err := e.read.returning(ctx, e.Partition, &e.orphans, changed, next.pins)
	if err != nil {
		return err
	}
	previous := e.view
	e.view = next
	priority := loop.Fresh
	if previous.policy == nil {
		priority = loop.Sweep
	}
	e.applyHead(changed, returning, priority)
	e.pushLimits.health.moveHead(e.view.head.Sequence, changed, e.find)
	e.applyKinds(previous)
	e.watchHints(ctx)
	if previous.policy != nil && previous.policy.digest != next.policy.digest {
		e.returnAllToSweep(e.now())
	}
	e.applyPins(previous, returning)
	for _, id := range retried {
		e.retry(id)
	}
	e.wakeTroubled()
	return nil
}

// readPolicy reads head's policy and works out what it says of each type.
func (e *Enforcer) readPolicy(ctx context.Context, next *view) (err error) {
	next.policy = noPolicy()
	if !next.head.IsZero() {
		if next.policy, err = e.read.policy(ctx, next.head); err != nil {
			return err
		}
	}
	if e.view.policy != nil && e.view.policy.digest == next.policy.digest {
		next.kinds = e.view.kinds
		return nil
	}
	next.kinds = e.observer.plugins.bind(next.policy)
	return nil
}
