package server_test

import (
	"fmt"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// TestWhoUsesAnAssetElsewhere: who reads its outputs in other partitions, and who refers to
// these, as far as the caller may see them; a circle through two partitions ends.
func TestWhoUsesAnAssetElsewhere(t *testing.T) {
	w := newWorld(t)
	in := func(partition intent.PartitionID) *world {
		w.must(w.store.AddPartition(t.Context(), partition, "/"+string(partition)+"/lehr.yaml", "a try", ann))
		other := *w
		var err error
		other.lease, err = w.store.Acquire(t.Context(), partition, "test")
		w.must(err)
		return &other
	}
	reading := func(id intent.AssetID, partition, asset string) intent.Asset {
		made := w.command(id, "x")
		addon, err := schema.Builtin().Pack(&intentpb.ReadsOutputs{
			Reads:      []*intentpb.ReadOutput{{Partition: partition, Elsewhere: asset, Output: "id"}, {Partition: partition, Elsewhere: asset, Output: "port"}},
			Partitions: map[string]uint32{partition: 2},
		})
		w.must(err)
		made.Addons = append(made.Addons, addon)
		return made
	}
	w.publish(0, reading("db", "net", "job"), w.command("web", "y", "db"), reading("back", "net", "edge"), w.command("alone", "x"))
	in("net").publish(0, reading("edge", "shop", "db"), w.command("job", "x", "edge"), reading("other", "eu", "db"))
	in("eu").publish(0, reading("site", "shop", "web"))

	tell := func(token store.Token, asset string) string {
		got, err := w.bear(token).Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: asset, Uses: true})
		w.must(err)
		var b strings.Builder
		for _, use := range got.Uses {
			fmt.Fprintf(&b, "%d %s/%s %d %v\n", use.Depth, use.Partition, use.Asset, len(use.Fields), use.Again)
		}
		return b.String()
	}
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{
		{Subject: "user:all", Role: intent.Viewer}, {Subject: "user:some", Role: intent.Viewer, Partition: "shop"}, {Subject: "user:some", Role: intent.Viewer, Partition: "net"},
	}, ann))
	all, some := store.Token{Owner: "all"}, store.Token{Owner: "some"}
	if got, want := tell(all, "db"), "1 /web 1 false\n2 eu/site 2 false\n1 net/edge 2 false\n2 net/job 1 false\n3 /db 2 true\n2 /back 2 false\n"; got != want {
		t.Errorf("db is used by\n%s, want\n%s", got, want)
	}
	if got, want := tell(some, "db"), "1 /web 1 false\n1 net/edge 2 false\n2 net/job 1 false\n3 /db 2 true\n2 /back 2 false\n"; got != want {
		t.Errorf("to who may not see eu, db is used by\n%s, want\n%s", got, want)
	}
	if got := tell(all, "alone"); got != "" {
		t.Errorf("nobody uses it: %s", got)
	}
}
