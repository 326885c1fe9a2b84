package enforcer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
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
