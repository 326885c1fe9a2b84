package conduct

import (
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// approvalOf is what a stage of the run asks of people; nil: nothing.
func (d *decider) approvalOf(stage string) *intentpb.Judgement {
	stages := d.Spec.GetStages()
	if d.run.Emergency && len(d.Spec.GetEmergency()) > 0 {
		stages = d.Spec.Emergency
	}
	at := slices.IndexFunc(stages, func(s *intentpb.RolloutStage) bool { return s.Name == stage })
	if at < 0 {
		return nil
	}
	return stages[at].Approval
}

// approval counts the newest vote of each person who has one of the stage's roles, as long as it lasts.
// Votes on another run, or on another stage, count for nothing. Nil: the stage asks nobody.
func (d *decider) approval(stage string) *intent.StageApproval {
	spec := d.approvalOf(stage)
	if spec == nil {
		return nil
	}
	a := &intent.StageApproval{State: intent.ApprovalLater, Needs: max(1, int(spec.Quorum)), Roles: approvers(spec)}
	for _, v := range d.run.Votes {
		switch {
		case v.Stage != stage || !slices.ContainsFunc(a.Roles, func(role intent.Role) bool { return slices.Contains(v.Roles, role) }):
		case !v.Approve:
			a.State, a.RejectedBy, a.Reason = intent.ApprovalRejected, v.By.Name, v.Reason
		case spec.Expires == nil || d.Now.Before(v.At.Add(spec.Expires.AsDuration())):
			a.Approved++
		}
	}
	switch {
	case slices.Contains(d.run.Approved, stage):
		a.State = intent.ApprovalGiven
	case d.run.Promoted || slices.Contains(d.run.Skipped, stage):
		a.State = intent.ApprovalSkipped
	}
	return a
}

// approvers are the roles that may approve a stage.
func approvers(spec *intentpb.Judgement) (roles []intent.Role) {
	for _, role := range spec.Roles {
		roles = append(roles, intent.Role(role))
	}
	if len(roles) == 0 {
		return []intent.Role{intent.Approver}
	}
	return roles
}

// approve lets the stages begin that enough people have approved. What is approved once stays so in the run:
// an approval that ends later takes nothing back.
func (d *decider) approve() {
	for _, s := range d.Course(d.run.Emergency).Stages {
		a := d.approval(s.Name)
		if a == nil || a.State != intent.ApprovalLater || a.Approved < a.Needs {
			continue
		}
		d.run.Approved = append(d.run.Approved, s.Name)
		d.event(d.holder(), "approved", "stage %s may begin: %s approved it", s.Name, count(a.Approved, "person has", "people have"))
	}
}

// unapproved says for what people a stage waits; empty: for none.
func (d *decider) unapproved(stage string) string {
	a := d.approval(stage)
	switch {
	case a == nil || a.State == intent.ApprovalGiven || a.State == intent.ApprovalSkipped:
		return ""
	case a.State == intent.ApprovalRejected:
		return fmt.Sprintf("for people: %s rejected it: %s; lehr rollout rollback %s --reason WHY goes back, and lehr rollout approve %s %s --reason WHY by the same person takes that back",
			a.RejectedBy, a.Reason, d.Name, d.Name, stage)
	}
	return fmt.Sprintf("for people: %d of %d have approved it; lehr rollout approve %s %s --reason WHY", a.Approved, a.Needs, d.Name, stage)
}

// vote takes up a person's vote on a stage, in the place of what the same person said of it before. A vote on an earlier run
// counts for nothing.
func (d *decider) vote(o *intent.RolloutOrder) {
	if o.Run != d.run.Run {
		return
	}
	d.run.Votes = slices.DeleteFunc(d.run.Votes, func(v intent.StageVote) bool { return v.Stage == o.Stage && v.By.Name == o.By.Name })
	d.run.Votes = append(d.run.Votes, intent.StageVote{
		Stage: o.Stage, By: o.By, Roles: o.Roles, At: o.At, Approve: o.Kind == intent.OrderApprove, Reason: o.Reason,
	})
	d.event(o.By, string(o.Kind), "stage %s: %s", o.Stage, o.Reason)
}
