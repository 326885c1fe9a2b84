package monitor

import (
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// AdviceConstraint is the constraint of staging that asks, and AdviceCounts how long a pass counts.
const (
	AdviceConstraint = "may"
	AdviceCounts     = 5 * time.Minute
)

// givenAdvice is what was answered about a version for an environment.
type givenAdvice struct {
	badIn
	pass, used bool
}

// keptAdvice is the newest answer that is stored.
type keptAdvice struct {
	pass bool
	// ends is when a pass counts no longer.
	ends time.Time
}

// AdviceGiven is called when an answer was given about a version for an environment.
func (m *Monitor) AdviceGiven(environment string, r Release, pass bool) {
	m.delivering.adviceGiven = append(m.delivering.adviceGiven, givenAdvice{badIn: badIn{environment, r}, pass: pass})
}

// adviceRow takes up an answer that is stored: it was given about that version, and is stored once
// (S11).
func (m *Monitor) adviceRow(row intent.DeliveryRecord) {
	d, in := &m.delivering, badIn{row.Environment, Release{row.Version.Name, row.Version.Digest}}
	if row.Kind == intent.DeliveryUnanswered {
		delete(d.adviceKept, in)
		return
	}
	at := slices.IndexFunc(d.adviceGiven, func(g givenAdvice) bool { return !g.used && g.badIn == in && g.pass == row.Good })
	m.hold(at >= 0, "S11", "an answer to %s is kept for %s in %s: %v, which nobody gave", row.Constraint, in.Release, row.Environment, row.Good)
	if at >= 0 {
		d.adviceGiven[at].used = true
	}
	kept := keptAdvice{pass: row.Good, ends: row.At.Add(AdviceCounts)}
	if !row.Until.IsZero() && row.Until.Before(kept.ends) {
		kept.ends = row.Until
	}
	d.adviceKept[in] = kept
}

// checkAdvice holds that the newest answer about a version passes it and still counts (S11, S19).
func (m *Monitor) checkAdvice(environment string, r Release, now time.Time) {
	if m.delivering.passed[passedFor{AdviceConstraint, r}] {
		return
	}
	kept, ok := m.delivering.adviceKept[badIn{environment, r}]
	m.hold(ok && kept.pass, "S11", "%s was given %s, which nobody passed when a constraint asked", environment, r)
	m.hold(!ok || m.options.Lenient.ClockFaults || now.Sub(kept.ends) < stepTakes, "S19", "%s was given %s by a pass that ended %s before", environment, r, now.Sub(kept.ends))
}
