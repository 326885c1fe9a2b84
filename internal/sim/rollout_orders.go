package sim

import (
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// orderRollout asks something of a rollout.
func (p person) orderRollout() error {
	list, err := p.c.Rollouts.ListRollouts(p.ctx, &apipb.ListRolloutsRequest{Partition: string(p.partition)})
	if err != nil || len(list.Rollouts) == 0 {
		return err
	}
	rollout := list.Rollouts[p.r.IntN(len(list.Rollouts))]
	if asksPeople(rollout.GetRun()) && p.r.IntN(4) > 0 {
		return p.as(everybody[p.r.IntN(len(everybody))]).voteOnStage(rollout, p.r.IntN(4) > 0)
	}
	kinds := []intent.OrderKind{intent.OrderStart, intent.OrderForgive, intent.OrderRollback, intent.OrderStart, intent.OrderRelease}
	switch intent.RolloutState(rollout.GetRun().GetState()) {
	case intent.RolloutRunning:
		kinds = []intent.OrderKind{intent.OrderPause, intent.OrderPause, intent.OrderAbort, intent.OrderSkip, intent.OrderPromote, intent.OrderRollback, intent.OrderEmergency}
	case intent.RolloutPaused:
		kinds = []intent.OrderKind{intent.OrderResume, intent.OrderResume, intent.OrderAbort, intent.OrderPromote}
	}
	return p.order(rollout.Name, kinds[p.r.IntN(len(kinds))])
}

func (p person) order(rollout string, kind intent.OrderKind) error {
	p.tell("%s: %s %s, by %s", p.d, kind, rollout, p.name)
	_, err := p.c.Rollouts.OrderRollout(p.ctx, &apipb.OrderRolloutRequest{Partition: string(p.partition), Rollout: rollout, Kind: string(kind), Reason: "I say so"})
	if err == nil {
		p.mark("rollout: ordered: " + string(kind))
	}
	return err
}

// asksPeople reports whether a run waits for people to let a stage begin.
func asksPeople(run *apipb.RolloutRun) bool {
	return run.GetWaitCause() == string(intent.CauseApproval) && intent.RolloutState(run.GetState()) == intent.RolloutRunning
}

// voteOnStage votes on the stage that asks people.
func (p person) voteOnStage(rollout *apipb.Rollout, approve bool) error {
	p.tell("%s: a vote on a stage of %s, by %s: %v", p.d, rollout.Name, p.name, approve)
	_, err := p.c.Rollouts.VoteOnStage(p.ctx, &apipb.VoteOnStageRequest{
		Partition: string(p.partition), Rollout: rollout.Name, Run: rollout.Run.Run, Approve: approve, Reason: "I say so",
	})
	return err
}

// stageVotes are cast on a stage that asks people, one after the other, until it begins: somebody votes twice, somebody
// rejects it first, and whoever rejected it before takes that back.
var stageVotes = []struct {
	name    string
	approve bool
}{{somebody, true}, {somebody, true}, {"bob", false}, {"bob", true}, {"carol", true}, {"dave", true}}

// askingRun is a run whose stages ask people.
type askingRun struct {
	rollout string
	run     uint64
}

// hurries is what a person asks of a run that takes for too long; nothing: it does not.
func (p person) hurries(run *apipb.RolloutRun) intent.OrderKind {
	if p.ownRollout() || intent.RolloutState(run.GetState()) != intent.RolloutRunning {
		return ""
	}
	switch duration := p.Now().Sub(run.Began.AsTime()); {
	case duration > begins*3/4 && run.Promoted:
		return intent.OrderAbort // All have it, and soak on.
	case duration > begins/2 && !run.Promoted:
		return intent.OrderPromote
	}
	return ""
}

// endsWithin is how long a run may keep newer content back before somebody ends it.
const endsWithin = 30 * time.Minute

// goOnWithRollouts does what runs wait for that only a person may do.
func (p person) goOnWithRollouts() error {
	if !p.rolls() {
		return nil
	}
	list, err := p.c.Rollouts.ListRollouts(p.ctx, &apipb.ListRolloutsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, rollout := range list.Rollouts {
		if asksPeople(rollout.Run) {
			asked := askingRun{rollout.Name, rollout.Run.Run}
			turn := stageVotes[p.stageVotes[asked]%len(stageVotes)]
			p.stageVotes[asked]++
			if err := p.as(turn.name).voteOnStage(rollout, turn.approve); err != nil && !fault.Is(err, fault.Conflict) {
				return err // It may have begun meanwhile.
			}
		}
		// Somebody's own stages may take days.
		if kind := p.hurries(rollout.Run); kind != "" {
			if err := p.order(rollout.Name, kind); err != nil {
				return err
			}
		}
		if rollout.Run == nil && rollout.Governs && rollout.Document == "" {
			if err := p.order(rollout.Name, intent.OrderStart); err != nil {
				return err
			}
		}
		for _, kind := range []intent.OrderKind{intent.OrderForgive, intent.OrderStart, intent.OrderResume, intent.OrderAbort, intent.OrderRelease} {
			if !strings.Contains(rollout.GetRun().GetWaits(), "lehr rollout "+string(kind)) && !(kind == intent.OrderRelease && !rollout.Governs && rollout.Pins > 0) {
				continue
			}
			if kind == intent.OrderAbort && strings.Contains(rollout.GetRun().GetWaits(), "waits for this run to end") && p.Now().Sub(p.changed) < endsWithin {
				continue // It may end by itself.
			}
			if err := p.order(rollout.Name, kind); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
