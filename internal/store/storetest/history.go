package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Place is where a store lies, so that it can be put back to what it was.
type Place interface {
	// Open serves it; the test closes it.
	Open(t *testing.T) store.All
	// Keep copies it and PutBack puts the copy back, while it is closed.
	Keep(t *testing.T)
	PutBack(t *testing.T)
}

// Histories runs what holds when a store is put back to what it was (S15).
func Histories(t *testing.T, make func(t *testing.T) Place) {
	t.Run("PutBack", func(t *testing.T) { putBack(t, make(t)) })
	t.Run("PutBackTwice", func(t *testing.T) { putBackTwice(t, make(t)) })
	t.Run("NothingLost", func(t *testing.T) { nothingLost(t, make(t)) })
	t.Run("BeforeTheFirst", func(t *testing.T) { beforeTheFirst(t, make(t)) })
}

func serving(t *testing.T, place Place) *world {
	t.Helper()
	return &world{t: t, All: place.Open(t)}
}

// suspect fails the test unless the store stopped all pushes by itself.
func (w *world) suspect() store.History {
	w.t.Helper()
	h, err := w.History(w.t.Context())
	w.must(err)
	stops, err := w.Stops(w.t.Context())
	w.must(err)
	p := w.partition(shop)
	if h.Stop == nil || p.Stop == nil || !p.Stop.Adopt || len(stops) == 0 || !stops[0].Adopt {
		w.t.Fatalf("history %+v, partition's stop %+v, stops %+v: want the store's own in each", h, p.Stop, stops)
	}
	return h
}

func (w *world) trusted() {
	w.t.Helper()
	h, err := w.History(w.t.Context())
	w.must(err)
	if p := w.partition(shop); h.Stop != nil || p.Stop != nil {
		w.t.Fatalf("history %+v, partition's stop %+v: want none", h, p.Stop)
	}
}

func (w *world) adopt() store.Adopted {
	w.t.Helper()
	adopted, err := w.Adopt(w.t.Context(), store.Adoption{Reason: "seen", By: alice})
	w.must(err)
	w.trusted()
	return adopted
}

func (w *world) acquire() {
	w.t.Helper()
	var err error
	w.lease, err = w.Acquire(w.t.Context(), shop, "server-1")
	w.must(err)
}

// putBack: what was committed since is missed, and nothing that was shown to a
// target comes again.
func putBack(t *testing.T, place Place) {
	w, ctx := serving(t, place), t.Context()
	w.lease = w.register(shop)
	w.publish(entry("a", "1"), entry("b", "1"))
	w.admitted(w.admission("old", "a", at(1)))
	approval := intent.Approval{Partition: shop, Asset: "b", Effective: digestOf("x"), Plan: digestOf("p"), By: bob}
	w.must(w.Approve(ctx, approval))
	heldCandidate := candidate("held", intent.CandidateHeld)
	w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, []store.Entry{entry("c", "1")}))
	w.must(w.Acknowledge(ctx, heldCandidate.ID, "meant", bob))
	w.must(w.Stage(ctx, w.lease, at(1), []store.Entry{entry("d", "staged")}))
	w.must(w.Close())
	place.Keep(t)

	w = serving(t, place)
	w.trusted()
	w.acquire()
	w.must(w.Unstage(ctx, w.lease))
	w.publish(entry("a", "2"))
	w.publish(entry("a", "3"))
	w.acquire()
	lostLease := w.lease
	revision := w.revision()
	w.must(w.SetStop(ctx, intent.Stop{Partition: shop, Owner: bob, Reason: "an acknowledged stop"}))
	w.must(w.Close())
	place.PutBack(t)

	w = serving(t, place)
	suspicion := w.suspect()
	if suspicion.Lost < 6 && !suspicion.Unsure {
		t.Errorf("found %+v: at least six commits are missing", suspicion)
	}
	w.acquire()
	w.waits(w.admission("new", "b", at(1)), intent.WaitStop)
	if err := w.Permit(ctx, w.lease, "old", noon); !fault.Is(err, fault.Conflict) {
		t.Errorf("a permit under suspicion: %v", err)
	}
	// What somebody saw in sync with an incarnation that is lost is not recorded
	// under its name (S17); what there is, is.
	enforceAt := func(incarnation intent.IncarnationID) error {
		_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "a", Type: job, Effective: digestOf("x"), Incarnation: incarnation, At: noon}})
		return err
	}
	w.refused(enforceAt(at(2)), fault.Conflict)
	w.must(enforceAt(at(1)))
	if got := content(t, w, at(1)); got["a"] != "1" {
		t.Errorf("reads under suspicion give %v", got)
	}
	w.refused(w.Resume(ctx, "", "go on", bob), fault.Conflict)
	w.must(w.Close()) // It outlives a restart.
	w = serving(t, place)
	w.suspect()

	previousLease := w.lease
	adopted := w.adopt()
	p := w.partition(shop)
	if len(adopted.Partitions) != 1 || adopted.Partitions[0].Head != p.Head || adopted.Doubted != 1 || adopted.Voided != 2 {
		t.Errorf("adopted %+v; want one push in doubt, and an approval and an acknowledgement void", adopted)
	}
	if p.Head.Sequence <= 3 || p.Revision <= revision {
		t.Errorf("goes on at %s, revision %d, which were before", p.Head, p.Revision)
	}
	if diff := cmp.Diff(map[intent.AssetID]string{"a": "1", "b": "1"}, content(t, w, p.Head)); diff != "" {
		t.Errorf("head is not what it was:\n%s", diff)
	}
	w.refused(w.Check(ctx, previousLease), fault.Conflict)
	w.acquire()
	if w.lease.Epoch <= lostLease.Epoch {
		t.Errorf("epoch %d was shown to targets before: up to %d", w.lease.Epoch, lostLease.Epoch)
	}
	w.refused(w.Check(ctx, lostLease), fault.Conflict)
	w.waits(w.admission("again", "a", p.Head), intent.WaitSettling)
	needing := w.admission("approved", "b", p.Head)
	needing.NeedsApproval, needing.Effective, needing.Plan = true, digestOf("x"), digestOf("p")
	w.waits(needing, intent.WaitApproval)
	if _, acknowledged, err := w.Acknowledged(ctx, heldCandidate.ID); err != nil || acknowledged {
		t.Errorf("an acknowledgement is still there: %v, %v", acknowledged, err)
	}
	w.admitted(w.admission("new", "b", p.Head))
	next := w.next()
	next.ID = intent.IncarnationID{Partition: shop, Sequence: p.Head.Sequence + 1}
	w.must(w.Stage(ctx, w.lease, p.Head, []store.Entry{entry("c", "1")}))
	_, err := w.Publish(ctx, w.lease, next)
	w.must(err)
	if got := content(t, w, next.ID); len(got) != 3 || got["d"] != "" {
		t.Errorf("what was published next is %v", got)
	}
	_, err = w.Verify(ctx)
	w.must(err)
	_, err = w.Adopt(ctx, store.Adoption{Reason: "again", By: alice})
	w.refused(err, fault.Conflict)
	const knownEpoch = 5_000_000_000
	_, err = w.Adopt(ctx, store.Adoption{Reason: "its target knows more", By: alice, Beyond: knownEpoch})
	w.must(err)
	if w.acquire(); w.lease.Epoch <= knownEpoch {
		t.Errorf("epoch %d, though a target knows %d", w.lease.Epoch, uint64(knownEpoch))
	}
	w.must(w.Close())
	w = serving(t, place)
	w.trusted()
	w.must(w.Close())
}

// putBackTwice: the same copy again, of which the adopted store is not a part.
func putBackTwice(t *testing.T, place Place) {
	w := serving(t, place)
	w.lease = w.register(shop)
	w.publish(entry("a", "1"))
	w.must(w.Close())
	place.Keep(t)
	var epoch uint64
	var head intent.Sequence
	for range 3 {
		w = serving(t, place)
		if h, err := w.History(t.Context()); err != nil || h.Stop != nil {
			w.must(err)
			w.adopt()
		}
		w.acquire()
		if p := w.partition(shop); w.lease.Epoch <= epoch || p.Head.Sequence <= head && epoch > 0 {
			t.Fatalf("epoch %d and head %s were before: %d, %d", w.lease.Epoch, p.Head, epoch, head)
		}
		head = w.partition(shop).Head.Sequence + 1
		epoch = w.lease.Epoch
		w.must(w.Stage(t.Context(), w.lease, w.partition(shop).Head, []store.Entry{entry("a", "2")}))
		next := w.next()
		next.ID.Sequence = head
		_, err := w.Publish(t.Context(), w.lease, next)
		w.must(err)
		w.must(w.Close())
		place.PutBack(t)
	}
}

// nothingLost: a copy that lacks nothing is not suspect by what it holds.
func nothingLost(t *testing.T, place Place) {
	w := serving(t, place)
	w.lease = w.register(shop)
	w.publish(entry("a", "1"))
	w.must(w.Close())
	for range 3 {
		w = serving(t, place)
		w.trusted()
		w.acquire()
		w.admitted(w.admission("p-"+string(rune('0'+w.lease.Epoch)), "a", at(1)))
		w.closePush("p-"+string(rune('0'+w.lease.Epoch)), "pushed")
		w.must(w.Close())
	}
}

// beforeTheFirst: a partition of which the copy has no incarnation yet. The
// names of those that were lost do not come again.
func beforeTheFirst(t *testing.T, place Place) {
	w := serving(t, place)
	w.lease = w.register(shop)
	w.must(w.Close())
	place.Keep(t)
	w = serving(t, place)
	w.acquire()
	w.publish(entry("a", "lost"))
	w.must(w.Close())
	place.PutBack(t)
	w = serving(t, place)
	w.suspect()
	w.adopt()
	w.acquire()
	head := w.partition(shop).Head
	if head.Sequence <= 1 {
		t.Fatalf("head is %s, and the next one was published before", head)
	}
	if got := content(t, w, head); len(got) != 0 {
		t.Errorf("it has %v", got)
	}
	next := w.next()
	next.ID.Sequence = head.Sequence + 1
	w.must(w.Stage(t.Context(), w.lease, head, []store.Entry{entry("a", "1")}))
	_, err := w.Publish(t.Context(), w.lease, next)
	w.must(err)
	_, err = w.Verify(t.Context())
	w.must(err)
	w.must(w.Close())
}

// ClosedOnce closes a store when the test ends, unless the test did.
func ClosedOnce(t *testing.T, s store.All) store.All {
	closing := &closedOnce{All: s}
	t.Cleanup(func() { closing.Close() })
	return closing
}

type closedOnce struct {
	store.All
	closed bool
}

func (c *closedOnce) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return c.All.Close()
}
