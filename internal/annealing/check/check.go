// Package check holds the pure rules that say whether an asset may be pushed
// now. A check takes facts and returns a verdict; it delays, never rejects.
// Every check answers, so that a report names every blocker. Nothing here
// reads a clock, a store or the network; the enforcer gathers the facts.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Facts are everything that the checks look at for one asset.
type Facts struct {
	Now   time.Time
	Asset intent.AssetID
	// Mode in force: "enforce", "observe" or "off".
	Mode Mode
	// Modes are the places that set a mode which is not enforce.
	Modes []intent.ModePlace
	// Stop in force for the partition, if any.
	Stop *intent.Stop
	// Verification that is under way in an environment of the asset; nil: none is. Head is the
	// partition's.
	Verification *intent.Verification
	Head         intent.IncarnationID
	// Hold on the asset, if any; expired ones are ignored.
	Hold *intent.Hold
	// Plan that a push would carry out, and the content that it would bring about.
	Plan      intent.Plan
	Effective intent.Digest
	// Marked says why the asset needs approval for every push; empty: only
	// destructive plans do.
	Marked string
	// Consent is how far the approval of this very plan has come, of approvals
	// that were not used yet. Approved: enough people gave theirs.
	Consent  intent.Consent
	Approved bool
	// ApprovedUntil is when that approval ends; zero: never.
	ApprovedUntil time.Time
	// Rule is a reviewed rule that is the approval of the removal that the asset's Turndown
	// asks for; nil: none is.
	Rule *intent.RuleApproval
	// IsFound: the rule is one of previews, and Lehr did not create what is there for the asset.
	IsFound bool
	// Rejections of this very plan; ended ones are ignored.
	Rejections []intent.Rejection
	// Overrides of checks of this content; ended ones are ignored. Allowed are
	// the checks that policy lets a person override.
	Overrides []intent.Override
	Allowed   []string
	// Order lists the assets that must be in sync first.
	Order []Neighbour
	// Capacity and Version list the edges of these rules, both those that the
	// asset declares and those that others declare to it.
	Capacity []Supply
	Version  []Need
	// Beside are further assets that must not be pushed while this one is
	// admitted.
	Beside []intent.AssetID
	// Turndown is set when the target asks for the removal of the real thing.
	Turndown *Turndown
	// Missing are the outputs of other assets that the content asks for and nobody told.
	Missing []MissingOutput
	// Retry is set while a failed push backs off, or a fight is on.
	Retry *intent.WaitingOn
	// Back: the push takes the asset back to what it was before. Only checks of policy
	// that hold rollbacks hold it.
	Back bool
	// Checks that policy asks of this asset beside the built-in ones. Content at
	// the target and Origin of that are set where one of them looks at it. Health
	// is that of the real thing.
	Checks  []Required
	Content intent.Asset
	Origin  Origin
	Health  intent.Health
	// Windows are those that a push of the asset counts in, of the rate limits
	// among Checks.
	Windows []Window
	// Others are the partitions that Checks ask about.
	Others map[intent.PartitionID]Other
	// Trains has the train of each environment that Checks ask about.
	Trains map[Environment]Train
	// Answers from outside, by question, and what of the asset those checks look
	// at that ask.
	Answers map[Question]Answer
	Own     map[*Configured]Own
	// Stopped are, by the name of the check, the questions of protections that
	// stopped the last push of this content while it was under way.
	Stopped map[string]Question
}

// Mode of enforcement.
type Mode string

const (
	Off     Mode = "off"
	Observe Mode = "observe"
	Enforce Mode = "enforce"
)

// Rule is one check.
type Rule struct {
	Name  string
	Judge func(Facts) intent.Verdict
}

// Rules are the built-in checks, the most decisive first.
func Rules() []Rule {
	return []Rule{
		{"stop", stop},
		{"mode", mode},
		{"hold", hold},
		{"verification", verification},
		{"turndown", turndown},
		{"output", output},
		{"order", order},
		{"capacity", capacity},
		{"version", version},
		{"approval", approval},
		{"retry", retry},
	}
}

var builtIn = len(Rules())

// Decision is what the rules say together.
type Decision struct {
	Verdicts []intent.Verdict
}

// Decide asks every rule, and every check that policy asks of the asset.
func Decide(facts Facts) Decision {
	rules := Rules()
	decision := Decision{Verdicts: make([]intent.Verdict, 0, len(rules)+len(facts.Checks))}
	for _, rule := range rules {
		decision.Verdicts = append(decision.Verdicts, facts.overridden(rule.Judge(facts)))
	}
	for _, configured := range facts.Checks {
		decision.Verdicts = append(decision.Verdicts, facts.overridden(facts.configured(configured)))
	}
	return decision
}

// Push reports whether every check passes. No checks is not a pass (S1).
func (d Decision) Push() bool {
	return len(d.Verdicts) > 0 && !slices.ContainsFunc(d.Verdicts, func(v intent.Verdict) bool { return v.Answer != intent.Pass })
}

// Passed names the checks that pass by themselves.
func (d Decision) Passed() []string {
	var names []string
	for _, v := range d.Verdicts {
		// Two policies may have checks of one name.
		if v.Answer == intent.Pass && v.Override == nil && !v.PassedOver && v.Observed == nil && !slices.Contains(names, v.Check) {
			names = append(names, v.Check)
		}
	}
	return names
}

// PassedOver names the checks that would not pass, and do not hold what goes back.
func (d Decision) PassedOver() []string {
	var names []string
	for _, v := range d.Verdicts {
		if v.PassedOver && !slices.Contains(names, v.Check) {
			names = append(names, v.Check)
		}
	}
	return names
}

// Waiting lists what is in the way, the most decisive first: of the checks that policy
// asks, what does not end by itself, then what ends last.
func (d Decision) Waiting() []intent.WaitingOn {
	var waiting []intent.WaitingOn
	configured := 0
	for i, v := range d.Verdicts {
		if v.Answer != intent.Pass {
			waiting = append(waiting, v.Waiting)
			if i < builtIn {
				configured = len(waiting)
			}
		}
	}
	slices.SortStableFunc(waiting[configured:], func(a, b intent.WaitingOn) int {
		return cmp.Or(cmp.Compare(decisive(a), decisive(b)), b.Until.Compare(a.Until))
	})
	return waiting
}

// decisive is less for what decides more.
func decisive(w intent.WaitingOn) int {
	switch {
	case w.Kind == intent.WaitTurn: // It is asked, and answers in a moment.
		return 2
	case !w.Until.IsZero():
		return 1
	}
	return 0
}

// ValidUntil is when the first pass ends; zero: when something changes.
func (d Decision) ValidUntil() time.Time {
	var end time.Time
	for _, v := range d.Verdicts {
		if !v.Until.IsZero() && (end.IsZero() || v.Until.Before(end)) {
			end = v.Until
		}
	}
	return end
}

func stop(f Facts) intent.Verdict {
	if f.Stop == nil {
		return intent.Passed("stop", time.Time{})
	}
	if f.Stop.Adopt || f.Stop.Unwitnessed {
		return intent.Waits("stop", intent.WaitingOn{Kind: intent.WaitStop, Owner: f.Stop.Owner.Name, Reason: f.Stop.Reason})
	}
	scope := "everything"
	if f.Stop.Partition != "" {
		scope = "partition " + string(f.Stop.Partition)
	}
	return intent.Waits("stop", intent.WaitingOn{
		Kind:  intent.WaitStop,
		Owner: f.Stop.Owner.Name,
		Reason: fmt.Sprintf("%s stopped %s at %s: %s. %q ends it",
			f.Stop.Owner.Name, scope, f.Stop.Since.UTC().Format(time.RFC3339), f.Stop.Reason, f.Stop.Ending()),
	})
}

func mode(f Facts) intent.Verdict {
	if f.Mode == Enforce {
		return intent.Passed("mode", time.Time{})
	}
	reason := fmt.Sprintf("the mode is %s", f.Mode)
	for i, place := range f.Modes {
		reason += []string{", by ", " and "}[min(i, 1)] + place.Words()
	}
	return intent.Waits("mode", intent.WaitingOn{
		Kind: intent.WaitMode, Modes: f.Modes,
		Reason: reason + ": differences are shown, nothing is pushed",
	})
}

func hold(f Facts) intent.Verdict {
	if f.Hold == nil || intent.Expired(f.Hold.Until, f.Now) {
		return intent.Passed("hold", time.Time{})
	}
	return intent.Waits("hold", intent.WaitingOn{
		Kind:   intent.WaitHold,
		Owner:  f.Hold.Owner.Name,
		Until:  f.Hold.Until,
		Reason: fmt.Sprintf("%s holds it since %s: %s", f.Hold.Owner.Name, f.Hold.Created.UTC().Format(time.RFC3339), f.Hold.Reason),
	})
}
