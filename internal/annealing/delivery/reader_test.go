package delivery

import (
	"context"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// observed counts what a reader reads, and lacks rows after the last one that it kept.
type observed struct {
	Store
	versions int
	last     uint64
}

func (o *observed) Versions(ctx context.Context, partition intent.PartitionID, source string) ([]intent.Version, error) {
	o.versions++
	return o.Store.Versions(ctx, partition, source)
}

func (o *observed) DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter store.DeliveryFilter) (kept []intent.DeliveryRecord, err error) {
	rows, err := o.Store.DeliveryRecords(ctx, partition, filter)
	for _, row := range rows {
		if o.last == 0 || row.Number <= o.last {
			kept = append(kept, row)
		}
	}
	return kept, err
}

// read has a reader read the application of a world.
func (w *world) read(r *Reader, spec *intentpb.Delivery) *Moment {
	w.t.Helper()
	home, err := w.store.Partition(w.t.Context(), shop)
	w.must(err)
	m, err := r.Read(w.t.Context(), home, spec)
	w.must(err)
	return m
}

// TestVersionsAreReadWhenTheyChange: versions are put in order once, and again when they or the application
// changed.
func TestVersionsAreReadWhenTheyChange(t *testing.T) {
	w := newWorld(t, chain())
	spec := w.policies[shop].GetDeliveries()[0]
	o := &observed{Store: w.store}
	r := &Reader{Store: o, Schemas: schemas{}}
	expect := func(versions, reads int) {
		t.Helper()
		m := w.read(r, spec)
		if got := len(m.Catalogue.Ordered()); got != versions || o.versions != reads || len(m.Versions) != versions {
			t.Errorf("%d versions in order, %d known, after %d reads; want %d after %d", got, len(m.Versions), o.versions, versions, reads)
		}
	}
	expect(0, 1)
	expect(0, 2) // Nothing was saved, so nobody says that it did not change.
	w.list("1.0.0")
	expect(1, 3)
	expect(1, 3)
	w.list("1.0.0") // The same once more.
	expect(1, 3)
	w.list("1.0.0", "1.1.0")
	expect(2, 4)
	w.list("1.0.0")
	expect(2, 5)
	if !w.read(r, spec).Catalogue.Ordered()[1].Withdrawn {
		t.Error("the version that its source withdrew does not count as withdrawn")
	}
	spec = chain()
	spec.Order = &intentpb.VersionOrder{Prereleases: []string{"*"}}
	expect(2, 6)
	expect(2, 6)
}

// TestRowsThatWereLost: a database that went back to an earlier state lacks rows. A reader forgets them when
// the partition's next epoch begins.
func TestRowsThatWereLost(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0")
	o := &observed{Store: w.store}
	r := &Reader{Store: o, Schemas: schemas{}}
	w.act(intent.ActPause, "test", "")
	first := w.read(r, w.policies[shop].GetDeliveries()[0])
	w.act(intent.ActPin, "test", "1.0.0")
	second := w.read(r, w.policies[shop].GetDeliveries()[0])
	if len(first.Records) == 0 || len(second.Records) != len(first.Records)+1 || second.Said <= first.Said {
		t.Fatalf("%d rows, then %d", len(first.Records), len(second.Records))
	}
	o.last = first.Records[len(first.Records)-1].Number
	_, err := w.store.Acquire(t.Context(), shop, "after the failover")
	w.must(err)
	if m := w.read(r, w.policies[shop].GetDeliveries()[0]); len(m.Records) != len(first.Records) || m.Said != first.Said || len(m.Facts.Acts) != 1 {
		t.Errorf("%d rows, the last that was said is %d; want %d and %d", len(m.Records), m.Said, len(first.Records), first.Said)
	}
}
