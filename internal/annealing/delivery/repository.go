package delivery

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// visitNow has the document of a place visited as soon as can be.
func (d *Deliverer) visitNow(place *Place) { d.visits.Soon(place.Spec.GetDocument()) }

// includes reports whether a commit of a place's document is known to have another one in its
// history; where that is not known yet, the next visit looks.
func (d *Deliverer) includes(place *Place) func(commit, ancestor string) bool {
	return func(commit, ancestor string) bool {
		includes, ok := d.visits.Includes(place.Spec.GetDocument(), commit, ancestor)
		return ok && includes
	}
}

// goVisiting begins visits to the repositories of an application that are due. Next is when to look
// again; 0: it does not matter.
func (d *Deliverer) goVisiting(ctx context.Context, m *Moment) (next time.Duration) {
	if d.Repositories == nil {
		return 0
	}
	for i := range m.Places {
		place := &m.Places[i]
		if place.Partition.ID != d.Partition || !place.InRepository {
			continue
		}
		if left := d.visits.Go(ctx, place.Spec.GetDocument()); next == 0 || left < next {
			next = left
		}
	}
	return next
}

// outcomeOf is what came of the landing of a place at a visit; ok: it was tried.
func (d *Deliverer) outcomeOf(v *landing.Visit, m *Moment, place *Place) (outcome landing.Outcome, ok bool) {
	outcome, ok = v.Outcomes[keyOfPlace(m, place).String()]
	return outcome, ok && outcome.Number == place.landingNumber()
}

// decided returns what reports whether nothing changed that a landing was decided on, and the lease
// holds.
func (d *Deliverer) decided(m *Moment, place *Place) func(context.Context) bool {
	lease, application, said := d.lease, m.Spec.GetName(), m.Said
	revisions := map[intent.PartitionID]uint64{d.Partition: place.Partition.Revision, m.Home.ID: m.Home.Revision}
	home := m.Home.ID
	return func(ctx context.Context) bool {
		if err := d.Store.Check(ctx, lease); err != nil {
			return false
		}
		for id, revision := range revisions {
			if p, err := d.Store.Partition(ctx, id); err != nil || p.Revision != revision {
				return false
			}
		}
		rows, err := d.Store.DeliveryRecords(ctx, home, store.DeliveryFilter{Application: application, After: said, Limit: rowPage})
		return err == nil && len(rows) < rowPage && !slices.ContainsFunc(rows, func(r intent.DeliveryRecord) bool { return r.Kind.Said() })
	}
}
