package enforcer

import (
	"context"
	"testing"
	"time"

	"lehr.dev/fault"
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
