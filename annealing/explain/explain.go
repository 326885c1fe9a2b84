// Package explain answers "why is this asset not as I want it?": from stored
// reports and the partition's state it builds the tree of reasons down to the
// root cause. It is pure: values in, tree out; it reads no store and no
// clock, and decides nothing that the enforcer does. The server calls it.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/intent"
)

// MaxDepth bounds the chain of blockers that is followed.
const MaxDepth = 32

// Kinds of reason beyond those of package intent.
const (
	KindInSync   = "in-sync"
	KindPushing  = "pushing"
	KindOff      = "off"
	KindModel    = "model"
	KindGone     = "gone"
	KindNoAsset  = "no-asset"
	KindNoHead   = "no-head"
	KindNoReport = "no-report"
	KindOutdated = "outdated"
	KindCycle    = "cycle"
	KindDepth    = "depth"
	KindTold     = "told"
	// KindTurnedDown: the removal that it asks for is complete.
	KindTurnedDown = "turned-down"
	KindPin        = "pin"
	// KindApproved and KindOverride tell of what people let through.
	KindApproved  = "approved"
	KindOverride  = "override"
	KindUnhealthy = "unhealthy"
	KindHeld      = "candidate-held"
	KindRejected  = "candidate-rejected"
	KindSilent    = "not-acting"
	// KindUnbuilt: newer sources wait for their turn to be built.
	KindUnbuilt = "not-built-yet"
	// KindOldSource: a source is as it was read last.
	KindOldSource = "source-failing"
)

// Facts are all that the answer rests on.
type Facts struct {
	Asset     intent.AssetID
	Partition intent.PartitionID
	Head      intent.IncarnationID
	// Stop in force for the partition, its own or that of all.
	Stop *intent.Stop
	// Problem says what of the partition does not work in the server; empty:
	// all does.
	Problem string
	// Turn says since when the build of newer sources waits for its turn; empty:
	// it does not.
	Turn string
	// Reports of the asset and of whatever it waits on. One that is left out
	// was not written yet.
	Reports map[intent.AssetID]intent.Report
	// After lists, of assets whose difference is unknown, those that they come
	// after: what they cannot be looked at through may be one of these.
	After map[intent.AssetID][]intent.AssetID
	// Taken lists, by the scope of a budget, the assets whose pushes take its
	// places.
	Taken map[string][]intent.AssetID
	// Members of head among the assets asked for.
	Members map[intent.AssetID]intent.Member
	// Pins of those assets that have some.
	Pins map[intent.AssetID][]intent.Pin
	// Rollouts by name, each with its newest run.
	Rollouts map[string]intent.Rollout
	// Fields that open runs set for the asset asked for, by rollout.
	Fields map[string]string
	// Covered are the sources of head, with what fails of them.
	Covered []intent.SourceRevision
	// Blocked is the newest candidate, when it is held or rejected.
	Blocked *intent.Candidate
	// Approvers are who may approve plans of the partition, in words; none: it is
	// not known, or nobody asks for more than the local user.
	Approvers []string
	// Approvals of plans, where one is waited for.
	Approvals []intent.Approval
	// Owners of assets, where their Owner addon names one; Owner is the
	// partition's.
	Owners map[intent.AssetID]string
	Owner  string
	// Sweep is the longest pause between two looks at an asset.
	Sweep time.Duration
	Now   time.Time
	// Past: Now is over, and the reports are those that were kept of then.
	Past bool
}

// Reason is a node of the chain; its causes say why it is so.
type Reason struct {
	Kind string
	// Asset that it is said of; empty: the partition.
	Asset intent.AssetID
	Text  string
	Hint  string
	// Owner of the brake that is in the way: a hold, pin, stop, override or
	// rejection. Responsible is who owns the asset, or else the partition.
	Owner       string
	Responsible string
	Since       time.Time
	// Until is when it ends by itself, if that is known.
	Until time.Time
	// Next is when it is looked at again at the latest; zero: nobody looks.
	Next     time.Time
	Findings []intent.Finding
	Causes   []Reason
}

// Answer is the whole chain, the most decisive reason first.
type Answer struct {
	State    intent.State
	Standing Standing
	Reasons  []Reason
	// Root is the first leaf of the most decisive chain.
	Root Reason
	// Summary is the root cause in one line.
	Summary string
}

// Explain builds the chain for one asset.
func Explain(f Facts) Answer {
	answer := Answer{State: f.Reports[f.Asset].State, Standing: f.standing()}
	answer.Reasons = slices.Concat(f.partitionReasons(), f.assetReasons(f.Asset, newPath()), f.intentReasons())
	f.answerFor(answer.Reasons)
	order(answer.Reasons)
	answer.Root = root(answer.Reasons[0])
	answer.Summary = f.summary(answer)
	return answer
}

// partitionReasons are what keeps the whole partition from acting.
func (f Facts) partitionReasons() []Reason {
	var reasons []Reason
	if f.Stop != nil {
		reasons = append(reasons, f.stopReason())
	}
	if f.Problem != "" {
		reasons = append(reasons, Reason{
			Kind: KindSilent, Text: "not all of partition " + string(f.Partition) + " works: " + f.Problem,
			Hint: f.problemHint(),
		})
	}
	return reasons
}

// intentReasons are why the newest sources are not what is enforced.
func (f Facts) intentReasons() []Reason {
	var reasons []Reason
	if f.Blocked != nil {
		reasons = append(reasons, f.blockedReason())
	}
	if f.Turn != "" {
		reasons = append(reasons, Reason{
			Kind: KindUnbuilt, Text: "newer sources " + f.Turn,
			Hint: "the server's cores are shared: other partitions are built first",
		})
	}
	for _, r := range f.Covered {
		if r.Failing != (intent.Failing{}) {
			reasons = append(reasons, Reason{
				Kind: KindOldSource, Since: r.Failing.Since, Text: r.Failing.Text(r.Source),
				Hint: "it is tried again and again; what was read last is still served",
			})
		}
	}
	return reasons
}

// answerFor says who is responsible for what each reason is about.
func (f Facts) answerFor(reasons []Reason) {
	for i := range reasons {
		reasons[i].Responsible = cmp.Or(f.Owners[reasons[i].Asset], f.Owner)
		f.answerFor(reasons[i].Causes)
	}
}

// problemHint is that of the finding that the problem tells of, if there is one.
func (f Facts) problemHint() string {
	if f.Blocked != nil {
		for _, finding := range f.Blocked.Findings {
			if finding.Hint != "" && strings.Contains(f.Problem, finding.Message) {
				return finding.Hint
			}
		}
	}
	return "it is tried again by itself; the server's log tells more"
}

func (f Facts) stopReason() Reason {
	scope := "partition " + string(f.Stop.Partition) + " is"
	if f.Stop.Partition == "" {
		scope = "all partitions are"
	}
	since := ""
	if !f.Stop.Since.IsZero() {
		since = " " + f.ago(f.Stop.Since)
	}
	hint := f.Stop.Ending() + " lets pushes go on"
	if f.Stop.Adopt {
		hint = "look, and set again what is missing; then " + hint
	}
	return Reason{
		Kind: string(intent.WaitStop), Owner: f.Stop.Owner.Name, Since: f.Stop.Since, Hint: hint,
		Text: fmt.Sprintf("%s stopped by %s%s: %s", scope, name(f.Stop.Owner.Name), since, f.Stop.Reason),
	}
}

// blockedReason says why the newest sources are not served.
func (f Facts) blockedReason() Reason {
	held := f.Blocked.State == intent.CandidateHeld
	reason := Reason{Kind: KindRejected, Since: f.Blocked.Created, Findings: errorsOf(f.Blocked.Findings)}
	quarantined := held && len(reason.Findings) > 0 && reason.Findings[0].Rule == intent.RuleQuarantine
	what := "rejected"
	if held {
		reason.Kind, what = KindHeld, "held by a guard"
	}
	if quarantined {
		what = "quarantined"
	}
	goesOn := "nothing is served yet"
	if !f.Head.IsZero() {
		goesOn = f.Head.String() + " goes on being served"
	}
	reason.Text = fmt.Sprintf("the newest sources are not served: candidate %s was %s %s; %s",
		f.Blocked.ID, what, f.ago(f.Blocked.Created), goesOn)
	switch {
	case held && !quarantined:
		reason.Hint = fmt.Sprintf("if that is what you want: lehr approve --candidate %s; else mend the sources", f.Blocked.ID.Digest.Short())
	case len(reason.Findings) > 0 && reason.Findings[0].Hint != "":
		reason.Hint = reason.Findings[0].Hint
	default:
		reason.Hint = "mend the sources; lehr describe candidate " + f.Blocked.ID.Digest.Short() + " shows all findings"
	}
	return reason
}

// path says which waiting assets were told of: each is followed once, so that
// the tree stays as small as the reports.
type path struct {
	told map[intent.AssetID]bool
	// here are those from the asset asked for to this one.
	here []intent.AssetID
	// rollouts that were told of.
	rollouts []string
}

func newPath() *path { return &path{told: map[intent.AssetID]bool{}} }

// assetReasons are why one asset is as it is, with the chain of its blockers.
func (f Facts) assetReasons(asset intent.AssetID, told *path) []Reason {
	report, known := f.Reports[asset]
	if !known {
		return []Reason{f.withoutReport(asset)}
	}
	if report.State != intent.StateWaiting || len(report.Waiting) == 0 {
		return f.settled(report, told)
	}
	told.told[asset] = true
	told.here = append(told.here, asset)
	defer func() { told.here = told.here[:len(told.here)-1] }()
	var reasons []Reason
	for _, waiting := range report.Waiting {
		if waiting.Kind == intent.WaitStop && f.Stop != nil {
			if len(told.here) == 1 {
				continue // Told once, for the partition.
			}
			reasons = append(reasons, f.stopReason())
			continue
		}
		reason := f.waitingReason(report, waiting)
		blockers := waiting.Blockers
		if waiting.Kind == intent.WaitUnknown && len(blockers) == 0 {
			blockers = f.troubledBefore(asset)
		}
		if waiting.Kind == intent.WaitBudget && len(blockers) == 0 {
			blockers = f.Taken[waiting.Scope]
		}
		for _, blocker := range blockers {
			reason.Causes = append(reason.Causes, f.blockerReason(blocker, told)...)
		}
		if rollout := f.KeptBy(asset); rollout != "" && waiting.Kind == intent.WaitNotSelected {
			reason.Causes = append(reason.Causes, f.rolloutReason(rollout, asset, told))
		}
		if restsOnIntent(waiting, reason.Causes) {
			reason.Hint = cmp.Or(intentHint(report, waiting, reason.Causes), reason.Hint)
		}
		reasons = append(reasons, reason)
	}
	reasons = append(reasons, f.consentOf(report)...)
	if pin := f.pinOf(report); pin != nil {
		reasons = append(reasons, *pin)
	}
	return reasons
}

// troubledBefore are the assets that one comes after and that wait themselves.
func (f Facts) troubledBefore(asset intent.AssetID) []intent.AssetID {
	var troubled []intent.AssetID
	for _, before := range f.After[asset] {
		if f.Reports[before].State == intent.StateWaiting {
			troubled = append(troubled, before)
		}
	}
	return troubled
}

func (f Facts) blockerReason(blocker intent.AssetID, told *path) []Reason {
	at := slices.Index(told.here, blocker)
	switch {
	case at >= 0:
		return []Reason{f.cycle(told.here[at:])}
	case told.told[blocker]:
		return []Reason{{Kind: KindTold, Asset: blocker, Text: string(blocker) + " waits, as told above"}}
	case len(told.here) > MaxDepth:
		return []Reason{{Kind: KindDepth, Asset: blocker, Text: fmt.Sprintf("the chain goes on beyond %d assets", MaxDepth), Hint: "lehr why " + string(blocker) + " follows it from there"}}
	}
	return f.assetReasons(blocker, told)
}

// cycle says that assets wait for each other, and for which pin.
func (f Facts) cycle(ring []intent.AssetID) Reason {
	names := make([]string, len(ring))
	for i, asset := range ring {
		names[i] = string(asset)
	}
	reason := Reason{Kind: KindCycle, Asset: ring[0], Hint: "take one of the dependencies away"}
	reason.Text = intent.Listed(names) + " wait for each other"
	if len(ring) == 1 {
		reason.Text = names[0] + " waits for itself"
	}
	for _, asset := range ring {
		if pin := f.pinOf(f.Reports[asset]); pin != nil {
			reason.Text += fmt.Sprintf(", and %s is %s", asset, pin.Text)
			reason.Hint, reason.Owner, reason.Since, reason.Until = pin.Hint, pin.Owner, pin.Since, pin.Until
		}
	}
	return reason
}

// waitingReason puts one entry of a report into words.
func (f Facts) waitingReason(report intent.Report, waiting intent.WaitingOn) Reason {
	reason := Reason{
		Kind: string(waiting.Kind), Asset: report.Asset, Text: waiting.Reason,
		Hint: hintFor(report, waiting), Owner: waiting.Owner, Since: report.At, Until: waiting.Until,
		Next: f.next(report, waiting),
	}
	if intent.Expired(reason.Until, f.Now) {
		reason.Until = time.Time{} // Each look sets another, which a report need not tell.
	}
	if waiting.Kind == intent.WaitApproval {
		reason.Text += f.ended(report)
		if len(f.Approvers) > 0 {
			reason.Text += ". Approvers: " + strings.Join(f.Approvers, ", ")
		}
	}
	return reason
}

// ended tells of approvals of the plan that ended before they were used.
func (f Facts) ended(report intent.Report) string {
	text := ""
	for _, a := range f.Approvals {
		if a.Asset == report.Asset && a.Plan == report.PlanDigest && a.Effective == report.Effective && a.UsedBy == "" && intent.Expired(a.Until, f.Now) {
			text += fmt.Sprintf(". The approval by %s ended %s, unused", name(a.By.Name), f.ago(a.Until))
		}
	}
	return text
}

// next is when the asset is looked at again at the latest. A report tells what was
// planned when it was written; where nothing new is found, it is not written again.
func (f Facts) next(report intent.Report, waiting intent.WaitingOn) time.Time {
	if f.Problem != "" {
		return time.Time{}
	}
	next := f.Now.Add(f.Sweep)
	for _, sooner := range []time.Time{report.Next, waiting.Until} {
		if sooner.After(f.Now) && sooner.Before(next) {
			next = sooner
		}
	}
	return next
}

// settled tells of an asset that waits for nothing.
func (f Facts) settled(report intent.Report, told *path) []Reason {
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
		reason.Kind, reason.Text = KindModel, fmt.Sprintf("type %s is a model: no plugin serves it, and none should", report.Type)
		reason.Hint = "bind the type to a plugin in lehr.yaml to have it enforced"
	case intent.StateGone:
		if report.Absent {
			reason.Kind, reason.Text = KindGone, fmt.Sprintf("it was turned down, and %s does not name it any more: nothing of it is left", report.Target)
			break
		}
		reason.Kind, reason.Text = KindGone, fmt.Sprintf("%s does not name it any more; production keeps what it has: an orphan, if it was enforced", report.Target)
		reason.Hint = "lehr get orphans lists what is left in production; to have it enforced again, restore it in the sources; to have it gone, restore it there with a Turndown"
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
	reasons = append(reasons, f.consentOf(report)...)
	switch {
	case report.Health.IsAfterPush():
		reasons = append(reasons, Reason{
			Kind: KindUnhealthy, Asset: report.Asset, Text: report.Health.Reason,
			Hint: "until it passes it counts as unhealthy, and what comes after it waits; lehr override " + string(report.Asset) + " --check NAME lets it pass, where policy allows that",
		})
	case report.Health.State == intent.Unhealthy:
		reasons = append(reasons, Reason{Kind: KindUnhealthy, Asset: report.Asset, Text: "its plugin says that it is unhealthy: " + report.Health.Reason})
	}
	if behind := f.behindReason(report, told); behind != nil {
		reasons = append(reasons, *behind)
	} else if pin := f.pinOf(report); pin != nil {
		reasons = append(reasons, *pin)
	}
	return append(reasons, f.fieldReasons(report, told)...)
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
			Text: fmt.Sprintf("plan %s is approved, once: %s", report.PlanDigest.Short(), c.Words()),
		})
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
