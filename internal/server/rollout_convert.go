package server

import (
	"cmp"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

var onBad = map[intentpb.Rollout_OnBad]string{
	intentpb.Rollout_ON_BAD_ROLLBACK: "rollback", intentpb.Rollout_ON_BAD_STOP: "stop",
}

var newer = map[intentpb.Rollout_Newer]string{
	intentpb.Rollout_NEWER_SUPERSEDES: "supersedes", intentpb.Rollout_NEWER_QUEUES: "queues", intentpb.Rollout_NEWER_IS_HELD: "held",
}

// toRollout is one as the policy says it; nil: it does not.
func toRollout(partition intent.PartitionID, name string, spec *intentpb.Rollout) *apipb.Rollout {
	rollout := &apipb.Rollout{Partition: string(partition), Name: name, Governs: spec != nil}
	if spec != nil {
		rollout.Select, rollout.Validate, rollout.After = spec.Select, spec.Validate, spec.After
		rollout.Document, rollout.Pointer = spec.GetField().GetDocument(), spec.GetField().GetPointer()
		rollout.OnBad, rollout.Newer = onBad[spec.OnBad], newer[spec.Newer]
		rollout.Stages = convertEach(spec.Stages, (*intentpb.RolloutStage).GetName)
		rollout.Emergency = convertEach(spec.Emergency, (*intentpb.RolloutStage).GetName)
	}
	return rollout
}

func toRun(r intent.Rollout) *apipb.RolloutRun {
	return &apipb.RolloutRun{
		Run: r.Run, State: string(r.State), To: toIncarnationID(r.To), Value: string(r.Value), From: toIncarnationID(r.From),
		Began: toTime(r.Began), Ended: toTime(r.Ended), By: toActor(r.By), Reason: r.Reason, Skipped: r.Skipped,
		Promoted: r.Promoted, Emergency: r.Emergency, Bad: r.Bad, Back: toIncarnationID(r.Back), Reverts: names(r.Reverts),
		Edits: convertEach(r.Edits, toRolloutEdit), Proposals: convertEach(r.Proposals, toRolloutProposal), Fields: int64(r.Progress.Fields), Waits: r.Progress.Waits, WaitCause: string(r.Progress.Cause), WaitsFor: names(r.Progress.For), Next: toTime(r.Progress.Next),
		Stages: convertEach(r.Progress.Stages, func(stage intent.StageProgress) *apipb.RolloutStage {
			return &apipb.RolloutStage{
				Name: stage.Name, Total: int64(stage.Total), Selected: int64(stage.Selected), Done: int64(stage.Done),
				Waits: stage.Waits, Began: toTime(stage.Began), Ended: toTime(stage.Ended), Skipped: slices.Contains(r.Skipped, stage.Name),
				Approval: toStageApproval(stage, r.Votes),
			}
		}),
		Verdicts: convertEach(byStage(r.Progress), toRolloutVerdict),
		Events: convertEach(r.Events, func(e intent.RolloutEvent) *apipb.RolloutEvent {
			return &apipb.RolloutEvent{At: toTime(e.At), By: toActor(e.By), Kind: e.Kind, Text: e.Text, Stage: e.Stage}
		}),
	}
}

// byStage are the verdicts of a run in the order of its stages.
func byStage(p intent.RolloutProgress) []intent.ValidationVerdict {
	stageIndex := func(v intent.ValidationVerdict) int {
		return slices.IndexFunc(p.Stages, func(s intent.StageProgress) bool { return s.Name == v.Stage })
	}
	return slices.SortedStableFunc(slices.Values(p.Verdicts), func(a, b intent.ValidationVerdict) int { return cmp.Compare(stageIndex(a), stageIndex(b)) })
}

func names(ids []intent.AssetID) []string {
	return convertEach(ids, func(id intent.AssetID) string { return string(id) })
}

func toRolloutVerdict(v intent.ValidationVerdict) *apipb.RolloutVerdict {
	return &apipb.RolloutVerdict{
		Validation: v.Validation, Stage: v.Stage, Result: v.Result, Reason: v.Reason, At: toTime(v.At), Record: v.Record, Restarted: toTime(v.Restarted), Found: v.Found,
		Metrics: convertEach(v.Metrics, func(m intent.MetricVerdict) *apipb.RolloutMetric {
			return &apipb.RolloutMetric{Name: m.Name, Result: m.Result, Reason: m.Reason, Values: m.Values, Baseline: m.Baseline}
		}),
	}
}

func toRolloutEdit(e intent.RolloutEdit) *apipb.RolloutEdit {
	return &apipb.RolloutEdit{Document: e.Document, Pointer: e.Pointer, Before: string(e.Before), Revision: e.Revision, At: toTime(e.At), Changed: e.Changed, Landed: toIncarnationID(e.Landed)}
}

func toRolloutProposal(p intent.RolloutProposal) *apipb.RolloutProposal {
	return &apipb.RolloutProposal{
		Document: p.Document, Pointers: p.Pointers, Back: p.Back, State: string(p.State), PullRequest: int32(p.Request.Number), Link: p.Request.Link, Trouble: p.Trouble,
	}
}

func toOrder(o intent.RolloutOrder) *apipb.RolloutOrder {
	return &apipb.RolloutOrder{
		Partition: string(o.Partition), Number: o.Number, Rollout: o.Name, Kind: string(o.Kind), Value: string(o.Value),
		Reason: o.Reason, By: toActor(o.By), At: toTime(o.At), Run: o.Run, Stage: o.Stage,
	}
}

// toStageApproval is what people say of a stage; nil: it asks nobody.
func toStageApproval(stage intent.StageProgress, votes []intent.StageVote) *apipb.StageApproval {
	a := stage.Approval
	if a == nil {
		return nil
	}
	result := &apipb.StageApproval{State: string(a.State), Approved: int32(a.Approved), Needs: int32(a.Needs), Roles: convertEach(a.Roles, func(r intent.Role) string { return string(r) })}
	for _, v := range votes {
		if v.Stage == stage.Name {
			result.Votes = append(result.Votes, &apipb.StageVote{By: toActor(v.By), Approve: v.Approve, Reason: v.Reason, At: toTime(v.At)})
		}
	}
	return result
}
