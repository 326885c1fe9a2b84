package check

import (
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Turndown is what the removal that an asset's Turndown asks for rests on.
type Turndown struct {
	// Dependants are the assets of head that refer to the asset, or come
	// after it, or need a version of it. One that is Absent does not any more.
	Dependants []Neighbour
}

// removes reports whether the push would remove the real thing.
func (f Facts) removes() bool { return f.Turndown != nil || f.Plan.Action == intent.ActionDelete }

// loosens reports whether an approval of the plan would also let go what only
// the last enforced content asks for: where nothing else asks for one, that is
// all that it can mean. A removal, a plan that destroys and a marked asset are
// approved in any case, by people who may not know of the edge; there the edges
// of the old content end with the push of a content without them.
func (f Facts) loosens() bool { return !f.removes() && !NeedsApproval(f) }

// letsGo reports whether the approval of the plan lets go of loosened edges.
func (f Facts) letsGo() bool { return f.Approved && f.loosens() }

// turndown lets nothing be removed but what a Turndown asks for, and that only
// when nothing depends on it any more (S5). Removal runs backwards: what comes
// after an asset goes before it.
func turndown(f Facts) intent.Verdict {
	const name = "turndown"
	switch {
	case f.Turndown == nil && f.Plan.Action == intent.ActionDelete:
		return intent.Waits(name, intent.WaitingOn{
			Kind:   intent.WaitTurndown,
			Reason: "its plugin would remove the real thing, and nothing asks for that: absence never deletes. Add a Turndown to the asset if it is to go",
		})
	case f.Turndown == nil:
		return intent.Passed(name, time.Time{})
	case f.Plan.Action != intent.ActionDelete:
		return intent.Waits(name, intent.WaitingOn{
			Kind:   intent.WaitUnknown,
			Reason: fmt.Sprintf("it has a Turndown, and its plugin would %s the real thing instead of removing it: the plugin does not know turndowns. Take the newest one, or remove the real thing by hand", f.Plan.Action),
		})
	}
	var answer edges
	for _, dependant := range f.Turndown.Dependants {
		var finding obstacle
		if !dependant.Known || !dependant.Absent {
			finding.reason = fmt.Sprintf("%s still depends on it (%s)", dependant.Asset, dependant.State)
			if f.Rule != nil && !f.IsFound {
				finding.reason += fmt.Sprintf("; once it does not, the %s has it removed", f.Rule)
			}
		}
		answer.judge(f, dependant, finding)
	}
	return answer.verdict(name, intent.WaitTurndown, f)
}
