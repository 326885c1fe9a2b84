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

const pageSize = 5000

// load reads everything once, and takes up the pushes that an earlier holder
// of the lease left open.
func (e *Enforcer) load(ctx context.Context) error {
	if err := e.update(ctx); err != nil {
		return err
	}
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
			break
		}
	}
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
				e.waitTimes.restore(a, report)
			} else if report.State != intent.StateGone {
				// It left intent while nobody looked.
				e.reports[report.Asset] = intent.Report{
					Partition: e.Partition, Asset: report.Asset, Type: report.Type, At: e.Runtime.Now(), State: intent.StateGone, Target: e.view.head,
					Absent: e.orphans.byID[report.Asset].absent,
				}
			}
		}
		if len(reports) < pageSize {
			break
		}
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
	return e.inherit(ctx)
}

// refresh reads what changed. When the store cannot be read now, what is
// known stays, and admission will refuse what has become stale.
func (e *Enforcer) refresh(ctx context.Context) {
	err := e.update(ctx)
	e.viewErr = err
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
	if err := e.readBrakes(ctx, &next); err != nil {
		return err
	}
	if err := e.readPolicy(ctx, &next); err != nil {
		return err
	}
	var retried []intent.AssetID
	if e.view.policy != nil { // At the start nothing has failed yet.
		if retried, err = e.Store.Retries(ctx, e.Partition, e.view.revision); err != nil {
			return err
		}
	}
	changed, err := e.headChanges(ctx, e.view.head, next.head)
	if err != nil {
		return err
	}
	returning, err := e.returning(ctx, changed, next.pins)
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
	e.applyPins(previous, returning)
	for _, id := range retried {
		e.retry(id)
	}
	e.wakeTroubled()
	return nil
}

// readBrakes reads pins, holds, approvals and stops.
func (e *Enforcer) readBrakes(ctx context.Context, next *view) error {
	pins, err := e.Store.Pins(ctx, e.Partition)
	if err != nil {
		return err
	}
	next.pins, next.pinned = map[intent.AssetID][]intent.Pin{}, map[pinnedAt]intent.Member{}
	for _, pin := range pins {
		next.pins[pin.Asset] = append(next.pins[pin.Asset], pin)
		if pin.Waits() {
			continue
		}
		at := pinnedAt{pin.Asset, pin.Incarnation.Sequence}
		if member, ok := e.view.pinned[at]; ok {
			next.pinned[at] = member // Incarnations never change.
			continue
		}
		member, err := e.Store.Member(ctx, pin.Incarnation, pin.Asset)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			next.pinned[at] = member
		}
	}
	holds, err := e.Store.Holds(ctx, e.Partition)
	if err != nil {
		return err
	}
	next.holds = map[intent.AssetID]intent.Hold{}
	for _, hold := range holds {
		next.holds[hold.Asset] = hold
	}
	consents, err := e.Store.Consents(ctx, e.Partition)
	if err != nil {
		return err
	}
	next.approvals = map[planOf][]intent.Approval{}
	for _, a := range consents.Approvals {
		key := planOf{contentOf{a.Asset, a.Effective}, a.Plan}
		next.approvals[key] = append(next.approvals[key], a)
	}
	next.rejections = map[planOf][]intent.Rejection{}
	for _, r := range consents.Rejections {
		key := planOf{contentOf{r.Asset, r.Effective}, r.Plan}
		next.rejections[key] = append(next.rejections[key], r)
	}
	next.overrides = map[contentOf][]intent.Override{}
	for _, o := range consents.Overrides {
		key := contentOf{o.Asset, o.Effective}
		next.overrides[key] = append(next.overrides[key], o)
	}
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

// headChanges lists how the membership differs between two heads.
func (e *Enforcer) headChanges(ctx context.Context, oldHead, newHead intent.IncarnationID) ([]store.Change, error) {
	if oldHead == newHead {
		return nil, nil
	}
	var all []store.Change
	for cursor := (intent.AssetID)(""); ; {
		page, err := e.Store.Changes(ctx, oldHead, newHead, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
		cursor = page[len(page)-1].Asset
	}
}
