package web

import (
	"net/url"
	"strconv"

	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
)

// Links lead to pages from elsewhere, as from a message. Whoever opens one sees a page, as far as
// they may read it; to act takes the form on it, a login and the role.
type Links struct {
	// Base is the URL by which others know the server.
	Base *url.URL
}

func (l *Links) to(address string) string {
	u, err := l.Base.Parse("/" + address)
	if err != nil {
		return l.Base.String()
	}
	return u.String()
}

// Partition is the link to its page.
func (l *Links) Partition(partition intent.PartitionID) string {
	return l.to(address{kind: "partition", partition: string(partition)}.String())
}

// Candidate is the link to the confirmation of letting a held one through.
func (l *Links) Candidate(partition intent.PartitionID, candidate string) string {
	return l.to(actLink(string(partition), "acknowledge", candidate))
}

// Stage is the link to the confirmation of letting exactly this stage of a run begin.
func (l *Links) Stage(partition intent.PartitionID, rollout string, run uint64, stage string) string {
	return l.to(stageAddress(string(partition), true, rollout, run, stage).String())
}

// Asset is the link to its page.
func (l *Links) Asset(partition intent.PartitionID, asset intent.AssetID) string {
	return l.to(link(string(partition), "asset", string(asset)))
}

// Approval is the link to the confirmation of approving exactly this plan.
func (l *Links) Approval(partition intent.PartitionID, asset intent.AssetID, plan intent.Digest) string {
	at := address{kind: "act", partition: string(partition), name: "approve", query: url.Values{"asset": {string(asset)}, "plan": {plan.String()}}}
	return l.to(at.String())
}

// WorkflowRun is the link to the page of a run.
func (l *Links) WorkflowRun(partition intent.PartitionID, run uint64) string {
	return l.to(workflowRunAddress(string(partition), run).String())
}

// Question is the link to the confirmation of approving exactly this question of a run.
func (l *Links) Question(partition intent.PartitionID, run uint64, machine, key string) string {
	at := address{kind: "act", partition: string(partition), name: "workflow-approve", query: url.Values{"run": {strconv.FormatUint(run, 10)}, "machine": {machine}, "question": {key}}}
	return l.to(at.String())
}

// Delivery is the link to the page of what happened to a version, or to the confirmation of
// approving it where it waits for people.
func (l *Links) Delivery(partition intent.PartitionID, e deliveryhistory.Event) string {
	id, version := string(partition), []string{"environment", e.Environment, "version", e.Version.Name, "digest", e.Version.Digest, "constraint", e.Constraint}
	switch {
	case e.Kind == deliveryhistory.Waiting:
		return l.to(deliveryAddress(id, "act", deliveryPrefix+voteApprove, e.Application, version...))
	case e.Environment != "" && (e.Kind == deliveryhistory.Promoted || e.Kind == deliveryhistory.RolledBack):
		return l.to(deliveryAddress(id, "environment", e.Environment, e.Application))
	}
	return l.to(deliveryAddress(id, "version", e.Version.Name, e.Application, "digest", e.Version.Digest))
}
