package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// testSearchedNames: a search finds what lists of the heads have, whatever came, changed and went between two searches,
// and whatever was collected.
func testSearchedNames(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	random := rand.New(rand.NewPCG(3, 4))
	present := map[string]bool{}
	check := func(label string) {
		t.Helper()
		var all []intent.AssetID
		if head := w.partition(shop).Head; !head.IsZero() {
			all = selectAssets(t, w, head, store.AssetFilter{Limit: 1000})
		}
		for _, fragment := range []string{"", "a", "7", "a/1", "web/09", "nothing", "b/2\nb"} {
			var want []string
			for _, asset := range all {
				if strings.Contains(string(asset), fragment) {
					want = append(want, string(asset))
				}
			}
			for _, partition := range []intent.PartitionID{shop, ""} {
				var got []string
				found, err := w.SearchAssets(ctx, store.SearchFilter{Partition: partition, Fragment: fragment}, func(id intent.PartitionID, asset intent.AssetID) (taken, more bool) {
					return id == shop, true
				})
				w.must(err)
				for _, a := range found {
					got = append(got, string(a.Asset))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s: a search for %q in %q:\n%s", label, fragment, partition, diff)
				}
			}
		}
	}
	check("no incarnation")
	for round := range 30 {
		delta := map[string]store.Entry{}
		for range random.IntN(20) + 1 {
			name := fmt.Sprintf("%s/%02d", []string{"a", "b", "web"}[random.IntN(3)], random.IntN(40))
			if present[name] && random.IntN(2) == 0 {
				delta[name] = removal(name)
			} else {
				delta[name] = entry(name, fmt.Sprint(round))
			}
		}
		var entries []store.Entry
		for name, e := range delta {
			present[name] = !e.Removed
			entries = append(entries, e)
		}
		slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
		w.publish(entries...)
		if round%7 == 3 {
			_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: time.Hour}, noon.Add(time.Duration(round)*24*time.Hour))
			w.must(err)
		}
		if random.IntN(3) > 0 {
			check(fmt.Sprint("round ", round))
		}
	}
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "web/09", State: intent.StateWaiting, At: noon}}))
	w.publish(entry("web/09", "at last"))
	check("the last round")
	count := 0
	found, err := w.SearchAssets(ctx, store.SearchFilter{Fragment: "web/"}, func(intent.PartitionID, intent.AssetID) (taken, more bool) {
		count++
		return count%2 == 0, count < 6
	})
	w.must(err)
	if len(found) != 3 || count != 6 {
		t.Errorf("of 6 ids every other is taken: %v", found)
	}
	found, err = w.SearchAssets(ctx, store.SearchFilter{Fragment: "web/09"}, func(intent.PartitionID, intent.AssetID) (taken, more bool) { return true, true })
	w.must(err)
	if len(found) != 1 || found[0].State != intent.StateWaiting {
		t.Errorf("an asset that waits is found as %+v", found)
	}
}
