package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testPartitions(t *testing.T, open func(t *testing.T) store.All) {
	w := &world{t: t, All: open(t)}
	ctx := t.Context()

	_, err := w.Partition(ctx, shop)
	w.refused(err, fault.NotFound)
	w.refused(w.AddPartition(ctx, "Not An Id", "/srv/lehr.yaml", "a try", alice), fault.Invalid)
	w.refused(w.AddPartition(ctx, shop, "relative/lehr.yaml", "a try", alice), fault.Invalid)

	w.must(w.AddPartition(ctx, theatre, "/srv/theatre.yaml", "a try", alice))
	w.must(w.AddPartition(ctx, shop, "/srv/shop.yaml", "a try", alice))
	added := w.partition(shop)
	if added.Definition != "/srv/shop.yaml" || !added.Head.IsZero() || added.Created.IsZero() {
		t.Fatalf("a new partition is %+v", added)
	}

	w.must(w.AddPartition(ctx, shop, "/srv/shop.yaml", "a try", bob))
	if diff := cmp.Diff(added, w.partition(shop)); diff != "" {
		t.Errorf("adding the same again changed it:\n%s", diff)
	}
	w.must(w.AddPartition(ctx, shop, "/srv/moved.yaml", "a try", bob))
	if moved := w.partition(shop); moved.Definition != "/srv/moved.yaml" {
		t.Errorf("the definition did not move: %+v", moved)
	}

	const inGit = "https://git.example.com/shop.git//prod/lehr.yaml?ref=main"
	w.must(w.AddPartition(ctx, shop, inGit, "a try", bob))
	if moved := w.partition(shop); moved.Definition != inGit {
		t.Errorf("the definition did not move into a repository: %+v", moved)
	}

	list, err := w.ListPartitions(ctx)
	w.must(err)
	if len(list) != 2 || list[0].ID != shop || list[1].ID != theatre {
		t.Errorf("listed %+v", list)
	}

	lease, err := w.Acquire(ctx, shop, "server-1")
	w.must(err)
	w.lease = lease
	w.publish(entry("a", "x"))
	w.must(w.RemovePartition(ctx, shop, "a try", alice))
	w.refused(w.RemovePartition(ctx, shop, "a try", alice), fault.NotFound)
	_, err = w.Partition(ctx, shop)
	w.refused(err, fault.NotFound)
	w.refused(w.Check(ctx, lease), fault.Conflict)
	if got := content(t, w, at(1)); got["a"] != "x" {
		t.Errorf("removing a registration lost its incarnation: %v", got)
	}
	// Coming back it goes on where it was, with a higher epoch (S22).
	w.must(w.AddPartition(ctx, shop, "/srv/shop.yaml", "a try", alice))
	again, err := w.Acquire(ctx, shop, "server-1")
	w.must(err)
	if again.Epoch <= lease.Epoch || w.partition(shop).Head != at(1) {
		t.Errorf("after coming back: epoch %d (was %d), head %s", again.Epoch, lease.Epoch, w.partition(shop).Head)
	}
}

func testLeases(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"))
	w.admitted(w.admission("p1", "a", at(1)))

	_, err := w.Acquire(ctx, "nowhere", "server-1")
	w.refused(err, fault.NotFound)
	_, err = w.Acquire(ctx, shop, "")
	w.refused(err, fault.Invalid)
	w.must(w.Check(ctx, w.lease))

	stale := w.lease
	current, err := w.Acquire(ctx, shop, "server-2")
	w.must(err)
	if current.Epoch <= stale.Epoch {
		t.Fatalf("epoch %d follows %d", current.Epoch, stale.Epoch)
	}
	pushes, err := w.OpenPushes(ctx, shop)
	w.must(err)
	if len(pushes) != 1 || !pushes[0].Doubt {
		t.Errorf("after a change of holder the open push is not in doubt: %+v", pushes)
	}
	t.Run("StaleLeaseChangesNothing", func(t *testing.T) { staleLease(t, w, stale) })
	t.Run("ForgedLeaseChangesNothing", func(t *testing.T) {
		for _, forged := range []store.Lease{
			{Partition: shop, Holder: current.Holder, Epoch: current.Epoch + 1},
			{Partition: shop, Holder: "somebody else", Epoch: current.Epoch},
			{Partition: "nowhere", Holder: "server-1", Epoch: 1},
			{Partition: shop},
		} {
			staleLease(t, w, forged)
		}
	})
	w.must(w.Check(ctx, current))
	w.must(w.Release(ctx, current))
	w.refused(w.Check(ctx, current), fault.Conflict)
	w.refused(w.Release(ctx, current), fault.Conflict)
	w.t = t
	staleLease(t, w, current)
	again, err := w.Acquire(ctx, shop, "server-2")
	w.must(err)
	if again.Epoch <= current.Epoch {
		t.Errorf("epoch %d follows %d", again.Epoch, current.Epoch)
	}
}

// staleLease tries every write that acts for a partition (S4).
func staleLease(t *testing.T, w *world, stale store.Lease) {
	ctx := t.Context()
	recordsBefore, err := w.AuditRecords(ctx, shop, 0, 0)
	w.must(err)
	candidate := intent.Candidate{ID: intent.CandidateID{Partition: stale.Partition, Digest: digestOf("c")}, State: intent.CandidateHeld}
	for name, write := range map[string]func() error{
		"Check":         func() error { return w.Check(ctx, stale) },
		"Release":       func() error { return w.Release(ctx, stale) },
		"Unstage":       func() error { return w.Unstage(ctx, stale) },
		"Stage":         func() error { return w.Stage(ctx, stale, at(1), []store.Entry{entry("b", "y")}) },
		"Cover":         func() error { return w.Cover(ctx, stale, at(1), nil) },
		"SaveCandidate": func() error { return w.SaveCandidate(ctx, stale, candidate, nil) },
		"PutBlobs":      func() error { return w.PutBlobs(ctx, stale, "k", map[string][]byte{"n": []byte("v")}) },
		"Permit":        func() error { return w.Permit(ctx, stale, "p1", noon) },
		"ClosePushes": func() error {
			return w.ClosePushes(ctx, stale, []store.Closing{{Push: "p1", Ending: "pushed", At: noon}})
		},
		"SaveMemo": func() error {
			return w.SaveMemo(ctx, stale, "p1", intent.Memo{Key: "run", Bytes: []byte("started")})
		},
		"SaveReports": func() error {
			return w.SaveReports(ctx, stale, []intent.Report{{Asset: "a", State: intent.StateInSync}})
		},
		"Publish": func() error {
			next := w.next()
			next.ID.Partition = stale.Partition
			_, err := w.Publish(ctx, stale, next)
			return err
		},
		"Admit": func() error {
			_, err := w.Admit(ctx, stale, []store.Admission{{Push: "p2", Asset: "b", Target: intent.IncarnationID{Partition: stale.Partition, Sequence: 1}}})
			return err
		},
		"SaveEnforced": func() error {
			_, err := w.SaveEnforced(ctx, stale, []store.Enforced{{Asset: "a", Incarnation: at(1)}})
			return err
		},
		"Collect": func() error {
			_, err := w.Collect(ctx, stale, store.Retention{}, noon)
			return err
		},
	} {
		if err := write(); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s under lease %+v: got %v, want a conflict", name, stale, err)
		}
	}
	recordsAfter, err := w.AuditRecords(ctx, shop, 0, 0)
	w.must(err)
	if diff := cmp.Diff(recordsBefore, recordsAfter); diff != "" {
		t.Errorf("a stale lease left traces:\n%s", diff)
	}
	if head := w.partition(shop).Head; head != at(1) {
		t.Errorf("a stale lease moved head to %s", head)
	}
}
