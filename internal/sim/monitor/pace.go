package monitor

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// limit of pushes within a time.
type limit struct {
	pushes int
	within time.Duration
}

var (
	// One that does not help is repeated after a second, and then each time
	// after twice as long, up to minutes.
	ofVain = limit{7, 10 * time.Second}
	// So is what somebody else undoes after it was seen in sync, from the fourth
	// time on: so many take four minutes at least.
	ofUndone = limit{12, 100 * time.Second}
)

const (
	// backedOff is how long new content may wait for what failed before it: a
	// push of the older one may still have ended in a failure, the first that
	// counts. memory is the longest pause after failures, and a little more.
	backedOff = 10 * time.Second
	memory    = 7 * time.Minute
)

// paces are how often assets are pushed to what they follow (L10), and whether
// what failed before holds up what is new (L3).
type paces struct {
	of    map[intent.AssetID]pace
	tried map[called]bool
	// moved is when a process's clock was set last.
	moved time.Time
}

// pace of an asset, under one lease and while what it follows stays.
type pace struct {
	effective intent.Digest
	epoch     uint64
	pinned    intent.Sequence
	// vain are the true times of pushes since it was seen in sync, undone of
	// those after each of which it was, and had to be pushed again. seen: it was
	// seen in sync since the last one.
	vain, undone []time.Time
	seen         bool
}

// ClockMoved is called when the clock of a process is set, or goes wrong: it
// may then take a pause for over.
func (m *Monitor) ClockMoved() {
	clear(m.paces.of)
	m.paces.moved = m.options.Now()
	clear(m.outputs.changes)
	m.rolling.moved = append(m.rolling.moved, m.paces.moved)
}

// paced: nothing is pushed again and again (L10). A push that was cut off, or
// stopped by a brake, tells nothing of what the next will come to.
func (m *Monitor) paced(p *push) {
	if !slices.Contains([]string{"failed", "pushed", "stale"}, p.ending) {
		return
	}
	m.ask("L10")
	now := m.paces.of[p.asset]
	if pinned := m.pinnedTo(p.asset, m.options.Now()); now.effective != p.effective || now.epoch != p.epoch || now.pinned != pinned {
		now = pace{effective: p.effective, epoch: p.epoch, pinned: pinned}
	}
	if now.seen {
		now.seen, now.vain = false, nil
		now.undone = m.slow(append(now.undone, p.seen), ofUndone, p, "it was undone")
	}
	now.vain = m.slow(append(now.vain, p.seen), ofVain, p, "it did not help")
	m.paces.of[p.asset] = now
}

// slow returns the last of the times that matter, and fails if they are too
// many for their limit.
func (m *Monitor) slow(times []time.Time, l limit, p *push, reason string) []time.Time {
	if len(times) < l.pushes {
		return times
	}
	if duration := times[len(times)-1].Sub(times[0]); duration < l.within {
		m.fail("L10", "push %s of %s, which %s, is the %dth to content %s within %s, though each time "+reason, p.id, p.asset, p.ending, l.pushes, p.effective.Short(), duration)
	}
	return times[1:]
}

// Told is called with each report that Lehr writes. New content does not wait
// as long as what was before it failed (L3).
func (m *Monitor) Told(report intent.Report) {
	m.toldWell(report)
	m.toldApart(report)
	if report.State != intent.StateWaiting || m.options.Now().Sub(m.paces.moved) < memory {
		return
	}
	for _, waiting := range report.Waiting {
		if waiting.Kind != intent.WaitBackoff || m.crowded(report.Asset, report.At, waiting.Until) {
			continue
		}
		pause := waiting.Until.Sub(report.At)
		m.hold(pause <= backedOff || m.paces.tried[called{report.Asset, report.Effective}], "L3",
			"asset %s waits for %s to be pushed to content %s, to which it never was: %s", report.Asset, pause, report.Effective.Short(), waiting.Reason)
	}
}
