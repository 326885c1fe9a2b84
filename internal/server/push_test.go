package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/store"
)

// TestAPushKeepsItsPlan: one push is answered with what was kept of its plan; lists and the timeline
// have the first changes, and count the others.
func TestAPushKeepsItsPlan(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "y"))
	p, err := w.store.Partition(t.Context(), "shop")
	w.must(err)
	plan := intent.Plan{Action: intent.ActionUpdate}
	for i := range 5 {
		plan.Changes = append(plan.Changes, intent.FieldChange{Path: fmt.Sprint("field-", i), Current: "ghp_0123456789abcdefghijklmnopqrstuvwxyz", Target: "2", Destructive: i >= 3, Writer: "kubectl"})
	}
	now := time.Now()
	for n, detail := range []intent.Plan{plan, {}} {
		id := intent.PushID(fmt.Sprint("shop/1-", n))
		_, err = w.store.Admit(t.Context(), w.lease, []store.Admission{{
			Push: id, Asset: "web", Target: p.Head, Plan: plan.Digest(), PlanDetail: detail, Revision: p.Revision, At: now.Add(time.Duration(n) * time.Millisecond),
			Budgets: []store.BudgetUse{{Key: "zone a", Limit: 1}}, Rates: []store.RateUse{{Key: "daily"}},
		}})
		w.must(err)
		w.must(w.store.ClosePushes(t.Context(), w.lease, []store.Closing{{Push: id, Ending: "pushed", At: now.Add(time.Duration(n) * time.Millisecond)}}))
	}
	change := func(n int, destructive bool) *apipb.FieldChange {
		return &apipb.FieldChange{Path: fmt.Sprint("field-", n), Current: "(redacted)", Target: "2", Destructive: destructive, Writer: "kubectl"}
	}
	brief := &apipb.PlanRecord{Action: "update", Changes: []*apipb.FieldChange{change(3, true), change(4, true), change(0, false)}, More: 2, Destructive: true}
	whole := &apipb.PlanRecord{Action: "update", Changes: append(append([]*apipb.FieldChange{}, brief.Changes...), change(1, false), change(2, false)), Destructive: true}

	one, err := w.client.Journal.GetPush(t.Context(), &apipb.GetPushRequest{Partition: "shop", Push: "shop/1-0"})
	w.must(err)
	if diff := cmp.Diff(whole, one.Push.PlanRecord, protocmp.Transform()); diff != "" {
		t.Errorf("the push has another plan:\n%s", diff)
	}
	if one.Push.AdmittedBy != w.lease.Holder || len(one.Push.Budgets) != 1 || one.Push.Budgets[0] != "zone a" || len(one.Push.Rates) != 1 || one.Push.Rates[0] != "daily" {
		t.Errorf("the push is %v", one.Push)
	}
	list, err := w.client.Journal.ListPushes(t.Context(), &apipb.ListPushesRequest{Partition: "shop"})
	w.must(err)
	if len(list.Pushes) != 2 || list.Pushes[0].PlanRecord != nil {
		t.Fatalf("the pushes are %v", list.Pushes)
	}
	if diff := cmp.Diff(brief, list.Pushes[1].PlanRecord, protocmp.Transform()); diff != "" {
		t.Errorf("a push in a list has another plan:\n%s", diff)
	}
	timeline, err := w.client.Reports.GetTimeline(t.Context(), &apipb.GetTimelineRequest{Partition: "shop", Asset: "web"})
	w.must(err)
	texts := map[string]string{
		"shop/1-0": "field-3 (redacted) → 2, +4 more, 2 destructive; content 000000000000, plan " + plan.Digest().Short(),
		"shop/1-1": "what it changed was not kept; content 000000000000, plan " + plan.Digest().Short(),
	}
	for _, e := range timeline.Events {
		if e.Kind != explain.EventAdmitted {
			if e.PlanRecord != nil {
				t.Errorf("the event %v has a plan", e)
			}
			continue
		}
		if e.Text != texts[e.Push] {
			t.Errorf("the timeline says of %s %q, want %q", e.Push, e.Text, texts[e.Push])
		}
		want := brief
		if e.Push == "shop/1-1" {
			want = nil
		}
		if diff := cmp.Diff(want, e.PlanRecord, protocmp.Transform()); diff != "" {
			t.Errorf("the plan of %s in the timeline:\n%s", e.Push, diff)
		}
		delete(texts, e.Push)
	}
	if len(texts) > 0 {
		t.Errorf("the timeline does not tell of %v", texts)
	}
}

func (w *world) readPushLog(_ intent.PartitionID, push intent.PushID) (pushlog.Log, bool) {
	return w.pushLog.Read(push)
}

// TestAPushUnderWayTellsItsLines: they are answered while it is under way by the server that carries it out,
// and of no other push.
func TestAPushUnderWayTellsItsLines(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("web", "y"))
	p, err := w.store.Partition(t.Context(), "shop")
	w.must(err)
	now := time.Now()
	_, err = w.store.Admit(t.Context(), w.lease, []store.Admission{{Push: "shop/1-0", Asset: "web", Target: p.Head, Plan: intent.Digest{1}, Revision: p.Revision, At: now}})
	w.must(err)
	get := func() *apipb.PushProgress {
		response, err := w.client.Journal.GetPush(t.Context(), &apipb.GetPushRequest{Partition: "shop", Push: "shop/1-0"})
		w.must(err)
		return response.Push.Progress
	}
	if progress := get(); progress != nil {
		t.Errorf("a push that another server carries out tells %v", progress)
	}
	w.pushLog.Open("shop/1-0")
	if progress := get(); progress == nil || len(progress.Lines) != 0 {
		t.Errorf("a push that told nothing yet tells %v", progress)
	}
	for i := range 201 {
		w.pushLog.Add("shop/1-0", fmt.Sprint("step ", i), now)
	}
	progress := get()
	if len(progress.GetLines()) != 200 || progress.Dropped != 1 || progress.Lines[199].Text != "step 200" || !progress.Lines[0].At.AsTime().Equal(now) {
		t.Errorf("the push tells %v", progress)
	}
	if list, err := w.client.Journal.ListPushes(t.Context(), &apipb.ListPushesRequest{Partition: "shop"}); err != nil || list.Pushes[0].Progress != nil {
		t.Errorf("a list of pushes tells lines: %v, %v", list, err)
	}
	w.must(w.store.ClosePushes(t.Context(), w.lease, []store.Closing{{Push: "shop/1-0", Ending: "pushed", At: now}}))
	if progress := get(); progress != nil {
		t.Errorf("a push that has ended tells %v", progress)
	}
}
