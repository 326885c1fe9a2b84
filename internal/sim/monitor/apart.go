package monitor

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// apart is an asset in quarantine, as its report says.
type apart struct {
	// at is when it was found so, until when it is not to be looked at.
	at, until time.Time
	// by is the plugin, as a process of Lehr reaches it, that was asked last.
	by int
}

// quarantines are the assets in quarantine, and what may end it sooner.
type quarantines struct {
	of map[intent.AssetID]apart
	// askers are who asked last about each asset.
	askers map[intent.AssetID]int
	// moved is when intent, pins or the lease moved last: then assets may begin afresh.
	moved time.Time
}

func newQuarantines() quarantines {
	return quarantines{of: map[intent.AssetID]apart{}, askers: map[intent.AssetID]int{}}
}

// release ends all quarantines, for what they rested on has moved.
func (q *quarantines) release(now time.Time) {
	clear(q.of)
	q.moved = now
}

// toldApart takes up a report: whether the asset is in quarantine. A report that comes late is
// passed over, for what it rests on may have moved.
func (m *Monitor) toldApart(report intent.Report) {
	const late = 2 * time.Second
	q, now := &m.quarantines, m.options.Now()
	delete(q.of, report.Asset)
	if now.Sub(report.At) > late || q.moved.After(report.At.Add(-late)) || now.Sub(m.retried[report.Asset]) < memory {
		return
	}
	for _, waiting := range report.Waiting {
		if waiting.Kind == intent.WaitQuarantined && !waiting.Until.IsZero() {
			q.of[report.Asset] = apart{at: report.At, until: waiting.Until, by: q.askers[report.Asset]}
		}
	}
}

// keptApart: an asset in quarantine is not looked at before it ends (L2). Only new content,
// a pin, another plugin or a person's retry ends it sooner: no hint does.
func (m *Monitor) keptApart(asset intent.AssetID, by int) {
	const slight = time.Second
	q, now := &m.quarantines, m.options.Now()
	q.askers[asset] = by
	a, ok := q.of[asset]
	if !ok || a.by != by || m.options.Lenient.ClockFaults || m.retried[asset].After(a.at) {
		return
	}
	left := a.until.Sub(now)
	m.hold(left < slight, "L2", "asset %s was looked at %s before its quarantine ends", asset, left)
}
