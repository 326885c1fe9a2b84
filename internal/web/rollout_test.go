package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// policy is an asset that says one rollout, of two stages.
func (w *world) policy(rollouts ...*intentpb.Rollout) intent.Asset {
	w.Helper()
	payload, err := schema.Builtin().Pack(&intentpb.Policy{
		Rollouts: rollouts, Plugins: []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}},
	})
	w.must(err)
	return intent.Asset{ID: intent.PolicyAsset, Payload: payload}
}

// step is one of the strategist's.
func (w *world) step(run intent.Rollout, seen []intent.Observation, pins ...intent.Pin) {
	w.Helper()
	p, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	run.Partition, run.Name = "shop", "frontends"
	for i := range pins {
		pins[i].Rank, pins[i].Holder, pins[i].Incarnation.Partition = intent.RankRollout, intent.RolloutHolder(run.Name), "shop"
	}
	for i := range seen {
		seen[i].Rollout = run.Name
	}
	w.must(w.store.SaveRollout(w.Context(), w.lease, store.RolloutStep{Revision: p.Revision, Run: run, Pins: pins, Observed: seen}))
}

// soaking is a run whose canary soaks.
func soaking() intent.Rollout {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return intent.Rollout{
		Run: 1, State: intent.RolloutRunning, To: intent.IncarnationID{Partition: "shop", Sequence: 1}, Began: now.Add(-5 * time.Minute), By: ann, Reason: hostile[0],
		Progress: intent.RolloutProgress{
			Stages: []intent.StageProgress{
				{Name: "canary", Total: 1, Selected: 1, Waits: "for web/a to be healthy for 6m0s", Began: now.Add(-5 * time.Minute)},
				{Name: "rest", Total: 2, Waits: "for the stages before it"},
			},
			Waits: "stage canary waits for web/a to be healthy for 6m0s", For: []intent.AssetID{"web/a"}, Next: now.Add(6 * time.Minute),
			Verdicts: []intent.ValidationVerdict{{Validation: "errors", Stage: "canary", Result: "waiting", At: now, Reason: hostile[1], Metrics: []intent.MetricVerdict{
				{Name: "rate", Result: "good", Reason: "at most 3 % worse", Values: []float64{1, 2, 9, 4}, Baseline: []float64{1, 1, 2}},
				{Name: "none", Result: "waiting", Reason: "no samples"},
			}}},
		},
		Events: []intent.RolloutEvent{
			{At: now.Add(-5 * time.Minute), By: ann, Kind: "begin", Text: "to shop@1: 3 assets differ"},
			{At: now.Add(-4 * time.Minute), By: intent.RolloutHolder("frontends"), Kind: "select", Text: "1 asset goes on: web/a" + hostile[2]},
		},
	}
}

// rolled is a partition whose canary has soaked for four minutes.
func (w *world) rolled() {
	w.Helper()
	w.publish(0, w.policy(&intentpb.Rollout{
		Name: "frontends", Select: `id.startsWith("web/")`, Emergency: []*intentpb.RolloutStage{{Name: "one", Count: 1}, {Name: "all"}},
		Stages: []*intentpb.RolloutStage{{Name: "canary", Where: `id == "web/a"`, Soak: durationpb.New(10 * time.Minute)}, {Name: "rest", Count: 1}},
	}), w.command("web/a", "x"), w.command("web/b", "x"), w.command("web/c", "x"))
	w.must(w.store.Govern(w.Context(), w.lease, intent.IncarnationID{Partition: "shop", Sequence: 2}, []store.Governed{{Asset: "web/a", Rollout: "frontends"}, {Asset: "web/b", Rollout: "frontends"}, {Asset: "web/c", Rollout: "frontends"}}))
	now := time.Now().UTC().Truncate(time.Microsecond)
	w.step(soaking(), []intent.Observation{{Asset: "web/a", Selected: now.Add(-5 * time.Minute), Arrived: now.Add(-4 * time.Minute), Seen: now, Healthy: 4 * time.Minute}},
		intent.Pin{Asset: "web/a", Incarnation: intent.IncarnationID{Sequence: 1}})
}

// TestRolloutBoard: how it stands first, stages as columns with their assets, verdicts
// with plots, what can be asked of it, and events; the list and the runs lead there.
func TestRolloutBoard(t *testing.T) {
	w := newWorld(t)
	w.shows("/partition/shop/rollouts", "There are no rollouts")
	w.rolled()
	w.shows("/partition/shop/rollouts", `href="partition/shop/rollout/frontends"`, "stage canary waits for web/a", "running")
	board := w.shows("/partition/shop/rollout/frontends", "stage canary waits for web/a to be healthy", "healthy 4m0s of 10m0s", `href="partition/shop/asset/web/b"`,
		`<polyline class="values"`, `<polyline class="baseline"`, "lehr rollout pause frontends --reason WHY --partition shop", "lehr rollout emergency", "0 of 1 asset done, 1 let go on", "by <bdi>ann</bdi>", "itself")
	w.shows("/partition/shop/rollout/frontends", `href="partition/shop/rollout/frontends?forecast=yes"`)
	w.shows("/partition/shop/rollout/frontends?forecast=yes", "The rest of the run", "rest</th>", "web/b")
	if strings.Contains(board, "lehr rollout resume") || strings.Contains(board, "lehr rollout release") {
		t.Error("it proposes what makes no sense now")
	}
	for _, raw := range hostile[:3] {
		if strings.ContainsAny(raw, "<\x1b") && strings.Contains(board, raw) {
			t.Errorf("it shows %q as it is", raw)
		}
	}
	if state, stages, events := strings.Index(board, `id="rollout"`), strings.Index(board, `id="stages"`), strings.Index(board, `id="events"`); state > stages || stages > events {
		t.Error("its parts are in another order")
	}
	_, err := w.store.OrderRollout(t.Context(), intent.RolloutOrder{Partition: "shop", Name: "frontends", Kind: intent.OrderPause, Reason: "lunch", By: ann})
	w.must(err)
	if asked := words(w.shows("/partition/shop/rollout/frontends")); !strings.Contains(asked, "Asked to pause by ann") {
		t.Errorf("what was asked is not shown: %s", asked)
	}
	paused := soaking()
	paused.State, paused.Orders = intent.RolloutPaused, 1<<40
	paused.Events = append(paused.Events, intent.RolloutEvent{At: time.Now(), By: ann, Kind: "pause", Text: "lunch"})
	w.step(paused, nil)
	if text := words(w.shows("/partition/shop/rollout/frontends", "lehr rollout resume frontends")); !strings.Contains(text, "Paused by ann") || strings.Contains(text, "Asked to") {
		t.Errorf("paused, it says %s", text)
	}
	judged := soaking()
	judged.Progress.Stages[0].Done, judged.Progress.Stages[0].Waits = 1, "for the validation errors, which is waiting"
	w.step(judged, nil)
	if text := words(w.shows("/partition/shop/rollout/frontends")); !strings.Contains(text, "canary under way") || !strings.Contains(text, "waits for the validation errors") {
		t.Errorf("while a validation is awaited, it says %s", text)
	}
	asked := soaking()
	asked.Progress.Wait(intent.CauseApproval, "stage rest waits for people: 1 of 2 have approved it; lehr rollout approve frontends rest --reason WHY", nil)
	asked.Progress.Stages[1].Waits = "for people: 1 of 2 have approved it"
	asked.Progress.Stages[1].Approval = &intent.StageApproval{State: intent.ApprovalAsked, Approved: 1, Needs: 2, Roles: []intent.Role{intent.Approver}}
	asked.Votes = []intent.StageVote{{Stage: "rest", By: ann, Approve: true, Reason: "fine" + hostile[0], At: time.Now()}}
	w.step(asked, nil)
	if text := words(w.shows("/partition/shop/rollout/frontends", "lehr rollout approve frontends rest --reason WHY --partition shop", "Approve the stage", "Reject the stage")); !strings.Contains(text, "approved by 1 of the 2 people that it needs") || !strings.Contains(text, "approved by ann") {
		t.Errorf("while people are asked, it says %s", text)
	}
	w.shows("/inbox", "stages of rollouts that wait for people", "stage rest of rollout frontends", "act/rollout-approve?rollout=frontends&amp;run=1&amp;stage=rest")
	w.shows("/partition/shop/act/rollout-approve?rollout=frontends&run=1&stage=rest", "Approve the stage", "1 of 2 have approved it")
	w.shows("/partition/shop/act/rollout-reject?rollout=frontends&run=9&stage=rest", "run 9 of rollout frontends is not the newest any more")
	alsoPaused := asked
	alsoPaused.State = intent.RolloutPaused
	w.step(alsoPaused, nil)
	w.shows("/inbox", "stage rest of rollout frontends", "paused", "act/rollout-resume?rollout=frontends")
	back := asked
	back.State, back.Progress.Stages = intent.RolloutRollingBack, slices.Clone(asked.Progress.Stages)
	back.Progress.Stages[1].Approval = &intent.StageApproval{State: intent.ApprovalRejected, Needs: 2, RejectedBy: "ann"}
	w.step(back, nil)
	if _, text, _ := strings.Cut(words(w.shows("/partition/shop/rollout/frontends")), " Stages "); strings.Contains(text, "waits for people") || !strings.Contains(text, "canary under way") {
		t.Errorf("stages of a run that goes back are told so: %s", text)
	}
	if _, inbox := w.get("/inbox"); strings.Contains(inbox, "stage rest of rollout") {
		t.Error("people are asked of a run that goes back")
	}
	bad := soaking()
	bad.State, bad.Bad, bad.Back, bad.Ended = intent.RolloutRolledBack, "web/a is unhealthy", intent.IncarnationID{Partition: "shop", Sequence: 1}, time.Now()
	w.step(bad, nil)
	next := soaking()
	next.Run = 2
	w.step(next, nil)
	w.shows("/partition/shop/runs/frontends", `href="partition/shop/rollout/frontends?run=1"`, "web/a is unhealthy")
	first := w.shows("/partition/shop/rollout/frontends?run=1", "run 1", "What it brought is bad:", "It goes back to")
	if strings.Contains(first, "lehr rollout") {
		t.Error("it proposes to ask something of a run that is over")
	}
	if _, text, _ := strings.Cut(words(first), " Stages "); !strings.Contains(text, "canary went back") || !strings.Contains(text, "rest did not begin") || strings.Contains(text, "waits for") {
		t.Errorf("stages of a run that went back are told so: %s", text)
	}
	for path, want := range map[string]int{"/partition/shop/rollout/none": 404, "/partition/shop/rollout/frontends?run=9": 404, "/partition/shop/rollout/frontends?run=x": 400, "/partition/shop/runs/none": 404, "/partition/shop/rollout": 404} {
		if status, _ := w.get(path); status != want {
			t.Errorf("%s answered %d, want %d", path, status, want)
		}
	}
}

// TestFieldsOfARun: what each was, where it is, and who set it since.
func TestFieldsOfARun(t *testing.T) {
	w := newWorld(t)
	w.rolled()
	now := time.Now().UTC().Truncate(time.Microsecond)
	run := soaking()
	run.To, run.Value = intent.IncarnationID{}, []byte(`"v2"`)
	run.Edits = []intent.RolloutEdit{
		{Document: "knobs", Pointer: "/a/version", Before: []byte(`"v1"`), Revision: "7", At: now, Landed: intent.IncarnationID{Partition: "shop", Sequence: 1}},
		{Document: "knobs", Pointer: "/b/version", At: now},
		{Document: "knobs", Pointer: "/c/version", Before: []byte(`"v1"`), Changed: "bob at noon" + hostile[0]},
	}
	for i := range 300 {
		run.Edits = append(run.Edits, intent.RolloutEdit{Document: "knobs", Pointer: fmt.Sprintf("/more/%d", i), At: now})
	}
	w.step(run, nil)
	text := words(w.shows("/partition/shop/rollout/frontends", `href="partition/shop/incarnation/1"`))
	for _, want := range []string{`/a/version "v1" 7`, "in head", "/b/version nothing about to be set", "kept as set by bob at noon", "and 103 other fields"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
}
