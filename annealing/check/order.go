package check

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/intent"
)

// order is the dependency solver's static rule: what the asset depends on
// must be in sync at its own target first. A loosened edge is let go by an
// approval of the plan, so that a dependency removed because it was broken is
// no trap, and a commit alone does not disarm its own guard.
func order(f Facts) intent.Verdict {
	var blockers []intent.AssetID
	var states []string
	var until time.Time
	loosened := 0
	for _, neighbour := range f.Order {
		if neighbour.InSync || neighbour.Loosened && f.Approved {
			if !neighbour.Until.IsZero() && (until.IsZero() || neighbour.Until.Before(until)) {
				until = neighbour.Until
			}
			continue
		}
		blockers = append(blockers, neighbour.Asset)
		state := fmt.Sprintf("%s (%s)", neighbour.Asset, neighbour.State)
		if neighbour.Loosened {
			loosened++
			state = fmt.Sprintf("%s (%s; dropped from the dependencies, but last enforced with it)", neighbour.Asset, neighbour.State)
		}
		states = append(states, state)
	}
	if len(blockers) == 0 {
		return intent.Passed("order", until)
	}
	reason := "must come after " + strings.Join(states, ", ")
	if loosened == len(blockers) {
		reason += fmt.Sprintf(". \"lehr approve %s --plan %s\" lets it go without them", f.Asset, f.Plan.Digest().Short())
	}
	return intent.Waits("order", intent.WaitingOn{Kind: intent.WaitOrder, Reason: reason, Blockers: blockers})
}
