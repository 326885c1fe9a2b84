package enforcer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// losing is a store that carries out admissions, and loses the answers of as
// many as are left.
type losing struct {
	Stores
	left int
}

func (l *losing) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	refusals, err := l.Stores.Admit(ctx, lease, admissions)
	if err == nil && l.left > 0 {
		l.left--
		return nil, fault.New(fault.Unavailable, "the connection was lost")
	}
	return refusals, err
}

func TestAnAdmissionWhoseAnswerIsLostBlocksNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.stores = &losing{Stores: w.store, left: 2} })
		w.publish(web, db)
		w.inSync(web, db)
		w.pass(time.Minute)
		open, err := w.store.OpenPushes(w.ctx, shop)
		w.must(err)
		if len(open) != 0 {
			t.Errorf("still open: %v (L6)", open)
		}
		if got := w.production.pushes(""); got != 2 {
			t.Errorf("%d pushes, want 2: what was not answered is not begun", got)
		}
	})
}

// refusing is a store that takes no reports while it is told so.
type refusing struct {
	Stores
	on atomic.Bool
}

func (r *refusing) SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error {
	if r.on.Load() {
		return fault.New(fault.Unavailable, "the store is full")
	}
	return r.Stores.SaveReports(ctx, lease, reports)
}

// TestAReportThatCouldNotBeSavedIsSavedLater: the same is said again before the
// store takes it (L4).
func TestAReportThatCouldNotBeSavedIsSavedLater(t *testing.T) {
	simulate(t, func(w *world) {
		r := &refusing{Stores: w.store}
		w.restart(func() { w.stores = r })
		w.publish(web)
		w.inSync(web)
		r.on.Store(true)
		w.publish(webV2)
		w.pass(5 * time.Minute)
		r.on.Store(false)
		w.pass(2 * time.Minute)
		if report := w.report("web"); report.Target != w.head {
			t.Errorf("two minutes after the store came back, web is still reported %s at %s", report.State, report.Target)
		}
	})
}

// forgetful is a store that records what was enforced, does something
// meanwhile, and loses the answer.
type forgetful struct {
	Stores
	meanwhile func()
	lost      error
}

func (f *forgetful) SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	claims, err := f.Stores.SaveEnforced(ctx, lease, enforced)
	if meanwhile := f.meanwhile; meanwhile != nil && err == nil {
		f.meanwhile = nil
		meanwhile()
		time.Sleep(5 * time.Second)
		return claims, f.lost
	}
	return claims, err
}

// TestAGuardIsThatOfWhatWasRecorded: content that asks for approvals is being
// recorded as enforced when a commit drops that. Whether the answer is late or
// lost, the guard of what was enforced holds (S9, S23).
func TestAGuardIsThatOfWhatWasRecorded(t *testing.T) {
	for name, lost := range map[string]error{"late": nil, "lost": fault.New(fault.Unavailable, "the connection was lost")} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				marked := webV2.with(&intentpb.Approval{Reason: "precious"})
				f := &forgetful{Stores: w.store, lost: lost}
				w.restart(func() { w.stores = f })
				w.publish(web)
				w.inSync(web)
				f.meanwhile = func() { w.publish(thing{id: "web", word: "v3"}) }
				w.publish(marked)
				w.waitsOn("web", intent.WaitApproval)
				report := w.report("web")
				w.must(w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: "web", Effective: report.Effective, Plan: report.PlanDigest, By: tester}))
				w.eventually("v2 is there", func() bool { return w.production.word("web") == "v2" })
				w.pass(time.Minute)
				if got := w.production.word("web"); got != "v2" {
					t.Errorf("%s was pushed without the approval that v2 asks for", got)
				}
				w.waitsOn("web", intent.WaitApproval)
			})
		})
	}
}
