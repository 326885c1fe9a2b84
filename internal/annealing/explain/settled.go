package explain

import (
	"fmt"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// settled tells of an asset that waits for nothing.
func (f Facts) settled(report intent.Report, p *path) []Reason {
	reason := Reason{Asset: report.Asset}
	switch report.State {
	case intent.StateInSync:
		if report.Absent {
			reason.Kind, reason.Text = KindTurnedDown, "it is turned down: nothing of it is there, as "+report.Target.String()+" asks (so reported "+f.ago(report.At)+")"
			if report.PushNote != "" {
				reason.Text += "; " + report.PushNote
			}
			reason.Hint = "it may leave the sources now"
			break
		}
		reason.Kind, reason.Text = KindInSync, "production is as "+report.Target.String()+" says (so reported "+f.ago(report.At)+")"
	case intent.StatePushing:
		reason.Kind, reason.Text = KindPushing, "a push is under way ("+note(report)+")"
	case intent.StateOff:
		reason.Kind, reason.Text = KindOff, "its mode is off: it is not looked at"
		reason.Hint = "set mode to observe or enforce in lehr.yaml, or change its Mode addon"
	case intent.StateModel:
		reason.Kind, reason.Text = KindModel, fmt.Sprintf("type %s is a model: it is compared with nothing", report.Type)
		reason.Hint = "bind the type to a plugin in lehr.yaml to have it enforced"
	case intent.StateUnserved:
		reason.Kind, reason.Text = KindUnserved, fmt.Sprintf("no plugin serves type %s: it is not looked at, and nothing is known of it in production", report.Type)
		reason.Hint = fmt.Sprintf("bind %s to a plugin under plugins in lehr.yaml; or, where it is only to be read, list it under models", report.Type)
	case intent.StateGone:
		if report.Absent {
			reason.Kind, reason.Text = KindGone, fmt.Sprintf("it was turned down, and %s does not name it any more: nothing of it is left", report.Target)
			break
		}
		reason.Kind, reason.Text = KindGone, fmt.Sprintf("%s does not name it any more; production keeps what it has: an orphan, if it was enforced", report.Target)
		if g := f.Generation; g != nil && report.Asset == f.Asset {
			reason.Text, reason.Hint = g.words(report)
			break
		}
		reason.Hint = fmt.Sprintf("lehr get orphans lists what is left in production; to have it enforced again, restore it in the sources; to have it gone: lehr turndown %s --reason WHY", report.Asset)
	default:
		reason.Kind, reason.Text = string(intent.WaitUnknown), "the last pass left no reason (report of "+f.ago(report.At)+")"
	}
	reasons := []Reason{reason}
	if member, ok := f.Members[report.Asset]; ok && report.State == intent.StateInSync &&
		report.Pinned == "" && member.Effective != report.Effective && !f.Past && f.KeptBy(report.Asset) == "" {
		reasons = []Reason{{
			Kind: KindOutdated, Asset: report.Asset, Hint: "look again in a moment",
			Text: fmt.Sprintf("%s changed it, and it was not looked at since; the last pass was %s", f.Head, f.ago(report.At)),
		}}
	}
	for _, problem := range report.OutputProblems {
		reasons = append(reasons, Reason{
			Kind: KindOutput, Asset: report.Asset, Text: problem.Reason, Until: problem.Until,
			Hint: outputHint(problem.Kind),
		})
	}
	reasons = append(reasons, f.consentOf(report)...)
	switch {
	case report.Health.IsAfterPush():
		reasons = append(reasons, Reason{
			Kind: KindUnhealthy, Asset: report.Asset, Text: report.Health.Reason,
			Hint: "until it passes it counts as unhealthy, and what comes after it waits; " + override(string(report.Asset), report.Health.Check) + " lets it pass, where policy allows that",
		})
	case report.Health.IsByAddon() && report.Health.State == intent.Unhealthy:
		reasons = append(reasons, Reason{Kind: KindUnhealthy, Asset: report.Asset, Text: "by its Health addon it is unhealthy: " + report.Health.Reason})
	case report.Health.IsByAddon() && report.Health.State != intent.Healthy:
		reasons = append(reasons, Reason{Kind: KindUnhealthy, Asset: report.Asset, Text: "its health is not known, and counts as unhealthy: " + report.Health.Reason})
	case report.Health.State == intent.Unhealthy:
		reasons = append(reasons, Reason{Kind: KindUnhealthy, Asset: report.Asset, Text: "its plugin says that it is unhealthy: " + report.Health.Reason})
	}
	if lag := f.behindReason(report, p); lag != nil {
		reasons = append(reasons, *lag)
	} else if pin := f.pinOf(report); pin != nil {
		reasons = append(reasons, *pin)
	}
	return append(reasons, f.fieldReasons(report, p)...)
}

func (f Facts) withoutReport(asset intent.AssetID) Reason {
	switch _, member := f.Members[asset]; {
	case f.Head.IsZero():
		return Reason{Kind: KindNoHead, Asset: asset, Text: "partition " + string(f.Partition) + " has no incarnation yet", Hint: "lehr get candidates shows what generation made of the sources"}
	case !member:
		return Reason{Kind: KindNoAsset, Asset: asset, Text: fmt.Sprintf("%s is not in %s", asset, f.Head), Hint: "lehr get assets lists what is"}
	case f.Past:
		return Reason{Kind: KindNoReport, Asset: asset, Text: "nothing that was in its way is kept of then: it was in sync, being pushed, or not looked at yet"}
	default:
		return Reason{Kind: KindNoReport, Asset: asset, Text: "it was not looked at yet", Hint: "look again in a moment; is a server running?"}
	}
}

// consentOf tells who approved the plan, where that is enough, and which checks
// are overridden: what is missing is told as what it waits for.
func (f Facts) consentOf(report intent.Report) []Reason {
	var reasons []Reason
	if c := report.Consent; c != nil && c.Reached() && !intent.Expired(c.Until, f.Now) {
		reasons = append(reasons, Reason{
			Kind: KindApproved, Asset: report.Asset, Until: c.Until,
			Text: fmt.Sprintf("plan %s is approved, once: %s", report.Reading().Short(), c.Words()),
		})
	}
	if len(report.PassedOver) > 0 {
		reasons = append(reasons, Reason{
			Kind: KindPassedOver, Asset: report.Asset,
			Text: "it goes back to what was before, so it does not wait for these checks, which do not pass: " + strings.Join(report.PassedOver, ", "),
		})
	}
	for _, w := range report.Observed {
		reasons = append(reasons, Reason{Kind: KindObserved, Asset: report.Asset, Owner: w.Owner, Until: w.Until, Text: "it does not wait for a common rule that is only observed: " + w.Reason})
	}
	for _, o := range report.Overrides {
		if o.InForce(f.Now) {
			reasons = append(reasons, Reason{
				Kind: KindOverride, Asset: report.Asset, Owner: o.By.Name, Since: o.Created, Until: o.Until,
				Text: fmt.Sprintf("the check %s is overridden by %s %s: %s", o.Check, name(o.By.Name), f.ago(o.Created), o.Reason),
			})
		}
	}
	return reasons
}

// pinOf tells of the pin that chose the target.
func (f Facts) pinOf(report intent.Report) *Reason {
	_, pin := intent.Target(f.Head, f.Pins[report.Asset], f.Now)
	if pin == nil && f.Past && report.Pinned != "" {
		return &Reason{Kind: KindPin, Asset: report.Asset, Text: report.Pinned}
	}
	if pin == nil || pin.Waits() {
		return nil // What waits to be let go on says so itself.
	}
	if rollout := pin.Rollout(); rollout != "" {
		return &Reason{
			Kind: KindPin, Asset: report.Asset, Owner: pin.Holder.Name, Since: pin.Created, Until: pin.Until,
			Text: fmt.Sprintf("kept at %s by the rollout %s %s: %s", pin.Incarnation, rollout, f.ago(pin.Created), pin.Reason),
			Hint: "lehr rollout status " + rollout + " says what it waits for",
		}
	}
	return &Reason{
		Kind: KindPin, Asset: report.Asset, Owner: pin.Holder.Name, Since: pin.Created, Until: pin.Until,
		Text: fmt.Sprintf("pinned to %s by %s %s: %s", pin.Incarnation, name(pin.Holder.Name), f.ago(pin.Created), pin.Reason),
		Hint: "lehr unpin " + string(report.Asset) + " --reason WHY lets it follow head (" + f.Head.String() + ")",
	}
}

// outputHint says what to do about an output that is not taken up.
func outputHint(kind intent.OutputProblemKind) string {
	switch kind {
	case intent.OutputChanging:
		return "let its plugin tell what stays the same while the real thing does; what asks for it keeps the value that the document outputs has"
	case intent.OutputUnsaved:
		return "lehr document get outputs shows what is there; let fewer assets tell fewer or shorter outputs"
	}
	return "let its plugin tell fewer or shorter outputs, and no secret: what is secret is a secret reference; what it told before stands"
}
