package intent

import "time"

// Answer of a check.
type Answer uint8

const (
	// Broken: the check could not answer. The zero value, so that missing
	// data is never a pass (S11).
	Broken Answer = iota
	Wait
	Pass
)

// Verdict answers "may this asset be pushed now?". It delays, never rejects.
type Verdict struct {
	// Check that answered.
	Check  string
	Answer Answer
	// Waiting says why not, unless the answer is Pass.
	Waiting WaitingOn
	// Until is how long a pass holds; zero: until something it rested on
	// changes.
	Until time.Time
	// Override that lets the check pass; nil: it passes, or not, by itself.
	Override *Override
}

// Passed is a pass that holds until the time; zero: until something changes.
func Passed(check string, until time.Time) Verdict {
	return Verdict{Check: check, Answer: Pass, Until: until}
}

// Waits is a "not now".
func Waits(check string, on WaitingOn) Verdict {
	return Verdict{Check: check, Answer: Wait, Waiting: on}
}

// IsBroken is an answer that could not be had.
func IsBroken(check string, err error) Verdict {
	return Verdict{Check: check, Answer: Broken, Waiting: WaitingOn{Kind: WaitCheckBroken, Reason: err.Error()}}
}
