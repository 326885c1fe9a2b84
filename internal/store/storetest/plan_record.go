package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// testPlanRecords: a push keeps its plan, through its end and for as long as itself; the
// audit tells the plan's size.
func testPlanRecords(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Kept", func(t *testing.T) { planIsKept(newWorld(t, open)) })
	t.Run("Hostile", func(t *testing.T) { hostilePlanIsBounded(newWorld(t, open)) })
	t.Run("Secret", func(t *testing.T) { secretOfAPlanIsNotKept(newWorld(t, open)) })
}

func planIsKept(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"), entry("d", "x"))
	small := w.admission("p1", "a", at(1))
	small.PlanDetail = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "replicas", Current: "3", Target: "5", Reason: "somebody scaled it", Writer: "kubectl"},
		{Path: "zone", Current: "a", Target: "b", Destructive: true},
	}}
	large := w.admission("p2", "b", at(1))
	large.PlanDetail.Action = intent.ActionCreate
	for i := range 60 {
		large.PlanDetail.Changes = append(large.PlanDetail.Changes, intent.FieldChange{Path: fmt.Sprintf("spec.field[%02d]", i), Target: fmt.Sprint("value ", i)})
	}
	empty := w.admission("p3", "c", at(1))
	empty.PlanDetail.Action = intent.ActionDelete
	w.admitted(small)
	w.admitted(large)
	w.admitted(empty)
	w.admitted(w.admission("p4", "d", at(1)))
	w.closePush("p1", store.EndingInDoubt)
	w.closePush("p1", "settled")
	w.closePush("p2", "pushed")
	want := map[intent.PushID]*intent.PlanRecord{
		"p1": {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{{FieldChange: small.PlanDetail.Changes[1]}, {FieldChange: small.PlanDetail.Changes[0]}}},
		"p2": {Action: intent.ActionCreate}, "p3": {Action: intent.ActionDelete}, "p4": nil,
	}
	for _, c := range large.PlanDetail.Changes {
		want["p2"].Changes = append(want["p2"].Changes, intent.RecordedChange{FieldChange: c})
	}
	list, err := w.Pushes(ctx, shop, "", 0)
	w.must(err)
	if len(list) != len(want) {
		t.Fatalf("%d pushes are listed", len(list))
	}
	for _, listed := range list {
		one, err := w.Push(ctx, shop, listed.Push)
		w.must(err)
		for _, push := range []store.PushRecord{listed, one} {
			if diff := cmp.Diff(want[push.Push], push.PlanRecord); diff != "" {
				t.Errorf("the plan of %s reads differently:\n%s", push.Push, diff)
			}
			if push.AdmittedBy != "server-1" {
				t.Errorf("push %s was admitted by %q", push.Push, push.AdmittedBy)
			}
		}
	}
	w.audits("p1", audit.PlanSize{Action: intent.ActionUpdate, Changes: 2, Destructive: 1})
	w.audits("p2", audit.PlanSize{Action: intent.ActionCreate, Changes: 60})
	w.audits("p3", audit.PlanSize{Action: intent.ActionDelete})
	w.audits("p4", audit.PlanSize{})
	w.must(w.VerifyAudit(ctx, shop))
}

// audits fails the test unless the record of the admission tells the digest and the size of its plan.
func (w *world) audits(push intent.PushID, want audit.PlanSize) {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), shop, 0, 0)
	w.must(err)
	for _, r := range records {
		if admitted, well := audit.ParseAdmitted(r.Detail); r.Verb == "admit" && admitted.Push == push {
			if plan := intent.Sum("test.plan", []byte(r.Subject)); !well || admitted.Size != want || admitted.Plan != plan.Short() {
				w.t.Errorf("the record of %s says %q, want %+v of plan %s", push, r.Detail, want, plan.Short())
			}
			return
		}
	}
	w.t.Errorf("no record tells of the admission of %s", push)
}

// hostilePlanIsBounded: a plan as large as plugins may tell one costs few bytes, and admission goes on.
func hostilePlanIsBounded(w *world) {
	w.publish(entry("a", "x"))
	a := w.admission("p1", "a", at(1))
	a.PlanDetail.Action = intent.ActionUpdate
	for i := range 1000 {
		text := strings.Repeat(string([]byte{byte(i), 0x1b, 0, byte(i >> 3), byte(i * 7), byte(i * 13), 0xff, '\''}), 1024)
		a.PlanDetail.Changes = append(a.PlanDetail.Changes, intent.FieldChange{Path: fmt.Sprintf("f%03d", i), Current: text, Target: text + "!", Destructive: i%2 == 1})
	}
	w.admitted(a)
	w.must(w.ClosePushes(w.t.Context(), w.lease, []store.Closing{{Push: "p1", Ending: "pushed", At: noon.Add(time.Second)}}))
	push, err := w.Push(w.t.Context(), shop, "p1")
	w.must(err)
	record := push.PlanRecord
	if record == nil || record.Count() != 1000 || record.CountDestructive() != 500 || len(record.Changes) < 2 || record.More == 0 {
		w.t.Fatalf("the plan of 1000 changes is kept as %+v", record)
	}
	for _, c := range record.Changes {
		if !c.Destructive || !c.Cut || intent.Shown(c.Current) != c.Current {
			w.t.Errorf("a change is kept as %+v", c)
		}
	}
	w.audits("p1", audit.PlanSize{Action: intent.ActionUpdate, Changes: 1000, Destructive: 500})
}

// secretOfAPlanIsNotKept: what the plugin redacted stays so, and what it forgot to redact is no part of
// what is kept (S13).
func secretOfAPlanIsNotKept(w *world) {
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	w.publish(entry("a", "x"))
	a := w.admission("p1", "a", at(1))
	a.PlanDetail = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "password", Current: "(redacted)", Target: "(redacted)"},
		{Path: "token", Current: "correct-horse", Target: "battery-staple"},
		{Path: "url", Current: "postgres://shop:correct-horse@db/shop", Target: secret, Reason: "because " + secret},
	}}
	w.admitted(a)
	push, err := w.Push(w.t.Context(), shop, "p1")
	w.must(err)
	want := &intent.PlanRecord{Action: intent.ActionUpdate, Changes: []intent.RecordedChange{
		{FieldChange: intent.FieldChange{Path: "password", Current: "(redacted)", Target: "(redacted)"}},
		{FieldChange: intent.FieldChange{Path: "token", Current: "(redacted)", Target: "(redacted)"}},
		{FieldChange: intent.FieldChange{Path: "url", Current: "postgres://shop:(redacted)@db/shop", Target: "(redacted)", Reason: "because (redacted)"}},
	}}
	if diff := cmp.Diff(want, push.PlanRecord); diff != "" {
		w.t.Errorf("secrets of a plan are kept:\n%s", diff)
	}
}
