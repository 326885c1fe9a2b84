package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testMemos(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Set", func(t *testing.T) { memosAreSet(newWorld(t, open)) })
	t.Run("Bounds", func(t *testing.T) { memosAreBounded(newWorld(t, open)) })
	t.Run("Fence", func(t *testing.T) { memosAreFenced(newWorld(t, open)) })
	t.Run("Forgotten", func(t *testing.T) { memosAreForgotten(newWorld(t, open)) })
	t.Run("Collected", func(t *testing.T) { memosAreCollected(newWorld(t, open)) })
}

func memo(key, text string) intent.Memo {
	return intent.Memo{Key: intent.ResourceKey(key), Bytes: []byte(text)}
}

// pushing is a world with open pushes p/a, p/b, … of assets a, b, ….
func (w *world) pushing(assets ...string) {
	w.t.Helper()
	var delta []store.Entry
	for _, asset := range assets {
		delta = append(delta, entry(asset, "x"))
	}
	w.publish(delta...)
	head := w.partition(shop).Head
	for _, asset := range assets {
		w.admitted(w.admission("p/"+asset, asset, head))
	}
}

func (w *world) save(push string, m intent.Memo) {
	w.t.Helper()
	w.must(w.SaveMemo(w.t.Context(), w.lease, intent.PushID(push), m))
}

// remembers fails the test unless the memos of an asset are these, as "key=bytes".
func (w *world) remembers(asset string, want ...string) {
	w.t.Helper()
	memos, err := w.Memos(w.t.Context(), shop, []intent.AssetID{intent.AssetID(asset)})
	w.must(err)
	var have []string
	for _, m := range memos[intent.AssetID(asset)] {
		have = append(have, string(m.Key)+"="+string(m.Bytes))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		w.t.Errorf("memos of %s:\n%s", asset, diff)
	}
}

func memosAreSet(w *world) {
	t, ctx := w.t, w.t.Context()
	w.pushing("a", "b", "c")
	w.remembers("a")
	w.save("p/a", memo("run/2", "started"))
	w.save("p/a", memo("run/1", "started 1"))
	w.save("p/b", memo("run/1", "of b"))
	w.remembers("a", "run/1=started 1", "run/2=started")
	w.save("p/a", memo("run/1", "over"))
	w.remembers("a", "run/1=over", "run/2=started")
	w.remembers("b", "run/1=of b")
	w.save("p/a", memo("run/2", ""))
	w.save("p/a", memo("run/9", "")) // There is none.
	w.remembers("a", "run/1=over")
	all, err := w.Memos(ctx, shop, []intent.AssetID{"c", "b", "a", "nothing"})
	w.must(err)
	want := map[intent.AssetID][]intent.Memo{"a": {memo("run/1", "over")}, "b": {memo("run/1", "of b")}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("memos of all:\n%s", diff)
	}
	if others, err := w.Memos(ctx, theatre, []intent.AssetID{"a", "b"}); err != nil || len(others) != 0 {
		t.Errorf("another partition has %v, %v", others, err)
	}
	for _, page := range []struct {
		after intent.AssetID
		limit int
		want  []intent.AssetID
	}{{"", 0, []intent.AssetID{"a", "b"}}, {"", 1, []intent.AssetID{"a"}}, {"a", 1, []intent.AssetID{"b"}}, {"b", 5, nil}} {
		assets, err := w.MemoAssets(ctx, shop, page.after, page.limit)
		w.must(err)
		if diff := cmp.Diff(page.want, assets); diff != "" {
			t.Errorf("%d assets with memos after %q:\n%s", page.limit, page.after, diff)
		}
	}
	// What a binary memo holds comes back as it was.
	bytes := make([]byte, intent.MaxMemoBytes)
	for i := range bytes {
		bytes[i] = byte(i * 7)
	}
	w.save("p/c", intent.Memo{Key: "k", Bytes: bytes})
	w.remembers("c", "k="+string(bytes))
}

func memosAreBounded(w *world) {
	ctx := w.t.Context()
	w.pushing("a", "b")
	for _, m := range []intent.Memo{
		memo("k", strings.Repeat("x", intent.MaxMemoBytes+1)), memo("k", strings.Repeat("x", 1<<20)),
		memo("", "x"), memo("a\nb", "x"), memo(strings.Repeat("k", intent.MaxMemoKeyBytes+1), "x"),
	} {
		w.refused(w.SaveMemo(ctx, w.lease, "p/a", m), fault.Invalid)
	}
	w.remembers("a")
	w.save("p/b", memo("z", "of b"))
	for i := range intent.MaxMemosPerAsset {
		w.save("p/a", memo(fmt.Sprint("k", i), "1"))
	}
	w.save("p/a", memo("k0", "2")) // It was set last by now.
	w.save("p/a", memo("k9", "1"))
	w.remembers("a", "k0=2", "k2=1", "k3=1", "k9=1")
	w.save("p/a", memo("k9", ""))
	w.save("p/a", memo("k1", "3"))
	w.remembers("a", "k0=2", "k1=3", "k2=1", "k3=1")
	w.remembers("b", "z=of b")
}

func memosAreFenced(w *world) {
	ctx := w.t.Context()
	w.pushing("a", "b")
	w.save("p/a", memo("run", "started 1"))
	w.closePush("p/b", "pushed")
	w.refused(w.SaveMemo(ctx, w.lease, "p/b", memo("run", "late")), fault.Conflict)
	w.refused(w.SaveMemo(ctx, w.lease, "unknown", memo("run", "x")), fault.Conflict)
	w.remembers("b")

	// After a failover the memo is read, and the old holder changes nothing.
	stale := w.lease
	lease, err := w.Acquire(ctx, shop, "server-2")
	w.must(err)
	w.refused(w.SaveMemo(ctx, stale, "p/a", memo("run", "of the old holder")), fault.Conflict)
	w.refused(w.SaveMemo(ctx, stale, "p/a", memo("run", "")), fault.Conflict)
	w.lease = lease
	w.refused(w.SaveMemo(ctx, w.lease, "p/a", memo("run", "of a push of another epoch")), fault.Conflict)
	w.remembers("a", "run=started 1")
	w.closePush("p/a", "settled")
	w.admitted(w.admission("p2", "a", at(1)))
	w.save("p2", memo("run", "over"))
	w.remembers("a", "run=over")
	w.closePush("p2", store.EndingInDoubt)
	w.refused(w.SaveMemo(ctx, w.lease, "p2", memo("run", "after its end was lost")), fault.Conflict)
	w.remembers("a", "run=over")

	// A push of another partition is none of this one's.
	theirs := w.register(theatre)
	w.refused(w.SaveMemo(ctx, theirs, "p2", memo("run", "of another partition")), fault.Conflict)
	w.remembers("a", "run=over")
	w.must(w.VerifyAudit(ctx, shop))
}

func memosAreForgotten(w *world) {
	ctx := w.t.Context()
	w.pushing("a", "b")
	w.save("p/a", memo("run", "1"))
	w.save("p/b", memo("run", "1"))
	w.closePush("p/a", "pushed")
	_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "a", Type: job, Incarnation: at(1), At: noon}})
	w.must(err)
	w.publish(removal("a"))
	w.remembers("a", "run=1") // An orphan keeps it.
	w.must(w.Disown(ctx, shop, "a", "it is gone", alice))
	w.remembers("a")
	w.remembers("b", "run=1")
	w.must(w.RemovePartition(ctx, shop, "a try", alice))
	w.must(w.AddPartition(ctx, shop, "/srv/shop.yaml", "a try", alice))
	w.remembers("b")
}

func memosAreCollected(w *world) {
	ctx := w.t.Context()
	w.pushing("down", "never", "here")
	for _, asset := range []string{"down", "never", "here"} {
		w.save("p/"+asset, memo("run", asset))
		w.closePush("p/"+asset, "failed")
	}
	_, err := w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "down", Type: job, Incarnation: at(1), Absent: true, At: noon}})
	w.must(err)
	collect := func(keep store.Retention, now time.Time) {
		w.t.Helper()
		_, err := w.Collect(ctx, w.lease, keep, now)
		w.must(err)
	}
	// The store's own clock says when a memo was set.
	day := store.Retention{Incarnations: 1, History: 24 * time.Hour}
	collect(day, time.Now().Add(100*24*time.Hour))
	w.remembers("down", "run=down")
	w.remembers("never", "run=never")
	w.publish(removal("down"), removal("never"))
	collect(store.Retention{Incarnations: 1, History: 1000 * 24 * time.Hour}, time.Now().Add(24*time.Hour))
	w.remembers("down") // Its removal is complete, and its record is gone.
	w.remembers("never", "run=never")
	collect(day, time.Now().Add(100*24*time.Hour))
	w.remembers("never")
	w.remembers("here", "run=here")
}
