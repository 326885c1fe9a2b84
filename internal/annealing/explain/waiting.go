package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// path says which waiting assets were told of: each is followed once, so that
// the tree stays as small as the reports.
type path struct {
	visited map[intent.AssetID]bool
	// chain are those from the asset asked for to this one.
	chain []intent.AssetID
	// rollouts that were told of.
	rollouts []string
}

func newPath() *path { return &path{visited: map[intent.AssetID]bool{}} }

// assetReasons are why one asset is as it is, with the chain of its blockers.
func (f Facts) assetReasons(asset intent.AssetID, p *path) []Reason {
	report, hasReport := f.Reports[asset]
	if !hasReport {
		return []Reason{f.withoutReport(asset)}
	}
	if report.State != intent.StateWaiting || len(report.Waiting) == 0 {
		return f.settled(report, p)
	}
	p.visited[asset] = true
	p.chain = append(p.chain, asset)
	defer func() { p.chain = p.chain[:len(p.chain)-1] }()
	var reasons []Reason
	for _, waiting := range report.Waiting {
		if waiting.Kind == intent.WaitStop && f.Stop != nil {
			if len(p.chain) == 1 {
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
			reason.Causes = append(reason.Causes, f.blockerReason(blocker, p)...)
		}
		if stop, ok := f.Others[waiting.Partition]; ok && waiting.Kind == intent.WaitPartition {
			reason.Causes = append(reason.Causes, f.reasonOf(stop))
		}
		if rollout := f.KeptBy(asset); rollout != "" && waiting.Kind == intent.WaitNotSelected {
			reason.Causes = append(reason.Causes, f.rolloutReason(rollout, asset, p))
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
	for _, predecessor := range f.After[asset] {
		if f.Reports[predecessor].State == intent.StateWaiting {
			troubled = append(troubled, predecessor)
		}
	}
	return troubled
}

func (f Facts) blockerReason(blocker intent.AssetID, p *path) []Reason {
	at := slices.Index(p.chain, blocker)
	switch {
	case at >= 0:
		return []Reason{f.cycle(p.chain[at:])}
	case p.visited[blocker]:
		return []Reason{{Kind: KindTold, Asset: blocker, Text: string(blocker) + " waits, as told above"}}
	case len(p.chain) > MaxDepth:
		return []Reason{{Kind: KindDepth, Asset: blocker, Text: fmt.Sprintf("the chain goes on beyond %d assets", MaxDepth), Hint: "lehr why " + string(blocker) + " follows it from there"}}
	}
	return f.assetReasons(blocker, p)
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
		Next: f.next(report, waiting), Partition: waiting.Partition, Shared: f.sharedWait(report.Asset, waiting),
	}
	if startedAt := waiting.Since; !startedAt.IsZero() && startedAt.Before(report.At) {
		reason.Since = startedAt
	}
	if intent.Expired(reason.Until, f.Now) {
		reason.Until = time.Time{} // Each look sets another, which a report need not tell.
	}
	if waiting.Kind == intent.WaitApproval {
		reason.Text += f.expiredApprovals(report)
		if len(f.Approvers) > 0 {
			reason.Text += ". Approvers: " + strings.Join(f.Approvers, ", ")
		}
	}
	return reason
}

// expiredApprovals tells of approvals of the plan that ended before they were used.
func (f Facts) expiredApprovals(report intent.Report) string {
	text := ""
	for _, a := range f.Approvals {
		if a.Asset == report.Asset && a.Plan == report.PlanDigest && a.Effective == report.Effective && a.UsedBy == "" && intent.Expired(a.Until, f.Now) {
			text += fmt.Sprintf(". The approval by %s ended %s, unused", name(a.By.Name), f.ago(a.Until))
		}
	}
	return text
}

// next is when the asset is looked at again at the latest. A report tells what was
// planned when it was written, which may be beyond the sweep: after failures, and where a
// plugin asks for a pause. Where nothing new is found, it is not written again: once that
// time is over, the sweep counts.
func (f Facts) next(report intent.Report, waiting intent.WaitingOn) time.Time {
	if f.Problem != "" {
		return time.Time{}
	}
	next := f.Now.Add(f.Sweep)
	if report.Next.After(f.Now) {
		next = report.Next
	}
	if waiting.Until.After(f.Now) && waiting.Until.Before(next) {
		next = waiting.Until
	}
	return next
}
