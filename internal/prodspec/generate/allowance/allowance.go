// Package allowance says when a run has had its time: by the time that its processes
// had a core, not by the clock, so that a busy machine ends no run. What neither
// computes nor wants to ends after that time by the clock. It reads /proc and kills
// nobody; package generate and its children ask it.
package allowance

import (
	"fmt"
	"time"
)

const (
	// MostPatience is how many times as long as its limit a run may take by the clock,
	// however little of a core it gets.
	MostPatience = 30
	// somePatience is the same where it is not known whether a run wants a core.
	somePatience = 6
	// leastShare is what part of the time a run has a core, or wants one, that does
	// not merely wait.
	leastShare = 50
)

// Use is what processes had since they began.
type Use struct {
	// Had is the time that they had a core, and Wanted the time that they waited for
	// one.
	Had, Wanted time.Duration
	// Known: the kernel says what they waited for a core.
	Known bool
}

// Allowance is the time of one run. It is used by one goroutine at a time.
type Allowance struct {
	limit, hadAtStart time.Duration
	// startedAt is the beginning of the run. spanStart and last are time and use at the first
	// look: from there on it is judged whether the run merely waits for a core.
	startedAt, spanStart time.Time
	last                 Use
}

// New gives a run a time limit, from now on. had is the core time of its processes until now.
//
// The waiting times of their threads are not read here. Reading them costs more than most runs, and
// again when the threads end, because the kernel then removes the cached entries of /proc.
func New(limit time.Duration, now time.Time, had time.Duration) *Allowance {
	return &Allowance{limit: limit, hadAtStart: had, startedAt: now, last: Use{Had: had}}
}

// FirstLook is the time from the beginning of a run to the first look at it. Most runs end earlier.
func (a *Allowance) FirstLook() time.Duration { return a.limit / 2 }

// Look says why the run is over, or how long it may go on until it is looked at again.
func (a *Allowance) Look(now time.Time, use Use) (reason string, wait time.Duration) {
	if a.spanStart.IsZero() {
		// Waiting counts from here on; core time counts from the beginning.
		a.spanStart, a.last.Wanted = now, use.Wanted
	}
	elapsed, used := now.Sub(a.startedAt), use.Had-a.hadAtStart
	switch {
	case elapsed < a.limit:
		// At its limit, half of the run has been observed, so it can be judged.
		return "", max(a.limit-elapsed, a.limit/2)
	case used >= a.limit:
		return "it had a core for that long", 0
	case elapsed >= MostPatience*a.limit:
		return fmt.Sprintf("in %s it had a core for %s only", elapsed.Round(time.Second), used.Round(10*time.Millisecond)), 0
	}
	if span := now.Sub(a.spanStart); span >= a.limit/2 {
		// What threads waited that have ended is forgotten.
		active := max(use.Had-a.last.Had, 0) + max(use.Wanted-a.last.Wanted, 0)
		if waits := active*leastShare < span; waits && (use.Known || elapsed >= somePatience*a.limit) {
			return "it waits for something, and does not compute", 0
		}
		a.spanStart, a.last = now, use
	}
	return "", min(max(a.limit-used, a.limit/20, time.Millisecond), a.limit/2+time.Millisecond)
}
