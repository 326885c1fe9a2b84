package enforcer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/sight"
)

// reporter completes the reports of passes, and holds those that are to be stored. The
// enforcer stores them.
type reporter struct {
	partition   intent.PartitionID
	view        *view
	afterPushes *afterPushes
	measure     *measure.Enforcer
	sight       *sight.Board
	// waitTimes is since when those that wait do.
	waitTimes waitTimes
	// pending are the newest reports that are not stored, by asset. saving: a group of
	// reports is with the store, or was a moment ago.
	pending map[intent.AssetID]intent.Report
	saving  bool
}

// add completes the report of a pass, and keeps it unless it says nothing new.
func (r *reporter) add(a *asset, report intent.Report, now time.Time) {
	r.complete(a, &report, now)
	r.waitTimes.stamp(a, &report)
	r.tally(a, report)
	look := sight.Look{At: report.At, Effective: report.Effective, State: report.State, Health: report.Health.State, Judged: report.Health.IsByAddon(), Absent: report.Absent}
	if len(report.Waiting) > 0 {
		look.Waits = report.Waiting[0].Kind
	}
	r.sight.Saw(a.id, look)
	if report.Key() == a.reported {
		delete(r.pending, a.id)
		return
	}
	r.pending[a.id] = report
}

// complete adds what every report of an asset says.
func (r *reporter) complete(a *asset, report *intent.Report, now time.Time) {
	report.Partition, report.Asset, report.Type, report.At = r.partition, a.id, a.kind.name, now
	if pins := r.view.pins[a.id]; len(pins) > 0 {
		if _, pin := intent.Target(r.view.head, pins, report.At); pin != nil {
			report.Pinned = fmt.Sprintf("pinned to %s by %s: %s", pin.Incarnation, pin.Holder.Name, pin.Reason)
		}
	}
	if report.State == intent.StateInSync || report.State == intent.StateWaiting || report.State == intent.StatePushing {
		report.Health = r.afterPushes.health(a, report.Health, report.At)
	}
	if report.PushNote == "" && a.trouble != nil && report.State != intent.StateInSync && !a.open() {
		report.PushNote = a.note
	}
	report.Health = a.reportedHealth(report.Health)
	if a.kind.served != nil && report.State != intent.StateInSync {
		report.Guarantee = string(a.kind.served.guarantee(a.kind.name))
	}
}

// tally counts the asset where its report says that it is.
func (r *reporter) tally(a *asset, report intent.Report) {
	if report.State == intent.StateGone {
		r.measure.Stances.Leave(a.counted)
		a.counted = 0
		return
	}
	stance := measure.Stance{State: string(report.State)}
	if len(report.Waiting) > 0 {
		stance.Kind = string(report.Waiting[0].Kind)
	}
	a.counted = r.measure.Stances.Move(a.counted, stance)
}

// take returns the reports that are to be stored, by the names of their assets; nil: there
// are none, or others are being stored.
func (r *reporter) take(find func(intent.AssetID) *asset) []intent.Report {
	if r.saving || len(r.pending) == 0 {
		return nil
	}
	r.saving = true
	group := make([]intent.Report, 0, len(r.pending))
	for _, id := range slices.Sorted(maps.Keys(r.pending)) { // Sorting reports would move half a kilobyte each.
		group = append(group, r.pending[id])
	}
	r.pending = map[intent.AssetID]intent.Report{} // A cleared map keeps its room: a start reports of all.
	for i := range group {
		if a := find(group[i].Asset); a != nil {
			a.reported = group[i].Key()
		}
	}
	return group
}

// putBack keeps reports that could not be stored, where there are no newer ones.
func (r *reporter) putBack(group []intent.Report, find func(intent.AssetID) *asset) {
	for _, report := range group {
		if _, newer := r.pending[report.Asset]; !newer {
			r.pending[report.Asset] = report
		}
		// Nothing is known to be stored: the next report is no repetition.
		if a := find(report.Asset); a != nil {
			a.reported = 0
		}
	}
}
