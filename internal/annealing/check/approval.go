package check

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
)

// NeedsApproval reports whether a push of the plan needs an approval (S9).
func NeedsApproval(f Facts) bool {
	return f.Marked != "" || f.Plan.Destructive()
}

// ApprovedByRule is the reviewed rule that is the approval of the push, in place of people's;
// nil: none is. A rule approves that a Turndown's own thing is removed, and nothing else: not
// what takes others along, and not what is marked for approval by people. A preview's rule
// approves nothing of what the preview did not make.
func ApprovedByRule(f Facts) *intent.RuleApproval {
	if f.Rule == nil || f.IsFound || f.Turndown == nil || f.Marked != "" || !generation.RemovesOnlyItself(f.Plan) {
		return nil
	}
	return f.Rule
}

// ConsumesApproval reports whether a push of the plan uses up people's approvals (S9).
func ConsumesApproval(f Facts) bool {
	return NeedsApproval(f) && ApprovedByRule(f) == nil || f.GoesPast()
}

// AsksApproval reports whether an approval of the plan would change anything:
// the push needs one, or it would let go of a loosened edge.
func AsksApproval(f Facts) bool {
	return NeedsApproval(f) && ApprovedByRule(f) == nil || f.loosens() && f.heldByLoosened()
}

// approval waits for people where the plan destroys something or the asset is
// marked, and for as long as somebody rejects the plan. That the approvals are
// still there, and no rejection is, is asked again at admission.
func approval(f Facts) intent.Verdict {
	if rejected := intent.Rejected(f.Asset, f.Rejections, f.Now); rejected != nil {
		return intent.Waits("approval", *rejected)
	}
	if rule := ApprovedByRule(f); rule != nil {
		verdict := intent.Passed("approval", time.Time{})
		verdict.Fact = fmt.Sprintf("the %s (%s) is the approval", rule, rule.Digest.Short())
		return verdict
	}
	if !NeedsApproval(f) || f.Approved {
		return intent.Passed("approval", f.ApprovedUntil)
	}
	reason := f.Marked
	if f.Plan.Destructive() {
		reason = "destructive: " + destruction(f.Plan)
	}
	if f.IsFound {
		reason += fmt.Sprintf("; the %s does not approve it: the preview %s did not make what is there", f.Rule, f.Rule.Preview)
	} else if f.Rule != nil {
		reason += fmt.Sprintf("; the %s approves only that the asset's own thing is removed", f.Rule)
	}
	return intent.Waits("approval", intent.WaitingOn{
		Kind: intent.WaitApproval, Approve: true,
		Reason: fmt.Sprintf("needs %s of plan %s (%s). \"lehr approve %s --plan %s --reason WHY\" gives it", f.lacks(), f.reading(), reason, f.Asset, f.reading()),
	})
}

// reading names the plan and its content, as people name them.
func (f Facts) reading() string { return intent.Reading(f.Effective, f.Plan.Digest()).Short() }

// lacks says whose approval a plan needs.
func (f Facts) lacks() string {
	switch c := f.Consent; {
	case c.Need > 1:
		return fmt.Sprintf("the approval (%s)", c.Words())
	case len(c.Authors) > 0:
		return fmt.Sprintf("the approval of a person other than %s", intent.Listed(c.Authors))
	default:
		return "a person's approval"
	}
}

// destruction names what the plan destroys, at most three fields of it.
func destruction(plan intent.Plan) string {
	var paths []string
	for _, change := range plan.Changes {
		if change.Destructive {
			paths = append(paths, change.Path)
		}
	}
	const most = 3
	if len(paths) > most {
		paths = append(paths[:most], fmt.Sprintf("and %d more", len(paths)-most))
	}
	if len(paths) == 0 {
		return string(plan.Action)
	}
	return string(plan.Action) + " of " + strings.Join(paths, ", ")
}

// retry waits while a failed push backs off or a fight goes on.
func retry(f Facts) intent.Verdict {
	if f.Retry == nil || intent.Expired(f.Retry.Until, f.Now) {
		return intent.Passed("retry", time.Time{})
	}
	return intent.Waits("retry", *f.Retry)
}
