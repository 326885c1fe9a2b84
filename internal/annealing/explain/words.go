package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// order puts what people must act on first. The enforcer's own order is kept
// among equals.
func order(reasons []Reason) {
	slices.SortStableFunc(reasons, func(a, b Reason) int { return cmp.Compare(weight(a), weight(b)) })
}

func weight(r Reason) int {
	switch r.Kind {
	case string(intent.WaitStop):
		return 0
	case KindSilent:
		return 1
	case KindHeld, KindRejected, KindOldSource, KindUnbuilt:
		return 3
	case KindInSync, KindTurnedDown, KindGone, KindNoAsset, KindNoHead:
		// The cause may be that the newest sources are not served.
		return 4
	case KindPin, KindApproved, KindOverride, KindPassedOver, KindObserved:
		return 5
	case KindPreview:
		return 6
	default:
		return 2
	}
}

// root is the first leaf below the most decisive reason. A blocker that is as
// intent says is no cause, nor is its good health; the pin that keeps it from
// serving or declaring more is. That two assets which cannot be judged are
// judged by each other is no cycle.
func root(r Reason) Reason {
	order(r.Causes)
	switch {
	case len(r.Causes) == 0:
		return r
	case isAsIntentSays(r.Causes[0]):
		if pin := pinAmong(r); pin >= 0 {
			return r.Causes[pin]
		}
		return r
	case r.Kind == string(intent.WaitCheckBroken) && r.Causes[0].Kind == KindCycle:
		return r
	default:
		return root(r.Causes[0])
	}
}

// pinAmong finds the pin that keeps what is waited for as it is; -1: none does.
func pinAmong(r Reason) int {
	if r.Kind != string(intent.WaitCapacity) && r.Kind != string(intent.WaitVersion) {
		return -1
	}
	return slices.IndexFunc(r.Causes, func(c Reason) bool { return c.Kind == KindPin })
}

func isAsIntentSays(r Reason) bool {
	return r.Kind == KindInSync || r.Kind == KindTurnedDown || !isCompared(r)
}

// isCompared reports whether a plugin compares it with production.
func isCompared(r Reason) bool { return r.Kind != KindModel && r.Kind != KindUnserved }

// restsOnIntent reports whether an asset waits for others that do not move:
// they are as intent says.
func restsOnIntent(waiting intent.WaitingOn, causes []Reason) bool {
	return len(waiting.Blockers) > 0 && !slices.ContainsFunc(causes, func(r Reason) bool {
		return !isAsIntentSays(r) && r.Kind != KindPin && r.Kind != KindApproved && r.Kind != KindOverride && r.Kind != KindPassedOver && r.Kind != KindObserved && r.Kind != KindUnhealthy
	})
}

// intentHint says what to change where two assets are asked for what does not
// go together.
func intentHint(report intent.Report, waiting intent.WaitingOn, causes []Reason) string {
	blockers := string(waiting.Blockers[0])
	if more := len(waiting.Blockers) - 1; more > 0 {
		blockers += fmt.Sprintf(" and %d more", more)
	}
	if pin := slices.IndexFunc(causes, func(r Reason) bool { return r.Kind == KindPin }); pin >= 0 {
		return causes[pin].Hint
	}
	switch waiting.Kind {
	case intent.WaitCapacity, intent.WaitVersion:
		return fmt.Sprintf("nothing is under way that would end this: what the sources ask of %s and of %s does not go together; change one of them", report.Asset, blockers)
	case intent.WaitTurndown:
		if !slices.ContainsFunc(causes, func(r Reason) bool { return isCompared(r) }) {
			return fmt.Sprintf("nothing is under way that would end this: take the reference to %s out of %s, or %s out of the sources: no plugin removes what none serves", report.Asset, blockers, blockers)
		}
		return fmt.Sprintf("nothing is under way that would end this: take the dependency on %s out of %s, or turn that down too", report.Asset, blockers)
	default:
		return ""
	}
}

// summary is the root cause in one line.
func (f Facts) summary(a Answer) string {
	cause := a.Root
	text := cause.Text
	if len(cause.Findings) > 0 {
		text += ": " + inLine(cause.Findings[0])
	}
	if via := throughRollout(a.Reasons[0]); via != "" && cause.Kind != KindRollout {
		return fmt.Sprintf("%s is not let go on: %s: %s: %s", f.Asset, via, cause.Asset, text)
	} else if via != "" {
		return fmt.Sprintf("%s is not let go on: %s", f.Asset, text)
	}
	if cause.Asset != "" && cause.Asset != f.Asset {
		return fmt.Sprintf("%s waits for %s: %s", f.Asset, cause.Asset, text)
	}
	if cause.Asset == "" {
		return text
	}
	switch cause.Kind {
	case KindNoAsset:
		return text
	case KindInSync, KindTurnedDown, KindOutput, KindPushing, KindOff, KindModel, KindUnserved, KindGone, KindNoHead, KindNoReport, KindOutdated, KindPin, KindUnhealthy:
		return fmt.Sprintf("%s: %s", f.Asset, text)
	default:
		return fmt.Sprintf("%s waits (%s): %s", f.Asset, cause.Kind, text)
	}
}

// override is the command that lets a check pass; empty: one that is not known.
func override(asset, check string) string {
	return "lehr override " + asset + " --check " + cmp.Or(check, "NAME") + " --reason WHY"
}

// modeHint says what to change where an asset is to be pushed, in each place that sets a
// mode which keeps it from that.
func modeHint(asset string, places []intent.ModePlace) string {
	var changes []string
	for _, place := range places {
		switch place {
		case intent.ModeOfPartition:
			changes = append(changes, "set \"mode: enforce\" in lehr.yaml")
		case intent.ModeOfType:
			changes = append(changes, "set its type to enforce under \"modes\" in lehr.yaml")
		case intent.ModeOfAsset:
			changes = append(changes, "take its addon Mode away, or have it say enforce: lehr describe asset "+asset+" shows it, lehr blame "+asset+" where it is written")
		}
	}
	if len(changes) == 0 { // A report of a time when places were not told.
		return "if it is to be pushed: lehr describe asset " + asset + " and \"mode\" in lehr.yaml say what keeps it from that"
	}
	return "if it is to be pushed: " + strings.Join(changes, "; and ")
}

// hintFor says what a person can do about one entry of a report, for each kind.
func hintFor(report intent.Report, waiting intent.WaitingOn) string {
	asset := string(report.Asset)
	switch waiting.Kind {
	case intent.WaitStop:
		return "lehr get stops says who stopped it, and what ends that"
	case intent.WaitMode:
		return modeHint(asset, waiting.Modes)
	case intent.WaitHold:
		return "lehr unhold " + asset + " --reason WHY lets it be pushed"
	case intent.WaitVerification:
		return "nothing to do: it goes on when the verification has ended; lehr get environments shows it"
	case intent.WaitOrder, intent.WaitCapacity, intent.WaitVersion, intent.WaitTurndown:
		if len(waiting.Blockers) > 0 {
			return "it goes on by itself once that has moved: lehr why " + string(waiting.Blockers[0])
		}
		return "lehr describe asset " + asset + " shows what it depends on"
	case intent.WaitApproval:
		if report.PlanDigest.IsZero() {
			return "lehr describe report " + asset + " shows the plan"
		}
		return fmt.Sprintf("lehr describe report %s shows the plan; lehr approve %s --plan %s --reason WHY allows it once", asset, asset, report.Reading().Short())
	case intent.WaitOutput:
		if len(waiting.Elsewhere) > 0 {
			return fmt.Sprintf("it goes on by itself once that is told and granted: lehr why %s -p %s; lehr document get outputs -p %s shows what is told", waiting.Elsewhere[0], waiting.Partition, waiting.Partition)
		}
		return "it goes on by itself once that is told; lehr document get outputs shows what is. Where no plugin serves what is to tell it: lehr document set outputs /ASSET/NAME=VALUE --reason WHY, with ~1 for / in ASSET"
	case intent.WaitRejected:
		return fmt.Sprintf("lehr reject %s --withdraw takes it back, with --of %s for an operator; another plan is not rejected", asset, waiting.Owner)
	case intent.WaitAge:
		return "nothing is wrong: it goes on by itself when that time is over"
	case intent.WaitDenied:
		return "change the sources to another version, or the denylist in lehr.yaml"
	case intent.WaitCondition:
		return "it goes on by itself once that is so; the condition is in lehr.yaml, under checks"
	case intent.WaitPluginMissing:
		return "bind its type to a plugin again, under plugins in lehr.yaml"
	case intent.WaitPlugin:
		return "see whether the plugin runs; the server's log holds what it wrote"
	case intent.WaitUnknown:
		return "the reason is what its plugin says of production; it is asked again and again, and the server's log holds what it wrote"
	case intent.WaitPending:
		return "nothing to do: no push hastens it, and it is looked at again when it may be over; a rollout counts it against its patience"
	case intent.WaitBackoff:
		return "lehr get pushes --asset " + asset + " shows how the pushes ended; lehr retry " + asset + " --reason WHY tries now"
	case intent.WaitNoEffect:
		return "look whether the plugin writes what it reads: something may change it back at once; lehr retry " + asset + " --reason WHY tries now"
	case intent.WaitQuarantined:
		return "mend the asset, or the plugin: the server's log holds what it wrote; lehr retry " + asset + " --reason WHY tries now"
	case intent.WaitMissing:
		return "put it back into the sources, or take the dependency on it out of " + asset
	case intent.WaitSettling:
		return "nothing to do: it goes on by itself once that push can be running no more; lehr get pushes --asset " + asset + " lists it"
	case intent.WaitFlapping:
		return "find what else writes it; lehr hold " + asset + " --reason WHY lets the other one have it meanwhile"
	case intent.WaitCheckBroken:
		return "nothing is pushed until that can be told: mend what is asked; where policy allows, " + override(asset, waiting.Check) + " lets it pass"
	case intent.WaitProtection:
		return "it goes on by itself once the protection passes; where policy allows, " + override(asset, waiting.Check) + " lets it pass"
	case intent.WaitCheckConfig:
		return "mend the check in lehr.yaml, or have whoever runs the server allow what it asks, in the file of --external-checks"
	case intent.WaitTarget:
		return "lehr unpin " + asset + " --reason WHY lets it follow the newest again; what cannot be read is told in the server's log"
	case intent.WaitBudget:
		return "nothing is wrong: it goes on by itself when a place is free; lehr get reports --state pushing lists who takes the places"
	case intent.WaitCalendar:
		return "lehr get windows " + asset + " lists when pushes may begin"
	case intent.WaitMetric:
		return "it goes on by itself once what is measured is within its limits; the query is in lehr.yaml, under checks"
	case intent.WaitRate:
		return "nothing is wrong: it goes on by itself at that time; lehr get pushes --asset " + asset + " lists what was under way"
	case intent.WaitPartition:
		return "it goes on by itself once that partition is so; lehr why --partition " + cmp.Or(string(waiting.Partition), "NAME") + " says what it waits for itself"
	case intent.WaitTrain:
		return "bring production there yourself, and the train goes on; where policy allows, " + override(asset, waiting.Check) + " has Lehr push it"
	case intent.WaitPlan:
		return "nothing is in the way"
	case intent.WaitAlert:
		return "an alert that is silenced in Alertmanager does not count, unless the check says that it does"
	case intent.WaitPeak:
		return "it is pushed when less is asked of it; or the sources keep more"
	case intent.WaitClaim:
		return "one of the two must go, or name another resource"
	case intent.WaitStale:
		return "nothing to do: it is looked at again at once"
	case intent.WaitStore:
		return "free space for the store's file"
	case intent.WaitTurn:
		return "nothing is wrong: it goes on by itself in its turn; lehr get reports --state pushing lists what is before it"
	case intent.WaitGeneration:
		return "lehr get candidates shows why the newest sources are not served"
	case intent.WaitNotSelected:
		return "nothing is wrong by itself: its turn is to come, and its rollout says when"
	default:
		return ""
	}
}

func errorsOf(findings []intent.Finding) []intent.Finding {
	var errors []intent.Finding
	for _, f := range findings {
		if f.Severity != intent.Warning {
			errors = append(errors, f)
		}
	}
	return errors
}

func note(report intent.Report) string {
	if report.PushNote != "" {
		return report.PushNote
	}
	return string(report.Push)
}

func name(owner string) string {
	return cmp.Or(owner, "somebody")
}

// ago renders how long before now a moment was.
func (f Facts) ago(at time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	switch d := f.Now.Sub(at); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm ago", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

// inLine is a finding in one line.
func inLine(f intent.Finding) string {
	text := location(f) + f.Message
	if f.Alike > 0 {
		text += fmt.Sprintf(" (%s)", intent.OthersText(f.Alike, nil))
	}
	return text
}

// location is the place a finding names, as "file:line: field: ".
func location(f intent.Finding) string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	if place != "" {
		place += ": "
	}
	if f.Field != "" && !strings.Contains(f.Message, f.Field) {
		place += f.Field + ": "
	}
	return place
}
