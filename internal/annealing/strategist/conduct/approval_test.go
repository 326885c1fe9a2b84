package conduct_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// asks is a run to version 2 of a, then of b, c and d, whose stage "rest" two approvers must approve.
func asks(t *testing.T) *play {
	t.Helper()
	p := plays(t, "a", "b", "c", "d")
	one := func(t selection.Target) bool { return t.Asset == "a" }
	p.stages = []selection.Stage{{Name: "canary", Wants: one, Soak: 5 * time.Second}, {Name: "rest", Wants: func(t selection.Target) bool { return !one(t) }, Wave: selection.Wave{Count: 1}, Soak: 5 * time.Second}}
	p.said.Stages = []*intentpb.RolloutStage{{Name: "canary"}, {Name: "rest", Approval: &intentpb.Judgement{Quorum: 2, Expires: durationpb.New(time.Hour)}}}
	p.publish(version{"a": "2", "b": "2", "c": "2", "d": "2"})
	p.wait(3 * time.Second)
	p.is(1, intent.RolloutRunning)
	p.state("rest", intent.ApprovalLater)
	p.wait(10 * time.Second)
	p.state("rest", intent.ApprovalAsked)
	return p
}

// say casts a person's vote on a stage of a run, with the role approver.
func (p *play) say(kind intent.OrderKind, person string, run uint64, stage string, roles ...intent.Role) {
	if roles == nil {
		roles = []intent.Role{intent.Viewer, intent.Approver}
	}
	p.orders = append(p.orders, intent.RolloutOrder{
		Name: "web", Kind: kind, Number: uint64(len(p.orders) + 1), Reason: "so said", By: intent.Actor{Name: person}, At: p.now, Run: run, Stage: stage, Roles: roles,
	})
	p.wait(5 * time.Second)
}

// state is what people are asked of a stage.
func (p *play) state(stage string, want intent.ApprovalState) {
	p.t.Helper()
	at := slices.IndexFunc(p.run.Progress.Stages, func(s intent.StageProgress) bool { return s.Name == stage })
	if at < 0 || p.run.Progress.Stages[at].Approval == nil || p.run.Progress.Stages[at].Approval.State != want {
		p.t.Fatalf("the stage %s is %+v, want its approval %s", stage, p.run.Progress.Stages, want)
	}
}

// TestPeopleApproveAStage: it begins when enough of those who count have approved it in this run, and not before.
func TestPeopleApproveAStage(t *testing.T) {
	p := asks(t)
	p.waitsFor("stage rest waits for people: 0 of 2 have approved it; lehr rollout approve web rest --reason WHY")
	if p.run.Progress.Cause != intent.CauseApproval {
		t.Errorf("it waits because of %q", p.run.Progress.Cause)
	}
	p.wait(time.Minute)
	p.say(intent.OrderApprove, "ann", 1, "rest")
	p.say(intent.OrderApprove, "ann", 1, "rest")                  // The same person again.
	p.say(intent.OrderApprove, "bob", 1, "rest", intent.Operator) // Without the role.
	p.say(intent.OrderApprove, "cid", 1, "canary")                // On another stage.
	p.say(intent.OrderApprove, "dan", 7, "rest")                  // On another run.
	p.has(version{"a": "2", "b": "1", "c": "1", "d": "1"})
	p.waitsFor("1 of 2 have approved it")
	p.say(intent.OrderApprove, "eve", 1, "rest")
	p.state("rest", intent.ApprovalGiven)
	p.has(version{"b": "2", "d": "1"})
	p.wait(time.Minute)
	p.is(1, intent.RolloutDone)
	if slices.IndexFunc(p.run.Events, func(e intent.RolloutEvent) bool { return e.Kind == "approved" }) < 0 {
		t.Errorf("no event says that the stage may begin: %+v", p.run.Events)
	}

	// The next run asks again.
	p.publish(version{"a": "3", "b": "3"})
	p.wait(time.Minute)
	p.is(2, intent.RolloutRunning)
	p.has(version{"a": "3", "b": "2"})
	p.state("rest", intent.ApprovalAsked)
}

// TestARejectionKeepsAStage until the same person says otherwise; what was approved once stays so.
func TestARejectionKeepsAStage(t *testing.T) {
	p := asks(t)
	p.say(intent.OrderReject, "ann", 1, "rest")
	p.say(intent.OrderApprove, "bob", 1, "rest")
	p.say(intent.OrderApprove, "cid", 1, "rest")
	p.state("rest", intent.ApprovalRejected)
	p.waitsFor("ann rejected it: so said")
	p.has(version{"b": "1"})
	p.say(intent.OrderApprove, "ann", 1, "rest")
	p.state("rest", intent.ApprovalGiven)
	p.has(version{"b": "2"})
	p.say(intent.OrderReject, "bob", 1, "rest")
	p.wait(time.Minute)
	p.is(1, intent.RolloutDone)
}

// TestAnApprovalEnds where the others come too late.
func TestAnApprovalEnds(t *testing.T) {
	p := asks(t)
	p.say(intent.OrderApprove, "ann", 1, "rest")
	p.waitsFor("1 of 2 have")
	p.wait(time.Hour)
	p.waitsFor("0 of 2 have")
	p.say(intent.OrderApprove, "bob", 1, "rest")
	p.has(version{"b": "1"})
	p.say(intent.OrderApprove, "ann", 1, "rest")
	p.has(version{"b": "2"})
}

// TestPeopleAreNotAskedForEver: an operator passes over them, an emergency does not go by their votes, and going back asks nobody.
func TestPeopleAreNotAskedForEver(t *testing.T) {
	p := asks(t)
	p.order(intent.OrderSkip)
	p.wait(2 * time.Second)
	p.state("rest", intent.ApprovalSkipped)
	p.wait(30 * time.Second)
	p.has(version{"b": "2", "c": "2", "d": "2"})

	p = asks(t)
	p.order(intent.OrderPromote)
	p.wait(30 * time.Second)
	p.has(version{"b": "2", "c": "2", "d": "2"})

	p = asks(t)
	p.order(intent.OrderRollback)
	p.wait(30 * time.Second)
	p.is(1, intent.RolloutRolledBack)
	p.has(version{"a": "1"})

	p = asks(t)
	p.urgent = slices.Clone(p.stages)
	p.said.Emergency = []*intentpb.RolloutStage{{Name: "canary"}, {Name: "rest", Approval: &intentpb.Judgement{}}}
	p.say(intent.OrderApprove, "ann", 1, "rest")
	p.order(intent.OrderEmergency)
	p.wait(30 * time.Second)
	p.has(version{"b": "1"})
	p.waitsFor("0 of 1 have approved it")
	p.say(intent.OrderApprove, "bob", 1, "rest")
	p.has(version{"b": "2"})
}
