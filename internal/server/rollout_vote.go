package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// VoteOnStage keeps a person's vote on whether the newest run goes on to a stage that asks people.
func (s *Server) VoteOnStage(ctx context.Context, request *apipb.VoteOnStageRequest) (*apipb.VoteOnStageResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	standing, spec, err := s.standing(ctx, partition, request.Rollout)
	if err != nil {
		return nil, err
	}
	kind := intent.OrderReject
	if request.Approve {
		kind = intent.OrderApprove
	}
	stage, err := standing.StageToJudge(kind, request.Run, request.Stage)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("a vote on the stage %s of the rollout %s", stage.Name, request.Rollout), request.Reason)
	if err != nil {
		return nil, err
	}
	order, err := s.store.OrderRollout(ctx, intent.RolloutOrder{
		Partition: partition.ID, Name: request.Rollout, Kind: kind, Reason: reason, By: actorOf(ctx), At: s.runtime.Now().UTC().Truncate(time.Microsecond),
		Run: standing.Run.Run, Stage: stage.Name, Roles: slices.Clone(stage.Approval.Roles),
	})
	if err != nil {
		return nil, err
	}
	rollout := toRollout(partition.ID, request.Rollout, spec)
	rollout.Run = toRun(*standing.Run)
	return &apipb.VoteOnStageResponse{Order: toOrder(order), Rollout: rollout}, nil
}
