package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testBrakes(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Pins", func(t *testing.T) { pins(newWorld(t, open)) })
	t.Run("Holds", func(t *testing.T) { holds(newWorld(t, open)) })
	t.Run("Retries", func(t *testing.T) { retries(newWorld(t, open)) })
	t.Run("Stops", func(t *testing.T) { stops(newWorld(t, open)) })
}

// moves fails the test unless f moves the revision.
func (w *world) moves(label string, f func()) {
	w.t.Helper()
	previous := w.revision()
	f()
	if current := w.revision(); current <= previous {
		w.t.Errorf("%s left the revision at %d (was %d)", label, current, previous)
	}
}

func pins(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"), entry("b", "1"))
	w.publish(entry("a", "2"), removal("b"))
	pin := intent.Pin{Asset: "a", Incarnation: at(2), Rank: intent.RankPerson, Holder: alice, Reason: "trial", Created: noon, Until: noon.Add(time.Hour)}
	var first, second intent.Pin
	w.moves("a pin", func() {
		var err error
		first, err = w.SetPin(ctx, pin)
		w.must(err)
	})
	pin.Incarnation, pin.Until = at(1), time.Time{}
	second, err := w.SetPin(ctx, pin)
	w.must(err)
	if first.Revision == 0 || second.Revision <= first.Revision {
		t.Errorf("pin revisions are %d, then %d", first.Revision, second.Revision)
	}
	rollout := pin
	rollout.Rank, rollout.Holder, rollout.Until = intent.RankRollout, bob, noon.Add(-time.Hour)
	third, err := w.SetPin(ctx, rollout)
	w.must(err)
	list, err := w.Pins(ctx, shop)
	w.must(err)
	if diff := cmp.Diff([]intent.Pin{third, second}, list); diff != "" {
		t.Errorf("pins are, the expired one too:\n%s", diff)
	}
	for asset, want := range map[intent.AssetID][]intent.Pin{"a": {third, second}, "b": nil} {
		assetPins, err := w.PinsOf(ctx, shop, asset)
		w.must(err)
		if diff := cmp.Diff(want, assetPins); diff != "" {
			t.Errorf("pins of %s are:\n%s", asset, diff)
		}
	}

	for _, bad := range []intent.Pin{
		{Asset: "a", Incarnation: at(9), Rank: intent.RankPerson},
		{Asset: "b", Incarnation: at(2), Rank: intent.RankPerson},
		{Asset: "a", Incarnation: intent.IncarnationID{Partition: "nowhere", Sequence: 1}, Rank: intent.RankPerson},
	} {
		_, err := w.SetPin(ctx, bad)
		w.refused(err, fault.NotFound)
	}
	_, err = w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(1)})
	w.refused(err, fault.Invalid)

	w.moves("unpinning", func() { w.must(w.Unpin(ctx, shop, "a", intent.RankPerson, "a try", alice)) })
	w.refused(w.Unpin(ctx, shop, "a", intent.RankPerson, "a try", alice), fault.NotFound)
	again, err := w.SetPin(ctx, pin)
	w.must(err)
	if again.Revision <= third.Revision {
		t.Errorf("after unpinning the revision is %d, it was %d (S16)", again.Revision, third.Revision)
	}
}

func holds(w *world) {
	t, ctx := w.t, w.t.Context()
	hold := intent.Hold{Asset: "a", Owner: alice, Reason: "looking at it", Created: noon, Until: noon.Add(time.Hour)}
	w.moves("a hold", func() { w.must(w.SetHold(ctx, shop, hold)) })
	hold.Owner, hold.Reason = bob, "mine now"
	w.must(w.SetHold(ctx, shop, hold))
	list, err := w.Holds(ctx, shop)
	w.must(err)
	if diff := cmp.Diff([]intent.Hold{hold}, list); diff != "" {
		t.Errorf("holds are:\n%s", diff)
	}
	w.refused(w.SetHold(ctx, "nowhere", hold), fault.NotFound)
	w.moves("ending a hold", func() { w.must(w.Unhold(ctx, shop, "a", "a try", bob)) })
	w.refused(w.Unhold(ctx, shop, "a", "a try", bob), fault.NotFound)
	list, err = w.Holds(ctx, shop)
	w.must(err)
	if len(list) != 0 {
		t.Errorf("after unhold: %v", list)
	}
}

func retries(w *world) {
	t, ctx := w.t, w.t.Context()
	read := func(sinceRevision uint64) []intent.AssetID {
		list, err := w.Retries(ctx, shop, sinceRevision)
		w.must(err)
		return list
	}
	revision := func() uint64 {
		partition, err := w.Partition(ctx, shop)
		w.must(err)
		return partition.Revision
	}
	firstRevision := revision()
	w.moves("a retry", func() { w.must(w.Retry(ctx, shop, "b", "mended", bob)) })
	secondRevision := revision()
	w.must(w.Retry(ctx, shop, "a", "mended", bob))
	for sinceRevision, want := range map[uint64][]intent.AssetID{firstRevision: {"a", "b"}, secondRevision: {"a"}, revision(): nil} {
		if diff := cmp.Diff(want, read(sinceRevision)); diff != "" {
			t.Errorf("retries since revision %d:\n%s", sinceRevision, diff)
		}
	}
	w.must(w.Retry(ctx, shop, "b", "again", bob))
	if diff := cmp.Diff([]intent.AssetID{"a", "b"}, read(secondRevision)); diff != "" {
		t.Errorf("an asset that is tried once more:\n%s", diff)
	}
	w.refused(w.Retry(ctx, "nowhere", "a", "mended", bob), fault.NotFound)
}

func stops(w *world) {
	t, ctx := w.t, w.t.Context()
	w.register(theatre)
	own := intent.Stop{Partition: shop, Owner: alice, Reason: "fire", Since: noon}
	w.moves("a stop", func() { w.must(w.SetStop(ctx, own)) })
	revision := w.revision()
	later := own
	later.Owner, later.Reason = bob, "another reason"
	w.must(w.SetStop(ctx, later))
	if w.revision() != revision {
		t.Error("stopping again moved the revision")
	}
	if diff := cmp.Diff(&own, w.partition(shop).Stop); diff != "" {
		t.Errorf("the stop of the partition:\n%s", diff)
	}
	if stop := w.partition(theatre).Stop; stop != nil {
		t.Errorf("the other partition is stopped too: %+v", stop)
	}
	w.refused(w.SetStop(ctx, intent.Stop{Partition: "nowhere", Owner: alice}), fault.NotFound)
	w.refused(w.Resume(ctx, "", "not stopped", alice), fault.NotFound)

	all := intent.Stop{Owner: bob, Reason: "flood", Since: noon}
	theatreRevision := w.partition(theatre).Revision
	w.moves("a stop of all", func() { w.must(w.SetStop(ctx, all)) })
	if w.partition(theatre).Revision <= theatreRevision {
		t.Error("a stop of all left the other partition's revision")
	}
	w.must(w.AddPartition(ctx, "later", "/srv/later.yaml", "a try", alice))
	for _, id := range []intent.PartitionID{shop, theatre, "later"} {
		if diff := cmp.Diff(&all, w.partition(id).Stop); diff != "" {
			t.Errorf("the stop of all, in %s:\n%s", id, diff)
		}
	}
	list, err := w.Stops(ctx)
	w.must(err)
	if diff := cmp.Diff([]intent.Stop{all, own}, list); diff != "" {
		t.Errorf("stops are:\n%s", diff)
	}
	w.moves("resuming all", func() { w.must(w.Resume(ctx, "", "dry again", bob)) })
	if diff := cmp.Diff(&own, w.partition(shop).Stop); diff != "" {
		t.Errorf("resuming all ended the partition's own stop:\n%s", diff)
	}
	w.moves("resuming", func() { w.must(w.Resume(ctx, shop, "put out", alice)) })
	if w.partition(shop).Stop != nil {
		t.Error("resumed, and still stopped")
	}
	w.refused(w.Resume(ctx, shop, "again", alice), fault.NotFound)
}
