package intent

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

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
	// Fact that a pass rests on, in short words with values, for whoever asks
	// later why a push began: "error_ratio 0.004 < 0.02, 8 s old". May be empty.
	Fact string
	// PassedOver: the check would not pass, and does not hold what goes back.
	PassedOver bool
	// Observed is what it would wait for if the common rule that asks for it were in force;
	// nil: it passes by itself, or is in force.
	Observed *WaitingOn
}

// Ground is a check that let a push begin.
type Ground struct {
	Check string `json:"check"`
	// Fact that it rested on, in words with values, at most mostFact bytes.
	Fact string `json:"fact,omitempty"`
	// Until is how long the pass held; zero: until something changed.
	Until time.Time `json:"until,omitzero"`
}

// What is kept of the grounds of a push is bounded, however many checks it has and
// whatever they say.
const (
	mostFact    = 200
	mostGrounds = 24
)

// Bounded grounds are fit to be kept: no more than 24 of them, of 200 bytes each.
func Bounded(grounds []Ground) []Ground {
	if excess := len(grounds) - mostGrounds; excess > 0 {
		grounds = append(slices.Clone(grounds[:mostGrounds]), Ground{Check: "others", Fact: fmt.Sprintf("%d more checks passed", excess)})
	}
	for i, g := range grounds {
		grounds[i].Fact = cutTo(g.Fact, mostFact)
	}
	return grounds
}

// cutTo cuts a text where it is too long, between two runes.
func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Rests returns the pass with the fact that it rests on.
func (v Verdict) Rests(format string, arguments ...any) Verdict {
	v.Fact = fmt.Sprintf(format, arguments...)
	return v
}

// Passed is a pass that holds until the time; zero: until something changes.
func Passed(check string, end time.Time) Verdict {
	return Verdict{Check: check, Answer: Pass, Until: end}
}

// Waits is a "not now".
func Waits(check string, waiting WaitingOn) Verdict {
	return Verdict{Check: check, Answer: Wait, Waiting: waiting}
}

// IsBroken is an answer that could not be had.
func IsBroken(check string, err error) Verdict {
	return Verdict{Check: check, Answer: Broken, Waiting: WaitingOn{Kind: WaitCheckBroken, Reason: err.Error()}}
}
