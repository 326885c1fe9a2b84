package check

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// obstacle is what one edge puts in the way of a push; zero: nothing.
type obstacle struct {
	reason string
	// broken: the edge could not be judged.
	broken error
	// idle: the push does not touch the edge, and rests on nothing of it.
	idle bool
	// endless: nothing but a person ends it.
	endless bool
}

func (o obstacle) blocks() bool { return o.broken != nil || o.reason != "" }

// edges gathers what a rule says of one edge after another.
type edges struct {
	blockers []intent.AssetID
	reasons  []string
	problems []string
	loosened int
	endless  int
	missing  bool
	quotes   bool
	until    time.Time
}

// judge takes up one edge. A loosened one is let go by an approval of the
// plan, so that a dependency removed because it was broken is no trap, and a
// commit alone does not disarm its own guard (S23). An approval that the plan
// needs in any case lets go what would otherwise hold for ever.
func (e *edges) judge(f Facts, n Neighbour, o obstacle) {
	switch {
	case o.idle || o.blocks() && n.Loosened && (f.letsGo() || o.endless && f.Approved && !f.removes()):
		return
	case !o.blocks():
		if !n.Until.IsZero() && (e.until.IsZero() || n.Until.Before(e.until)) {
			e.until = n.Until
		}
		return
	case o.broken != nil:
		e.problems = append(e.problems, o.broken.Error())
	case n.Loosened && o.endless:
		e.reasons = append(e.reasons, o.reason+" (dropped from the dependencies, but last enforced with it; it waits for this asset, so that nothing but a person ends that)")
	case n.Loosened:
		e.reasons = append(e.reasons, o.reason+" (dropped from the dependencies, but last enforced with it)")
	default:
		e.reasons = append(e.reasons, o.reason)
	}
	if n.Loosened && o.endless {
		e.endless++
	}
	e.blockers = append(e.blockers, n.Asset)
	e.quotes = e.quotes || n.Quotes
	e.missing = e.missing || n.Missing && !n.Loosened
	if n.Loosened {
		e.loosened++
	}
}

// verdict of all edges. One that could not be judged breaks it; what waits is
// told beside.
func (e *edges) verdict(name string, kind intent.WaitingKind, f Facts) intent.Verdict {
	if len(e.blockers) == 0 {
		return intent.Passed(name, e.until)
	}
	waiting := intent.WaitingOn{Kind: kind, Reason: listed(append(e.problems, e.reasons...)), Blockers: named(e.blockers), Quotes: e.quotes}
	if e.loosened == len(e.blockers) && (f.loosens() || e.endless == e.loosened && !f.removes()) {
		waiting.Approve, waiting.Loosened = true, true
		waiting.Reason += f.letGo()
	}
	if e.missing {
		waiting.Kind = intent.WaitMissing
	}
	if len(e.problems) > 0 {
		waiting.Kind = intent.WaitCheckBroken
		return intent.Verdict{Check: name, Answer: intent.Broken, Waiting: waiting}
	}
	return intent.Waits(name, waiting)
}

// Of a hub with a thousand neighbours the first tell enough.
const (
	mostListed = 5
	mostNamed  = 100
)

func listed(reasons []string) string {
	if len(reasons) > mostListed {
		reasons = append(reasons[:mostListed:mostListed], fmt.Sprintf("and %d more", len(reasons)-mostListed))
	}
	return strings.Join(reasons, "; ")
}

func named(blockers []intent.AssetID) []intent.AssetID {
	return blockers[:min(len(blockers), mostNamed)]
}
