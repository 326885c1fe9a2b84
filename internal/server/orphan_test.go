package server_test

import (
	"fmt"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func TestOrphansAreListedAndDisowned(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	var records []store.Enforced
	seen := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 5 {
		id := intent.AssetID(fmt.Sprint("web/", i))
		assets = append(assets, w.command(id, "x"))
		records = append(records, store.Enforced{
			Asset: id, Type: "lehr.command.v1.Command", Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 1},
			ResourceKey: intent.ResourceKey("file/" + id), At: seen,
		})
	}
	head := w.publish(0, assets...)
	_, err := w.store.SaveEnforced(t.Context(), w.lease, records)
	w.must(err)
	list := func(after string, limit int32) *apipb.ListOrphansResponse {
		t.Helper()
		response, err := w.client.Orphans.ListOrphans(t.Context(), &apipb.ListOrphansRequest{Partition: "shop", After: after, Limit: limit})
		w.must(err)
		return response
	}
	count := func(want int64) {
		t.Helper()
		one, err := w.client.Partitions.GetPartition(t.Context(), &apipb.GetPartitionRequest{Id: "shop"})
		w.must(err)
		all, err := w.client.Partitions.ListPartitions(t.Context(), &apipb.ListPartitionsRequest{})
		w.must(err)
		if one.Partition.Orphans != want || all.Partitions[0].Orphans != want {
			t.Errorf("the partition has %d orphans, listed %d, want %d", one.Partition.Orphans, all.Partitions[0].Orphans, want)
		}
	}
	if got := list("", 0); len(got.Orphans) != 0 || got.Next != "" {
		t.Errorf("what is in head is an orphan: %v", got)
	}
	count(0)

	var delta []store.Entry
	for _, asset := range assets[:4] {
		delta = append(delta, store.Entry{Asset: asset.ID, Removed: true})
	}
	w.must(w.store.Stage(t.Context(), w.lease, head.ID, delta))
	_, err = w.store.Publish(t.Context(), w.lease, intent.Incarnation{ID: intent.IncarnationID{Partition: "shop", Sequence: 2}, Parent: head.ID, Schema: head.Schema})
	w.must(err)
	first := list("", 2)
	if len(first.Orphans) != 2 || first.Next != "web/1" {
		t.Fatalf("first page: %v", first)
	}
	if o := first.Orphans[0]; o.Partition != "shop" || o.Asset != "web/0" || o.Type != "lehr.command.v1.Command" ||
		o.ResourceKey != "file/web/0" || o.Incarnation != "shop@1" || !o.Seen.AsTime().Equal(seen) {
		t.Errorf("an orphan: %v", o)
	}
	if last := list(first.Next, 2); len(last.Orphans) != 2 || last.Orphans[1].Asset != "web/3" || last.Next != "" {
		t.Errorf("last page: %v", last)
	}
	count(4)

	disown := func(partition, asset, reason string) error {
		_, err := w.client.Orphans.DisownOrphan(t.Context(), &apipb.DisownOrphanRequest{Partition: partition, Asset: asset, Reason: reason})
		return err
	}
	w.refused(disown("shop", "web/0", " "), fault.Invalid, "needs a reason")
	w.refused(disown("shop", "web/4", "x"), fault.NotFound, "shop@2 has it")
	w.refused(disown("shop", "Web 0", "x"), fault.Invalid, "Web 0")
	w.refused(disown("nowhere", "web/0", "x"), fault.NotFound, "not registered")
	w.must(disown("shop", "web/0", "the rack burned down"))
	w.refused(disown("shop", "web/0", "x"), fault.NotFound, "disowned")
	count(3)
	audited, err := w.store.AuditRecords(t.Context(), "shop", 0, 0)
	w.must(err)
	if last := audited[len(audited)-1]; last.Verb != "disown" || last.By.Name != ann.Name {
		t.Errorf("the audit says %+v", last)
	}
	_, err = w.client.Orphans.ListOrphans(t.Context(), &apipb.ListOrphansRequest{Partition: "nowhere"})
	w.refused(err, fault.NotFound, "not registered")
}
