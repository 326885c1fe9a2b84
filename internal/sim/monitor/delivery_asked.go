package monitor

import (
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Act is one that a person asks of delivery.
type Act struct {
	Kind, Environment string
	Release
	Constraint string
}

// Vote is what a person said of a version for production.
type Vote struct {
	Release
	by       string
	approve  bool
	at       time.Time
	answered bool
}

// AskedAct is an act that was asked for. Had is what its environment had then.
type AskedAct struct {
	Act
	number int
	had    Release
}

// VoteAsked is called before somebody votes, and VoteAnswered when it was acknowledged. One that
// was not may count, or not.
func (m *Monitor) VoteAsked(r Release, by string, approve bool) *Vote {
	v := &Vote{Release: r, by: by, approve: approve, at: m.options.Now()}
	m.delivering.votes = append(m.delivering.votes, v)
	return v
}

// VoteAnswered notes that a vote counts.
func (m *Monitor) VoteAnswered(v *Vote) { v.answered = true }

// ActAsked is called before somebody acts, and ActAnswered when that was acknowledged. What
// lets something through may count from the asking on, what holds something when it is
// acknowledged, unless somebody asked for the contrary meanwhile.
func (m *Monitor) ActAsked(a Act) AskedAct {
	d := &m.delivering
	d.asked++
	undo := func(what ...string) {
		for _, one := range what {
			d.undoing[one] = d.asked
		}
	}
	pin, pause, mark := "pin "+a.Environment, "pause "+a.Environment, fmt.Sprintf("mark %s %v", a.Environment, a.Release)
	switch a.Kind {
	case intent.ActPin, intent.ActUnpin, intent.ActRollBack:
		delete(d.pins, a.Environment)
		undo(pin)
	case intent.ActResume:
		delete(d.paused, a.Environment)
		undo(pause)
	case intent.ActMarkGood:
		undo(mark)
		for in := range d.bad {
			if in.Release == a.Release && (a.Environment == "" || a.Environment == in.environment || in.environment == "") {
				delete(d.bad, in)
			}
		}
		if a.Environment == "" {
			for name := range d.fields {
				undo(fmt.Sprintf("mark %s %v", name, a.Release))
			}
		} else {
			undo(fmt.Sprintf("mark  %v", a.Release))
		}
	case intent.ActRestart:
		for in, by := range d.bad {
			if in.Release == a.Release && in.environment == a.Environment && !by.person {
				delete(d.bad, in)
			}
		}
	case intent.ActForce:
		d.passed[passedFor{a.Constraint, a.Release}] = true
	case intent.ActHotfix:
		d.passed[passedFor{"soaked", a.Release}] = true
	}
	if slices.Contains([]string{intent.ActPin, intent.ActUnpin, intent.ActSkipTo, intent.ActRollBack, intent.ActResume}, a.Kind) {
		delete(d.edited, a.Environment)
	}
	return AskedAct{a, d.asked, d.fields[a.Environment].Release}
}

// ActAnswered notes that an act counts.
func (m *Monitor) ActAnswered(a AskedAct) {
	d := &m.delivering
	undone := func(what string) bool { return d.undoing[what] > a.number }
	switch a.Kind {
	case intent.ActPin:
		if !undone("pin " + a.Environment) {
			d.pins[a.Environment] = a.Release
		}
	case intent.ActPause:
		if !undone("pause " + a.Environment) {
			d.paused[a.Environment] = true
		}
	case intent.ActMarkBad:
		if !undone(fmt.Sprintf("mark %s %v", a.Environment, a.Release)) {
			d.bad[badIn{a.Environment, a.Release}] = badBy{person: true}
		}
	case intent.ActRollBack:
		// What it went back from stays out until somebody marks it good. Where something else came
		// meanwhile, the act may have been about either.
		had := d.fields[a.Environment].Release
		if had == a.had && had != a.Release && !undone(fmt.Sprintf("mark %s %v", a.Environment, had)) {
			d.bad[badIn{a.Environment, had}] = badBy{person: true}
		}
	case intent.ActRestart:
		if a.Constraint == "people" {
			d.restarted[a.Release] = m.options.Now()
		}
	}
}
