package server_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// frontends is a rollout of two stages.
func frontends() *intentpb.Rollout {
	return &intentpb.Rollout{
		Name: "frontends", Select: `id.startsWith("web/")`,
		Stages: []*intentpb.RolloutStage{
			{Name: "canary", Where: `id == "web/a"`, Soak: durationpb.New(10 * time.Minute)},
			{Name: "rest", Count: 1},
		},
	}
}

// policed is an asset that is the partition's policy.
func (w *world) policed(rollouts ...*intentpb.Rollout) intent.Asset {
	w.Helper()
	payload, err := schema.Builtin().Pack(&intentpb.Policy{
		Rollouts: rollouts, Plugins: []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}},
	})
	w.must(err)
	return intent.Asset{ID: intent.PolicyAsset, Payload: payload}
}

// roll stores a step of the strategist.
func (w *world) roll(run intent.Rollout, pins ...intent.Pin) {
	w.Helper()
	p, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	run.Partition = "shop"
	for i := range pins {
		pins[i].Rank, pins[i].Holder, pins[i].Incarnation.Partition = intent.RankRollout, intent.RolloutHolder(run.Name), "shop"
	}
	w.must(w.store.SaveRollout(w.Context(), w.lease, store.RolloutStep{Revision: p.Revision, Run: run, Pins: pins}))
}

// begun is a run whose first stage soaks.
func begun(number uint64) intent.Rollout {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return intent.Rollout{
		Name: "frontends", Run: number, State: intent.RolloutRunning, To: intent.IncarnationID{Partition: "shop", Sequence: 1}, Began: now, By: ann, Reason: "a change",
		Progress: intent.RolloutProgress{
			Stages: []intent.StageProgress{
				{Name: "canary", Total: 1, Selected: 1, Waits: "for web/a to be healthy for 10m0s", Began: now},
				{Name: "rest", Total: 2, Waits: "for the stages before it"},
			},
			Waits: "for web/a to be healthy for 10m0s", For: []intent.AssetID{"web/a"}, Next: now.Add(10 * time.Minute),
			Verdicts: []intent.ValidationVerdict{{Validation: "errors", Stage: "canary", Result: "waiting", At: now, Metrics: []intent.MetricVerdict{
				{Name: "rate", Result: "waiting", Reason: "3 of 10 samples", Values: []float64{1, 2, 3}, Baseline: []float64{1, 1, 1}},
			}}},
		},
		Events: []intent.RolloutEvent{{At: now, By: ann, Kind: "begin", Text: "brings shop@1"}},
	}
}

// TestRolloutsAreShown: those of the policy before they have a run, and those that
// only runs tell of; a run with its stages, verdicts and events.
func TestRolloutsAreShown(t *testing.T) {
	w := newWorld(t)
	list := func() []*apipb.Rollout {
		response, err := w.client.Rollouts.ListRollouts(t.Context(), &apipb.ListRolloutsRequest{Partition: "shop"})
		w.must(err)
		return response.Rollouts
	}
	if got := list(); len(got) != 0 {
		t.Fatalf("before there is an incarnation: %v", got)
	}
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"), w.command("web/b", "x"))
	if got := list(); len(got) != 1 || !got[0].Governs || got[0].Run != nil || got[0].OnBad != "rollback" || got[0].Newer != "supersedes" || len(got[0].Stages) != 2 {
		t.Fatalf("without a run: %v", got)
	}
	ended := begun(1)
	ended.State, ended.Ended = intent.RolloutSuperseded, ended.Began
	w.roll(ended)
	w.roll(begun(2))
	old := begun(1)
	old.Name, old.State = "old", intent.RolloutStopped
	old.Progress.Stages = []intent.StageProgress{{Name: "zone"}, {Name: "rest"}}
	old.Progress.Verdicts = []intent.ValidationVerdict{{Validation: "errors", Stage: "rest"}, {Validation: "latency", Stage: "rest"}, {Validation: "errors", Stage: "zone"}}
	w.roll(old)
	got := list()
	if len(got) != 2 || got[0].Run.Run != 2 || len(got[0].Run.Events) != 0 || got[1].Name != "old" || got[1].Governs {
		t.Fatalf("with runs: %v", got)
	}
	whole, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	run := whole.Rollout.Run
	if run.Run != 2 || run.State != "running" || run.To != "shop@1" || len(run.Events) != 1 || run.Stages[1].Total != 2 || run.Next == nil || run.WaitsFor[0] != "web/a" ||
		run.Verdicts[0].Metrics[0].Values[2] != 3 {
		t.Errorf("the run is %v", run)
	}
	judged, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "old"})
	w.must(err)
	for i, v := range judged.Rollout.Run.Verdicts {
		if want := []string{"zone", "rest", "rest"}[i]; v.Stage != want {
			t.Errorf("verdict %d is of stage %s, want %s, as the stages follow each other", i, v.Stage, want)
		}
	}
	first, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends", Run: 1})
	w.must(err)
	if first.Rollout.Run.Run != 1 || first.Rollout.Run.State != "superseded" {
		t.Errorf("run 1 is %v", first)
	}
	history, err := w.client.Rollouts.ListRuns(t.Context(), &apipb.ListRunsRequest{Partition: "shop", Rollout: "frontends", Limit: 1})
	w.must(err)
	if len(history.Runs) != 1 || history.Runs[0].Run != 2 || history.Next != 2 {
		t.Errorf("the history begins %v", history)
	}
	history, err = w.client.Rollouts.ListRuns(t.Context(), &apipb.ListRunsRequest{Partition: "shop", Rollout: "frontends", Before: history.Next})
	w.must(err)
	if len(history.Runs) != 1 || history.Runs[0].Run != 1 || history.Next != 0 {
		t.Errorf("the history goes on %v", history)
	}
	_, err = w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontend"})
	w.refused(err, fault.NotFound, "did you mean frontends?")
	_, err = w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: ""})
	w.refused(err, fault.NotFound, `no rollout ""`)
	_, err = w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends", Run: 9})
	w.refused(err, fault.NotFound, "has no run 9")
}

// TestOrdersAreKept until they are carried out, with who asked and why; what makes
// no sense, or says no reason, is refused and leaves nothing.
func TestOrdersAreKept(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	w.roll(begun(1))
	order := func(kind, reason string) (*apipb.OrderRolloutResponse, error) {
		return w.client.Rollouts.OrderRollout(t.Context(), &apipb.OrderRolloutRequest{Partition: "shop", Rollout: "frontends", Kind: kind, Reason: reason})
	}
	_, err := order("pause", " ")
	w.refused(err, fault.Invalid, "needs a reason")
	_, err = order("resume", "why not")
	w.refused(err, fault.Conflict, "run 1 is running, not paused")
	_, err = order("forgive", "why not")
	w.refused(err, fault.Conflict, "judged bad")
	orders, err := w.store.RolloutOrders(t.Context(), "shop", 0)
	w.must(err)
	if len(orders) != 0 {
		t.Fatalf("what was refused is kept: %v", orders)
	}
	paused, err := order("pause", "lunch")
	w.must(err)
	if paused.Order.Number == 0 || paused.Order.By.Name != "ann" || paused.Rollout.Run.State != "running" {
		t.Errorf("it answered %v", paused)
	}
	_, err = order("pause", "lunch")
	w.refused(err, fault.Conflict, "paused already by ann: lunch")
	shown, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	if len(shown.Rollout.Pending) != 1 || shown.Rollout.Pending[0].Reason != "lunch" {
		t.Errorf("pending is %v", shown.Rollout.Pending)
	}
	carried := begun(1)
	carried.State, carried.Orders = intent.RolloutPaused, paused.Order.Number
	w.roll(carried)
	shown, err = w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	if len(shown.Rollout.Pending) != 0 {
		t.Errorf("pending is still %v", shown.Rollout.Pending)
	}
	_, err = order("resume", "lunch is over")
	w.must(err)
}

// TestVotesOnStages are kept for the stage that asks, of the newest run, with the roles of who cast them.
func TestVotesOnStages(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	vote := func(request *apipb.VoteOnStageRequest) (*apipb.VoteOnStageResponse, error) {
		request.Partition, request.Rollout, request.Reason = "shop", "frontends", "looks good"
		return w.client.Rollouts.VoteOnStage(t.Context(), request)
	}
	_, err := vote(&apipb.VoteOnStageRequest{Approve: true})
	w.refused(err, fault.Conflict, "it has no run yet")
	w.roll(begun(1))
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true})
	w.refused(err, fault.Conflict, "no stage of run 1 asks people now")
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "canary"})
	w.refused(err, fault.Invalid, "no stage of run 1 asks people")
	roles := []intent.Role{intent.Approver}
	state := func(state intent.ApprovalState) {
		t.Helper()
		run := begun(1)
		run.Progress.Stages = []intent.StageProgress{{Name: "canary"}, {Name: "rest", Total: 1, Approval: &intent.StageApproval{State: state, Approved: 1, Needs: 2, Roles: roles}}}
		run.Votes = []intent.StageVote{{Stage: "rest", By: intent.Actor{Name: "bob"}, Approve: true, Reason: "fine"}}
		w.roll(run)
	}
	state(intent.ApprovalLater)
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "rest"})
	w.refused(err, fault.Conflict, "nobody is asked yet whether stage rest may begin")
	_, err = vote(&apipb.VoteOnStageRequest{Stage: "rest"}) // To reject it, nobody needs to be asked.
	w.must(err)
	state(intent.ApprovalAsked)
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Run: 2})
	w.refused(err, fault.Conflict, "run 1 is the newest, and this vote is on run 2")
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "others"})
	w.refused(err, fault.NotFound, "these do: rest")
	kept, err := vote(&apipb.VoteOnStageRequest{Approve: true, Run: 1})
	w.must(err)
	if kept.Order.Stage != "rest" || kept.Order.Run != 1 || kept.Order.Kind != "approve" || kept.Order.By.Name != "ann" {
		t.Errorf("it answered %v", kept.Order)
	}
	shown, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	approval := shown.Rollout.Run.Stages[1].Approval
	if approval.State != "asked" || approval.Needs != 2 || len(approval.Votes) != 1 || approval.Votes[0].By.Name != "bob" || !slices.Equal(approval.Roles, []string{"approver"}) {
		t.Errorf("the stage shows %v", approval)
	}
	_, err = w.client.Rollouts.VoteOnStage(t.Context(), &apipb.VoteOnStageRequest{Partition: "shop", Rollout: "frontends", Approve: true, Reason: " "})
	w.refused(err, fault.Invalid, "needs a reason")
	state(intent.ApprovalSkipped)
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "rest"})
	w.refused(err, fault.Conflict, "an operator passed over the approval of stage rest")
	goesBack := begun(1)
	goesBack.State = intent.RolloutRollingBack
	w.roll(goesBack)
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "rest"})
	w.refused(err, fault.Conflict, "run 1 goes back")
	state(intent.ApprovalGiven)
	_, err = vote(&apipb.VoteOnStageRequest{Approve: true, Stage: "rest"})
	w.refused(err, fault.Conflict, "is approved already")
	_, err = w.client.Rollouts.OrderRollout(t.Context(), &apipb.OrderRolloutRequest{Partition: "shop", Rollout: "frontends", Kind: "approve", Reason: "by another way"})
	w.refused(err, fault.Invalid, "nothing that a rollout can be asked for")
}

// TestReleaseIsOfWhatIsLeft: the assets that a rollout keeps after it left the policy.
func TestReleaseIsOfWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	w.roll(begun(1), intent.Pin{Asset: "web/a", Incarnation: intent.IncarnationID{Sequence: 1}})
	release := &apipb.OrderRolloutRequest{Partition: "shop", Rollout: "frontends", Kind: "release", Reason: "tidy"}
	_, err := w.client.Rollouts.OrderRollout(t.Context(), release)
	w.refused(err, fault.Conflict, "it is in head's policy")
	w.publish(1, w.policed())
	shown, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	if shown.Rollout.Governs || shown.Rollout.Pins != 1 {
		t.Errorf("it is %v", shown.Rollout)
	}
	_, err = w.client.Rollouts.OrderRollout(t.Context(), release)
	w.must(err)
}

// TestWatchRollout sends what there is, then what it becomes, also a new run.
func TestWatchRollout(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	stream, err := w.client.Rollouts.WatchRollout(t.Context(), &apipb.WatchRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	next := func() *apipb.RolloutRun {
		if !stream.Receive() {
			t.Fatalf("the watch ended: %v", stream.Err())
		}
		return stream.Msg().Rollout.Run
	}
	if run := next(); run != nil {
		t.Fatalf("there is a run already: %v", run)
	}
	w.roll(begun(1))
	if run := next(); run.GetRun() != 1 || run.State != "running" {
		t.Errorf("then %v", run)
	}
	done := begun(1)
	done.State = intent.RolloutDone
	w.roll(done)
	if run := next(); run.State != "done" {
		t.Errorf("then %v", run)
	}
	w.roll(begun(2))
	if run := next(); run.Run != 2 {
		t.Errorf("then %v", run)
	}
}

// govern puts assets under the rollout.
func (w *world) govern(assets ...intent.AssetID) {
	w.Helper()
	var governed []store.Governed
	for _, asset := range assets {
		governed = append(governed, store.Governed{Asset: asset, Rollout: "frontends"})
	}
	partition, err := w.store.Partition(w.Context(), w.lease.Partition)
	w.must(err)
	next := intent.IncarnationID{Partition: partition.ID, Sequence: partition.Head.Sequence + 1}
	w.must(w.store.Govern(w.Context(), w.lease, next, governed))
}

// saw stores what the rollout saw of assets.
func (w *world) saw(run intent.Rollout, seen ...intent.Observation) {
	w.Helper()
	p, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	run.Partition = "shop"
	for i := range seen {
		seen[i].Rollout = run.Name
	}
	w.must(w.store.SaveRollout(w.Context(), w.lease, store.RolloutStep{Revision: p.Revision, Run: run, Observed: seen}))
}

// TestPlanOfARollout: its steps with their assets and earliest times; of a run that
// goes on what is left of it; what people keep back, and what no stage wants, is named.
// Nothing is changed by asking.
func TestPlanOfARollout(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"), w.command("web/b", "x"), w.command("web/c", "x"), w.command("db", "x"))
	w.govern("web/a", "web/b", "web/c")
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "web/c", Owner: ann, Reason: "racks"}))
	plan := func(change ...func(*apipb.PlanRolloutRequest)) *apipb.PlanRolloutResponse {
		request := &apipb.PlanRolloutRequest{Partition: "shop", Rollout: "frontends"}
		for _, change := range change {
			change(request)
		}
		response, err := w.client.Rollouts.PlanRollout(t.Context(), request)
		w.must(err)
		return response
	}
	before, err := w.store.Partition(t.Context(), "shop")
	w.must(err)
	p := plan()
	if len(p.Steps) != 3 || p.Rest || p.All || p.Assets != 3 || p.Takes.AsDuration() != time.Minute {
		t.Fatalf("the plan is %v", p)
	}
	canary, rest, last := p.Steps[0], p.Steps[1], p.Steps[2]
	if canary.Stage != "canary" || canary.Assets[0] != "web/a" || rest.Stage != "rest" || rest.Assets[0] != "web/b" || rest.At.AsTime().Sub(canary.At.AsTime()) != 11*time.Minute {
		t.Errorf("it goes %v", p.Steps)
	}
	if last.At != nil || last.Assets[0] != "web/c" || last.Waits != "for web/c: held by ann: racks" {
		t.Errorf("what is held is %v", last)
	}
	if p := plan(func(r *apipb.PlanRolloutRequest) { r.Takes = durationpb.New(0) }); p.Steps[1].At.AsTime().Sub(p.Steps[0].At.AsTime()) != 10*time.Minute {
		t.Errorf("where pushes take no time it goes %v", p.Steps)
	}
	after, err := w.store.Partition(t.Context(), "shop")
	w.must(err)
	if before.Revision != after.Revision {
		t.Error("asking changed something")
	}
	w.must(w.store.Unhold(t.Context(), "shop", "web/c", "done", ann))
	// The canary has soaked for four minutes.
	w.roll(begun(1), intent.Pin{Asset: "web/a", Incarnation: intent.IncarnationID{Sequence: 1}})
	now := time.Now().UTC().Truncate(time.Microsecond)
	w.saw(begun(1), intent.Observation{Asset: "web/a", Selected: now.Add(-270 * time.Second), Arrived: now.Add(-240 * time.Second), Seen: now, Healthy: 4 * time.Minute})
	w.saw(begun(1), intent.Observation{Asset: "web/a", Selected: now.Add(-270 * time.Second), Arrived: now.Add(-240 * time.Second), Seen: now.Add(-30 * time.Second), Healthy: 210 * time.Second})
	p = plan()
	if !p.Rest || len(p.Steps) != 2 || p.Takes.AsDuration() != 30*time.Second || p.Steps[0].Assets[0] != "web/b" {
		t.Fatalf("of the run is left %v", p)
	}
	if wait := p.Steps[0].At.AsTime().Sub(now); wait < 6*time.Minute || wait > 7*time.Minute {
		t.Errorf("the canary soaks for %s more", wait)
	}
	shown, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	stages := shown.Rollout.Run.Stages
	if a := stages[0].Assets; len(a) != 1 || a[0].State != "soaking" || a[0].Healthy.AsDuration() < 4*time.Minute || a[0].Healthy.AsDuration() > 5*time.Minute || a[0].Soak.AsDuration() != 10*time.Minute {
		t.Errorf("of the canary it says %v", a)
	}
	if a := stages[1].Assets; len(a) != 2 || a[0].State != "waits" {
		t.Errorf("of the rest it says %v", a)
	}
	_, err = w.client.Rollouts.PlanRollout(t.Context(), &apipb.PlanRolloutRequest{Partition: "shop", Rollout: "frontends", Emergency: true})
	w.refused(err, fault.Invalid, "no stages for emergencies")
	_, err = w.client.Rollouts.PlanRollout(t.Context(), &apipb.PlanRolloutRequest{Partition: "shop", Rollout: "frontends", Takes: durationpb.New(-1)})
	w.refused(err, fault.Invalid, "less than no time")
}

// TestPlanOfNothingNew is that of a change of all.
func TestPlanOfNothingNew(t *testing.T) {
	w := newWorld(t)
	narrow := frontends()
	narrow.Stages = narrow.Stages[:1]
	w.publish(0, w.policed(narrow), w.command("web/a", "x"), w.command("web/b", "x"))
	one := intent.IncarnationID{Sequence: 1}
	done := begun(1)
	done.State = intent.RolloutDone
	w.roll(done, intent.Pin{Asset: "web/a", Incarnation: one}, intent.Pin{Asset: "web/b", Incarnation: one})
	p, err := w.client.Rollouts.PlanRollout(t.Context(), &apipb.PlanRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.must(err)
	if !p.All || p.Assets != 2 || len(p.Steps) != 1 || len(p.Unwanted) != 1 || p.Unwanted[0] != "web/b" {
		t.Errorf("the plan is %v", p)
	}
	w.publish(1, w.policed())
	_, err = w.client.Rollouts.PlanRollout(t.Context(), &apipb.PlanRolloutRequest{Partition: "shop", Rollout: "frontends"})
	w.refused(err, fault.Conflict, "does not have it any more")
}

// TestWhyReadsWhatARolloutWaitsFor: the reports down the chain are read, though the
// asset that is asked for is in sync and names none of them.
func TestWhyReadsWhatARolloutWaitsFor(t *testing.T) {
	w := newWorld(t)
	one := w.publish(0, w.policed(frontends()), w.command("web/a", "x"), w.command("web/b", "x"), w.command("db", "x"))
	member, err := w.store.Member(t.Context(), one.ID, "web/b")
	w.must(err)
	w.govern("web/a", "web/b")
	w.publish(1, w.command("web/a", "y"), w.command("web/b", "y"))
	run := begun(1)
	run.Progress.Waits = "stage canary waits for web/a: must come after db"
	w.roll(run, intent.Pin{Asset: "web/b", Incarnation: intent.IncarnationID{Sequence: 1}}, intent.Pin{Asset: "web/a", Incarnation: intent.IncarnationID{Sequence: 2}})
	w.must(w.store.SaveReports(t.Context(), w.lease, []intent.Report{
		{Partition: "shop", Asset: "web/b", Type: "lehr.command.v1.Command", State: intent.StateInSync, Target: one.ID, Effective: member.Effective, At: time.Now()},
		{Partition: "shop", Asset: "web/a", Type: "lehr.command.v1.Command", State: intent.StateWaiting, At: time.Now(), Waiting: []intent.WaitingOn{{Kind: intent.WaitOrder, Reason: "must come after db", Blockers: []intent.AssetID{"db"}}}},
		{Partition: "shop", Asset: "db", Type: "lehr.command.v1.Command", State: intent.StateWaiting, At: time.Now(), Waiting: []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "held by ann: racks", Owner: "ann"}}},
	}))
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "web/b"})
	w.must(err)
	want := "web/b is not let go on: the rollout frontends (run 1) is running: stage canary waits for web/a: must come after db: db: held by ann: racks"
	if why.Summary != want || why.Root.Asset != "db" || why.Root.Owner != "ann" || why.State != "in-sync" {
		t.Errorf("it says %q, root %v", why.Summary, why.Root)
	}
}

// TestWhyReadsWhatAFieldWaitsFor: by a field nothing is pinned, and the reports of those that
// the run waits for are read all the same.
func TestWhyReadsWhatAFieldWaitsFor(t *testing.T) {
	w := newWorld(t)
	flags := frontends()
	flags.Field = &intentpb.DocumentField{Document: "knobs", Pointer: "/{id}", Source: "knobs"}
	one := w.publish(0, w.policed(flags), w.command("web/a", "x"), w.command("web/b", "x"))
	run := begun(1)
	run.To, run.Value, run.Progress.Waits = intent.IncarnationID{}, []byte("1"), "stage canary waits for web/a: it was refused"
	w.roll(run)
	member, err := w.store.Member(t.Context(), one.ID, "web/b")
	w.must(err)
	w.must(w.store.SaveReports(t.Context(), w.lease, []intent.Report{
		{Partition: "shop", Asset: "web/b", Type: "lehr.command.v1.Command", State: intent.StateInSync, Target: one.ID, Effective: member.Effective, At: time.Now()},
		{Partition: "shop", Asset: "web/a", Type: "lehr.command.v1.Command", State: intent.StateWaiting, At: time.Now(), Waiting: []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "held by ann: racks", Owner: "ann"}}},
	}))
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "web/b"})
	w.must(err)
	if why.Root.GetAsset() != "web/a" || why.Root.GetOwner() != "ann" || why.State != "in-sync" {
		t.Errorf("it says %q, root %v", why.Summary, why.Root)
	}
}

// TestWhyReadsTheHoldThatARolloutWaitsFor: the asset that is held is in sync at its pin, and
// its report tells of no hold; so is all that is behind it.
func TestWhyReadsTheHoldThatARolloutWaitsFor(t *testing.T) {
	w := newWorld(t)
	one := w.publish(0, w.policed(frontends()), w.command("web/a", "x"), w.command("web/b", "x"))
	w.govern("web/a", "web/b")
	w.publish(1, w.command("web/a", "y"), w.command("web/b", "y"))
	run := begun(1)
	run.Progress.Waits, run.Progress.For = "stage canary waits for web/a: it is held by ann: racks", []intent.AssetID{"web/a"}
	w.roll(run, intent.Pin{Asset: "web/b", Incarnation: intent.IncarnationID{Sequence: 1}}, intent.Pin{Asset: "web/a", Incarnation: intent.IncarnationID{Sequence: 1}})
	for _, asset := range []intent.AssetID{"web/a", "web/b"} {
		member, err := w.store.Member(t.Context(), one.ID, asset)
		w.must(err)
		w.must(w.store.SaveReports(t.Context(), w.lease, []intent.Report{
			{Partition: "shop", Asset: asset, Type: "lehr.command.v1.Command", State: intent.StateInSync, Target: one.ID, Effective: member.Effective, At: time.Now()},
		}))
	}
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "web/a", Owner: ann, Reason: "racks"}))
	for _, name := range []string{"web/b", "web/a", "shop"} {
		why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: name})
		w.must(err)
		if why.Root.GetAsset() != "web/a" || why.Root.GetOwner() != ann.Name || why.Hint != "lehr unhold web/a --reason WHY lets it be pushed" {
			t.Errorf("%s: %q, hint %q, root %v", name, why.Summary, why.Hint, why.Root)
		}
	}
	w.must(w.store.Unhold(t.Context(), "shop", "web/a", "done", ann))
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop"})
	w.must(err)
	if len(why.Causes) > 0 {
		t.Errorf("nothing is held, and it tells of %v", why.Causes)
	}
}

// TestRecordsAreSent whole, in parts.
func TestRecordsAreSent(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	record := store.JudgementName(time.Now(), "frontends@1/canary/errors")
	content := bytes.Repeat([]byte("record"), 1<<20)
	w.must(w.store.PutBlobs(t.Context(), w.lease, store.JudgementBlobs, map[string][]byte{record: content}))
	if got, err := w.client.Judgement(t.Context(), "shop", record); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	_, err := w.client.Judgement(t.Context(), "shop", "frontends@1/canary/errors")
	w.refused(err, fault.NotFound, `keeps no record "frontends@1/canary/errors"`)
}

// TestARunTellsWhoseChangeItBrings: the commits of the sources that changed with the
// incarnation, and no others.
func TestARunTellsWhoseChangeItBrings(t *testing.T) {
	w := newWorld(t)
	commit := func(source, revision, subject string) intent.SourceRevision {
		return intent.SourceRevision{Source: source, Revision: revision, Commit: intent.Commit{Author: "Bob <bob@example.com>", Subject: subject, Time: time.Unix(1, 0)}}
	}
	w.sources = []intent.SourceRevision{commit("site", "a", "begin"), commit("knobs", "a", "begin")}
	w.publish(0, w.policed(frontends()), w.command("web/a", "x"))
	w.sources[0] = commit("site", "b", "serve more")
	second := w.publish(1, w.command("web/a", "y"))
	first := begun(1)
	first.State, first.Ended = intent.RolloutSuperseded, first.Began
	w.roll(first)
	run := begun(2)
	run.To = second.ID
	w.roll(run)
	for number, want := range map[uint64]string{1: "site: begin, knobs: begin", 2: "site: serve more"} {
		got, err := w.client.Rollouts.GetRollout(t.Context(), &apipb.GetRolloutRequest{Partition: "shop", Rollout: "frontends", Run: number})
		w.must(err)
		var told []string
		for _, r := range got.Rollout.Run.Changed {
			told = append(told, r.Source+": "+r.Commit.GetSubject())
		}
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("run %d brings %s, want %s", number, got, want)
		}
	}
}
