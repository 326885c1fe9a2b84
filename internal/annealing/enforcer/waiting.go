package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// waitRecord is since when an asset of that content waits for what.
type waitRecord struct {
	effective intent.Digest
	waits     []wait
}

// wait is one of the reasons of an asset: its kind, and the policy's check that gives
// it. Its words may change meanwhile, as numbers and blockers do.
type wait struct {
	kind  intent.WaitingKind
	check string
	since time.Time
}

func waitOf(w intent.WaitingOn) wait {
	return wait{kind: w.Kind, check: w.Check, since: w.Since}
}

// stampWaits says of each reason of a report since when the asset waits for it: a report is
// rewritten when another reason ends, or head moves, and that begins nothing.
func (e *Enforcer) stampWaits(a *asset, report *intent.Report) {
	if report.State != intent.StateWaiting {
		if _, waited := e.waitRecords[a]; !waited {
			return
		}
		if delete(e.waitRecords, a); len(e.waitRecords) == 0 {
			e.waitRecords = map[*asset]waitRecord{} // The room that all of them took once is given back.
		}
		return
	}
	prev := e.waitRecords[a]
	now := waitRecord{effective: report.Effective}
	report.Waiting = slices.Clone(report.Waiting)
	for i := range report.Waiting {
		w := &report.Waiting[i]
		entry := waitOf(*w)
		if at := slices.IndexFunc(prev.waits, func(b wait) bool { return b.kind == entry.kind && b.check == entry.check }); entry.since.IsZero() && at >= 0 && prev.effective == report.Effective {
			entry.since = prev.waits[at].since
		}
		if entry.since.IsZero() || entry.since.After(report.At) { // A clock may have been set back.
			entry.since = report.At
		}
		if w.Since.IsZero() && entry.since.Before(report.At) {
			w.Since = entry.since
		}
		now.waits = append(now.waits, entry)
	}
	if prev.effective == report.Effective && !slices.ContainsFunc(report.Waiting, looked) {
		// Nobody could look, as while a plugin starts: what it waited for goes on.
		for _, b := range prev.waits {
			if !slices.ContainsFunc(now.waits, func(w wait) bool { return w.kind == b.kind && w.check == b.check }) {
				now.waits = append(now.waits, b)
			}
		}
	}
	e.waitRecords[a] = now
}

// looked reports whether a wait tells of a look: not that none could be had.
func looked(w intent.WaitingOn) bool {
	return w.Kind != intent.WaitPlugin && w.Kind != intent.WaitUnknown
}

// recallWaits takes over what an earlier process said.
func (e *Enforcer) recallWaits(a *asset, report intent.Report) {
	if report.State != intent.StateWaiting {
		return
	}
	record := waitRecord{effective: report.Effective}
	for _, w := range report.Waiting {
		entry := waitOf(w)
		if entry.since.IsZero() {
			entry.since = report.At
		}
		record.waits = append(record.waits, entry)
	}
	e.waitRecords[a] = record
}
