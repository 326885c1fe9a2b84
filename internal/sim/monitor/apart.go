package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// apart is an asset in quarantine, as its report says, for its plugin failed when it was asked
// about it alone. (One whose pushes break its plugin is looked at, and pushed seldom.)
type apart struct {
	// at is when it was found so, until when it is not to be looked at.
	at, until time.Time
	// by is the plugin that failed, as a process of Lehr reaches it.
	by int
}

// lonely is when a plugin last failed at an asset alone, and which.
type lonely struct {
	at time.Time
	by int
}

// quarantines are the assets in quarantine, and what may end it sooner.
type quarantines struct {
	of     map[intent.AssetID]apart
	failed map[intent.AssetID]lonely
	// moved is when intent, pins or the lease moved last: then assets may begin afresh.
	moved time.Time
}

func newQuarantines() quarantines {
	return quarantines{of: map[intent.AssetID]apart{}, failed: map[intent.AssetID]lonely{}}
}

// release ends all quarantines, for what they rested on has moved.
func (q *quarantines) release(now time.Time) {
	clear(q.of)
	q.moved = now
}

// failedAlone takes up whether a plugin failed when it was asked about some assets.
func (m *Monitor) failedAlone(assets []intent.AssetID, failed bool, replica int) {
	for _, asset := range assets {
		delete(m.quarantines.failed, asset)
		if failed && len(assets) == 1 {
			m.quarantines.failed[asset] = lonely{m.options.Now(), replica}
		}
	}
}

// toldApart takes up a report: whether the asset is in quarantine. A report that comes late is
// passed over, for what it rests on may have moved.
func (m *Monitor) toldApart(report intent.Report) {
	const late = 2 * time.Second
	q, now := &m.quarantines, m.options.Now()
	delete(q.of, report.Asset)
	failed, ok := q.failed[report.Asset]
	if !ok || now.Sub(failed.at) > late || now.Sub(report.At) > late || q.moved.After(report.At.Add(-late)) || now.Sub(m.retried[report.Asset]) < memory {
		return
	}
	for _, waiting := range report.Waiting {
		if waiting.Kind == intent.WaitQuarantined && !waiting.Until.IsZero() {
			q.of[report.Asset] = apart{at: report.At, until: waiting.Until, by: failed.by}
		}
	}
}

// keptApart: an asset in quarantine is not looked at before it ends (L2). Only new content,
// a pin, another plugin or a person's retry ends it sooner: no hint does.
func (m *Monitor) keptApart(asset intent.AssetID, replica int) {
	const slight = time.Second
	a, ok := m.quarantines.of[asset]
	if !ok || a.by != replica || m.options.Lenient.ClockFaults || m.retried[asset].After(a.at) {
		return
	}
	remaining := a.until.Sub(m.options.Now())
	m.hold(remaining < slight, "L2", "asset %s was looked at %s before its quarantine ends", asset, remaining)
}
