package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// waitTimes says since when each asset that waits does so, by reason. It only holds state.
type waitTimes struct{ byAsset map[*asset]waitRecord }

func newWaitTimes() waitTimes { return waitTimes{map[*asset]waitRecord{}} }

// waitRecord lists what an asset with that effective content waits for.
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

// isSame reports whether two waits have the same reason.
func (w wait) isSame(other wait) bool { return w.kind == other.kind && w.check == other.check }

// stamp writes into each reason of a report since when the asset waits for it. A report is
// written again when another reason ends or head moves; the other reasons keep their times.
func (t *waitTimes) stamp(a *asset, report *intent.Report) {
	if report.State != intent.StateWaiting {
		t.forget(a)
		return
	}
	prev := t.byAsset[a]
	sameContent := prev.effective == report.Effective
	now := waitRecord{effective: report.Effective}
	report.Waiting = slices.Clone(report.Waiting)
	for i := range report.Waiting {
		w := &report.Waiting[i]
		entry := waitOf(*w)
		at := slices.IndexFunc(prev.waits, entry.isSame)
		if entry.since.IsZero() && at >= 0 && sameContent {
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
	if sameContent && !slices.ContainsFunc(report.Waiting, comesFromLook) {
		// Nobody could look, as while a plugin starts: the earlier reasons go on.
		for _, earlier := range prev.waits {
			if !slices.ContainsFunc(now.waits, earlier.isSame) {
				now.waits = append(now.waits, earlier)
			}
		}
	}
	t.byAsset[a] = now
}

// forget drops the record of an asset that does not wait any more.
func (t *waitTimes) forget(a *asset) {
	if _, waited := t.byAsset[a]; !waited {
		return
	}
	if delete(t.byAsset, a); len(t.byAsset) == 0 {
		t.byAsset = map[*asset]waitRecord{} // A map keeps the room that all of them took once.
	}
}

// comesFromLook reports whether a wait comes from a look: not from the lack of one.
func comesFromLook(w intent.WaitingOn) bool {
	return w.Kind != intent.WaitPlugin && w.Kind != intent.WaitUnknown
}

// restore takes over what an earlier process reported.
func (t *waitTimes) restore(a *asset, report intent.Report) {
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
	t.byAsset[a] = record
}
