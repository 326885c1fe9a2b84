package promotion

import (
	"fmt"
	"strings"
	"time"
)

// Words says for people what keeps a version out of an environment, or that it is there: all
// constraints that do not let it in, and when it can be there. Programs read the explanation.
func (x *Explanation) Words(version, environment string) string {
	at := func(moment time.Time) string { return moment.UTC().Format("Mon 2006-01-02 15:04 UTC") }
	switch {
	case x.Task && x.State == Current:
		return fmt.Sprintf("%s has run for %s, which it began at %s", environment, version, at(x.Estimate.At))
	case x.Task && x.State == Deploying:
		return fmt.Sprintf("%s runs for %s since %s", environment, version, at(x.Estimate.At))
	}
	switch x.State {
	case Current:
		return fmt.Sprintf("%s is in %s since %s", version, environment, at(x.Estimate.At))
	case Deploying:
		return fmt.Sprintf("%s came to %s at %s, where not all is good with it yet", version, environment, at(x.Estimate.At))
	}
	text := fmt.Sprintf("%s is not in %s: %s", version, environment, x.reason())
	if x.Task {
		text = fmt.Sprintf("%s does not run for %s: %s", environment, version, x.reason())
	}
	if x.Estimate.At.IsZero() {
		return text + ". It does not come by itself"
	}
	text += ". It can be there " + at(x.Estimate.At) + " at the earliest"
	if len(x.Estimate.Awaits) > 0 {
		var names []string
		for _, awaited := range x.Estimate.Awaits {
			names = append(names, awaited.Name+" of "+awaited.Environment)
		}
		verb := " says yes"
		if len(names) > 1 {
			verb = " say yes"
		}
		text += ", if " + strings.Join(names, " and ") + verb
	}
	return text
}

// Reason says for people why the environment does not have the version; empty: it has it.
func (x *Explanation) Reason() string {
	if x.State == Current || x.State == Deploying {
		return ""
	}
	return x.reason()
}

// reason of a version that is not what the environment has.
func (x *Explanation) reason() string {
	switch x.State {
	case Previous:
		if x.Task {
			return "it ran, or was to run, for it before"
		}
		return "it was there before"
	case Skipped:
		for _, v := range x.Verdicts {
			if v.Cause == InSkipped {
				return v.Words()
			}
		}
		return "something newer was there, or a person began with something newer"
	case Superseded:
		return "it was let in, and something newer came instead"
	case Withdrawn:
		return "its source has it no longer"
	case Unordered:
		return "it has no place in the order of versions, and comes only where it is pinned"
	case Vetoed:
		return badWords[x.Mark.Cause] + x.Mark.By
	case Failed:
		if x.Task {
			return fmt.Sprintf("it failed for it, %d times", x.Failure.Attempts)
		}
		return fmt.Sprintf("the environment did not converge with it, %d times", x.Failure.Attempts)
	}
	var parts []string
	for _, v := range x.Verdicts {
		if v.Status != Passes {
			parts = append(parts, v.Words())
		}
	}
	switch {
	case x.Pin != nil:
		parts = append(parts, fmt.Sprintf("%s pinned the environment to %s", x.Pin.By, x.Pin.Name))
	case x.Outcome.Hold != NoHold:
		parts = append(parts, holdWords[x.Outcome.Hold])
	}
	if len(parts) == 0 {
		return "it is let in, and comes next or after what is newer"
	}
	return strings.Join(parts, "; then ")
}

var badWords = map[BadCause]string{
	MarkedBad: "it was marked bad by ", RolledBackFrom: "it was known when the environment was rolled back by ",
	RolloutBad: "it was found bad by the rollout ", VerificationBad: "it was found bad by the verification ",
	RequestClosed: "people closed the pull request ", ReleaseAborted: "its release was aborted by ",
}

var holdWords = map[Hold]string{
	HeldByPause: "a person paused it", HeldByRollout: "a rollout holds the environment", HeldByVerification: "a verification is under way",
	HeldByTrouble: "the field cannot be edited", HeldByEdit: "somebody else set the field, and a person must say how it goes on",
	HeldByOrder: "what the environment has cannot be compared with it", HeldByBadPin: "what is pinned is bad or not known",
	HeldByConstraint: "what is pinned, or gone back to, is not let in", HeldForNothingGood: "what the environment has is bad, and nothing else was good there",
}

// Words say what a constraint waits for, with its numbers.
func (v Verdict) Words() string {
	if v.Application != "" && v.Cause != FirstUnreadable && v.Cause != WentBackThere {
		if v.Cause == FailedThere {
			return fmt.Sprintf("%s refuses it with release %d, for %s %s failed in %s", v.Constraint, v.Release, v.Application, v.Version, v.Environment)
		}
		if v.Cause == BadThere {
			return fmt.Sprintf("%s refuses it with release %d, for %s %s is bad in %s", v.Constraint, v.Release, v.Application, v.Version, v.Environment)
		}
		first := v
		first.Application, first.Constraint = "", v.Application+" "+v.Version
		return fmt.Sprintf("%s waits with release %d: %s", v.Constraint, v.Release, first.Words())
	}
	long := func(d time.Duration) string { return d.Round(time.Second).String() }
	left := fmt.Sprintf("%s of %s", long(v.HaveTime), long(v.NeedsTime))
	switch v.Cause {
	case Met:
		return v.Constraint + " lets it in"
	case Forced, PassedByHotfix:
		return fmt.Sprintf("%s is passed over, by %s: %s", v.Constraint, v.By, v.Reason)
	case NothingSelected:
		return fmt.Sprintf("%s waits for the environments of %s, and no asset selects one now", v.Constraint, v.Environment)
	case NotThere:
		return fmt.Sprintf("%s waits for %s, which never had it", v.Constraint, v.Environment)
	case NotGood:
		return fmt.Sprintf("%s waits for all to be good in %s", v.Constraint, v.Environment)
	case NotStable:
		return fmt.Sprintf("%s waits for %s, which was good with it for %s", v.Constraint, v.Environment, left)
	case Unverified:
		return fmt.Sprintf("%s waits for the verification %s of %s", v.Constraint, v.Reason, v.Environment)
	case BadThere:
		return fmt.Sprintf("%s refuses it, for it is bad in %s", v.Constraint, v.Environment)
	case NotAsked:
		if v.Needs == 1 {
			return v.Constraint + " waits for one person, who is asked when the constraints above let it in"
		}
		return fmt.Sprintf("%s waits for %d people, who are asked when the constraints above let it in", v.Constraint, v.Needs)
	case NeedsPeople:
		return fmt.Sprintf("%s waits for people, %d of %d have approved", v.Constraint, v.Have, v.Needs)
	case Rejected:
		return fmt.Sprintf("%s refuses it, for %s rejected it: %s", v.Constraint, v.By, v.Reason)
	case Closed:
		return fmt.Sprintf("%s is closed: %s", v.Constraint, v.Reason)
	case WindowFull:
		return fmt.Sprintf("%s waits for the next window, this one had %d of %d", v.Constraint, v.Have, v.Needs)
	case Young:
		return fmt.Sprintf("%s waits for its age, %s", v.Constraint, left)
	case AgeUnknown:
		return v.Constraint + " refuses it, for it is not known when it was made"
	case Denied:
		return fmt.Sprintf("%s refuses it: %s", v.Constraint, v.Reason)
	case NoResult:
		if v.Reason != "" {
			return fmt.Sprintf("%s asks, and gets no answer: %s", v.Constraint, v.Reason)
		}
		return v.Constraint + " waits for a verdict"
	case LineUnreadable:
		return fmt.Sprintf("%s waits for the line of releases %s, which is not there or does not list the application", v.Constraint, v.Reason)
	case NotReleased:
		return v.Constraint + " refuses it, for no release brings it"
	case InAborted:
		return fmt.Sprintf("%s refuses it, for %s aborted release %d: %s", v.Constraint, v.By, v.Release, v.Reason)
	case InSkipped:
		return fmt.Sprintf("%s refuses it, for %s skipped release %d: %s", v.Constraint, v.By, v.Release, v.Reason)
	case InHeld:
		return fmt.Sprintf("%s waits, for %s holds release %d: %s", v.Constraint, v.By, v.Release, v.Reason)
	case BehindHeld:
		return fmt.Sprintf("%s waits with release %d behind release %d, which %s holds: %s", v.Constraint, v.Release, v.Have, v.By, v.Reason)
	case FirstUnreadable:
		return fmt.Sprintf("%s waits with release %d for %s, which cannot be read", v.Constraint, v.Release, v.Application)
	case WentBackThere:
		return fmt.Sprintf("%s waits with release %d for %s %s, which went back in %s", v.Constraint, v.Release, v.Application, v.Version, v.Environment)
	case TooFarAhead:
		return fmt.Sprintf("%s waits for %s, which would be %d versions behind, and may be %d", v.Constraint, v.Environment, v.Have, v.Needs)
	case NotRun:
		return fmt.Sprintf("%s waits for the task %s, which has not run for it", v.Constraint, v.Environment)
	case Running:
		return fmt.Sprintf("%s waits for the task %s, which runs for it", v.Constraint, v.Environment)
	case TaskFailed:
		return fmt.Sprintf("%s refuses it, for the task %s failed for it", v.Constraint, v.Environment)
	case NotNext:
		return fmt.Sprintf("%s waits until it comes next in %s", v.Constraint, v.Environment)
	case NotGoodBefore:
		return fmt.Sprintf("%s waits until it is good in %s", v.Constraint, v.Environment)
	case NotFailedThere:
		return fmt.Sprintf("%s waits until it fails in %s", v.Constraint, v.Environment)
	case SaysNo:
		return fmt.Sprintf("%s says no for now: %s", v.Constraint, v.Reason)
	case ResultBad:
		return fmt.Sprintf("%s refuses it: %s", v.Constraint, v.Reason)
	}
	return v.Constraint + " is of a kind that is not known, and lets nothing in"
}
