package enforcer

import (
	"slices"
	"time"

	"lehr.dev/intent"
)

// begun is since when an asset of that content waits for what.
type begun struct {
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

// began says of each reason of a report since when the asset waits for it: a report is
// rewritten when another reason ends, or head moves, and that begins nothing.
func (e *Enforcer) began(a *asset, report *intent.Report) {
	if report.State != intent.StateWaiting {
		if _, waited := e.begun[a]; !waited {
			return
		}
		if delete(e.begun, a); len(e.begun) == 0 {
			e.begun = map[*asset]begun{} // The room that all of them took once is given back.
		}
		return
	}
	before := e.begun[a]
	now := begun{effective: report.Effective}
	report.Waiting = slices.Clone(report.Waiting)
	for i := range report.Waiting {
		w := &report.Waiting[i]
		of := waitOf(*w)
		if at := slices.IndexFunc(before.waits, func(b wait) bool { return b.kind == of.kind && b.check == of.check }); of.since.IsZero() && at >= 0 && before.effective == report.Effective {
			of.since = before.waits[at].since
		}
		if of.since.IsZero() || of.since.After(report.At) { // A clock may have been set back.
			of.since = report.At
		}
		if w.Since.IsZero() && of.since.Before(report.At) {
			w.Since = of.since
		}
		now.waits = append(now.waits, of)
	}
	if before.effective == report.Effective && !slices.ContainsFunc(report.Waiting, looked) {
		// Nobody could look, as while a plugin starts: what it waited for goes on.
		for _, b := range before.waits {
			if !slices.ContainsFunc(now.waits, func(w wait) bool { return w.kind == b.kind && w.check == b.check }) {
				now.waits = append(now.waits, b)
			}
		}
	}
	e.begun[a] = now
}

// looked reports whether a wait tells of a look: not that none could be had.
func looked(w intent.WaitingOn) bool {
	return w.Kind != intent.WaitPlugin && w.Kind != intent.WaitUnknown
}

// recallBegun takes over what an earlier process said.
func (e *Enforcer) recallBegun(a *asset, report intent.Report) {
	if report.State != intent.StateWaiting {
		return
	}
	before := begun{effective: report.Effective}
	for _, w := range report.Waiting {
		of := waitOf(w)
		if of.since.IsZero() {
			of.since = report.At
		}
		before.waits = append(before.waits, of)
	}
	e.begun[a] = before
}
