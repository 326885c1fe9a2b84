package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testJournal(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Record", func(t *testing.T) { journalRecord(newWorld(t, open)) })
	t.Run("Permit", func(t *testing.T) { permit(newWorld(t, open)) })
}

func journalRecord(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	a := w.admission("p1", "a", at(1))
	a.ResourceKey, a.Base = "cluster/a", "base-1"
	w.admitted(a)
	open, err := w.OpenPushes(ctx, shop)
	w.must(err)
	want := store.OpenPush{
		Push: "p1", Asset: "a", Target: at(1), Effective: a.Effective, Plan: a.Plan, ResourceKey: "cluster/a",
		Epoch: w.lease.Epoch, Admitted: noon,
	}
	if diff := cmp.Diff([]store.OpenPush{want}, open); diff != "" {
		t.Errorf("the open push reads differently:\n%s", diff)
	}
	w.must(w.ClosePushes(ctx, w.lease, []store.Closing{
		{Push: "p1", Ending: "failed", Reason: "no quota", At: noon.Add(time.Second)}, {Push: "unknown", Ending: "pushed"},
	}))
	w.closePush("p1", "pushed") // endedPush already
	w.closePush("p1", store.EndingInDoubt)
	w.admitted(w.admission("p2", "a", at(1)))
	w.admitted(w.admission("p3", "b", at(1)))
	list, err := w.Pushes(ctx, shop, "a", 0)
	w.must(err)
	if len(list) != 2 || list[0].Push != "p2" || list[1].Push != "p1" {
		t.Fatalf("newest first: %+v", list)
	}
	if endedPush := list[1]; endedPush.Ending != "failed" || endedPush.Reason != "no quota" || !endedPush.Ended.Equal(noon.Add(time.Second)) || endedPush.Doubt {
		t.Errorf("the ended push is %+v", endedPush)
	}
	if list[0].Ending != "" || !list[0].Ended.IsZero() {
		t.Errorf("the open push is %+v", list[0])
	}
	list, err = w.Pushes(ctx, shop, "", 2)
	w.must(err)
	if len(list) != 2 || list[0].Push != "p3" || list[1].Push != "p2" {
		t.Errorf("the partition's newest two are %+v", list)
	}
}

func permit(w *world) {
	ctx := w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	w.admitted(w.admission("p1", "a", at(1)))
	granted := func() { w.t.Helper(); w.must(w.Permit(ctx, w.lease, "p1", noon)) }
	refused := func() { w.t.Helper(); w.refused(w.Permit(ctx, w.lease, "p1", noon), fault.Conflict) }
	granted()
	w.refused(w.Permit(ctx, w.lease, "unknown", noon), fault.Conflict)

	for _, scope := range []intent.PartitionID{shop, ""} {
		w.must(w.SetStop(ctx, intent.Stop{Partition: scope, Owner: bob, Reason: "fire"}))
		refused()
		w.must(w.Resume(ctx, scope, "out", bob))
		granted()
	}
	w.publish(entry("b", "y")) // head moved, the asset's content did not
	granted()
	w.publish(entry("a", "y"))
	refused()
	// A pin brings the target back, while it lasts.
	_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(2), Rank: intent.RankRollout, Holder: bob, Until: noon.Add(time.Minute)})
	w.must(err)
	granted()
	w.refused(w.Permit(ctx, w.lease, "p1", noon.Add(time.Hour)), fault.Conflict)
	w.must(w.Unpin(ctx, shop, "a", intent.RankRollout, "a try", bob))
	w.publish(removal("a"))
	refused()
	w.publish(entry("a", "x"))
	granted()
	w.closePush("p1", store.EndingInDoubt)
	refused()
	w.closePush("p1", "settled")
	refused()
	w.admitted(w.admission("p2", "a", at(5)))
	w.must(w.Permit(ctx, w.lease, "p2", noon))
	lease, err := w.Acquire(ctx, shop, "server-2")
	w.must(err)
	w.refused(w.Permit(ctx, w.lease, "p2", noon), fault.Conflict)
	w.refused(w.Permit(ctx, lease, "p2", noon), fault.Conflict) // admitted under another epoch
}

func testEnforced(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"))
	record := func(asset, key string) store.Enforced {
		return store.Enforced{
			Asset: intent.AssetID(asset), Type: job, Effective: digestOf("x"), Policy: digestOf("policy"),
			Incarnation: at(1), ResourceKey: intent.ResourceKey(key), At: noon,
		}
	}
	save := func(lease store.Lease, records ...store.Enforced) map[intent.AssetID]store.Claim {
		t.Helper()
		conflicts, err := w.SaveEnforced(ctx, lease, records)
		w.must(err)
		return conflicts
	}
	if conflicts := save(w.lease, record("a", "k/a"), record("c", "")); len(conflicts) != 0 {
		t.Errorf("free keys belong to %v", conflicts)
	}
	again := record("a", "k/a")
	again.Effective, again.At = digestOf("y"), noon.Add(time.Second)
	conflicts := save(w.lease, again, record("b", "k/a"))
	if diff := cmp.Diff(map[intent.AssetID]store.Claim{"b": {Key: "k/a", Partition: shop, Asset: "a"}}, conflicts); diff != "" {
		t.Errorf("holders of other's keys:\n%s", diff)
	}
	page, err := w.EnforcedPage(ctx, shop, "", 0)
	w.must(err)
	if diff := cmp.Diff([]store.Enforced{again, record("c", "")}, page); diff != "" {
		t.Errorf("enforced records:\n%s", diff)
	}
	page, err = w.EnforcedPage(ctx, shop, "a", 1)
	w.must(err)
	if len(page) != 1 || page[0].Asset != "c" {
		t.Errorf("the page after a is %+v", page)
	}
	count, err := w.EnforcedCount(ctx, shop)
	w.must(err)
	if count != 2 {
		t.Errorf("%d enforced records, want 2", count)
	}
	w.waits(claiming(w.admission("p1", "b", at(1)), "k/a"), intent.WaitClaim)

	// Another partition never gets it, a renamed asset takes it along.
	lease := w.register(theatre)
	w.publish(removal("a"))
	foreign := record("z", "k/a")
	foreign.Incarnation = intent.IncarnationID{Partition: theatre, Sequence: 1}
	if conflicts := save(lease, foreign); conflicts["z"].Partition != shop {
		t.Errorf("another partition took the key: %v", conflicts)
	}
	if conflicts := save(w.lease, record("b", "k/a")); len(conflicts) != 0 {
		t.Errorf("the renamed asset did not take its claim along: %v", conflicts)
	}
	w.admitted(claiming(w.admission("p1", "b", at(2)), "k/a"))
}

func claiming(a store.Admission, key intent.ResourceKey) store.Admission {
	a.ResourceKey = key
	return a
}

// testContention: what must hold under any interleaving of many callers.
func testContention(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	const callers, rounds, limit = 8, 12, 3
	var delta []store.Entry
	for i := range callers {
		delta = append(delta, entry(fmt.Sprintf("own/%d", i), "x"))
	}
	w.publish(append(delta, entry("shared", "x"))...)
	revision := w.revision()
	var running, most, sharedRunning, won atomic.Int64
	var group sync.WaitGroup
	admit := func(push, asset string) bool {
		refusals, err := w.Admit(t.Context(), w.lease, []store.Admission{{
			Push: intent.PushID(push), Asset: intent.AssetID(asset), Target: at(1), Revision: revision, At: noon,
			Budgets: []store.BudgetUse{{Key: "scope", Limit: limit}},
		}})
		if err != nil {
			t.Error(err)
			return false
		}
		return refusals[0] == nil
	}
	end := func(push string) {
		running.Add(-1)
		if err := w.ClosePushes(t.Context(), w.lease, []store.Closing{{Push: intent.PushID(push), Ending: "pushed", At: noon}}); err != nil {
			t.Error(err)
		}
	}
	for caller := range callers {
		group.Go(func() {
			for round := range rounds {
				for _, asset := range []string{fmt.Sprintf("own/%d", caller), "shared"} {
					push := fmt.Sprintf("%s-%d-%d", asset, caller, round)
					if !admit(push, asset) {
						continue
					}
					now := running.Add(1)
					for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
					}
					if asset == "shared" {
						won.Add(1)
						if sharedRunning.Add(1) > 1 {
							t.Error("two pushes of one asset at a time (S3)")
						}
						sharedRunning.Add(-1)
					}
					end(push)
				}
			}
		})
	}
	group.Wait()
	if most.Load() > limit {
		t.Errorf("%d pushes at a time under a budget of %d (S8)", most.Load(), limit)
	}
	if won.Load() == 0 {
		t.Error("no push of the shared asset was ever admitted")
	}
	// Everything was given back: the whole budget can be taken again.
	for i := range limit {
		if !admit(fmt.Sprint("last-", i), fmt.Sprintf("own/%d", i)) {
			t.Errorf("after all ended, push %d of %d is refused", i+1, limit)
		}
	}
	w.must(w.VerifyAudit(t.Context(), shop))
}
