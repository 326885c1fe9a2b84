package server_test

import (
	"fmt"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// TestWhoUsesAnAsset, also through others: each has its place once, behind the fewest
// steps, and a circle ends.
func TestWhoUsesAnAsset(t *testing.T) {
	w := newWorld(t)
	entries := []intent.Asset{w.command("db", "x", "web/b"), w.command("web/a", "y", "db"), w.command("web/b", "z", "db", "web/a"), w.command("site", "z", "web/b"), w.command("alone", "x")}
	for i := range 1200 {
		entries = append(entries, w.command(intent.AssetID(fmt.Sprintf("page/%04d", i)), "x", "hub"))
	}
	w.publish(0, append(entries, w.command("hub", "x"))...)
	tell := func(asset string) (string, *apipb.GetAssetResponse) {
		t.Helper()
		got, err := w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: asset, Uses: true})
		w.must(err)
		var b strings.Builder
		for _, use := range got.Uses {
			fmt.Fprintf(&b, "%d %s %v %v\n", use.Depth, use.Asset, len(use.Fields), use.Again)
		}
		return b.String(), got
	}
	if got, _ := tell("db"); got != "1 web/a 1 false\n2 web/b 1 true\n1 web/b 1 false\n2 db 1 true\n2 site 1 false\n" {
		t.Errorf("db is used by\n%s", got)
	}
	if got, _ := tell("alone"); got != "" {
		t.Errorf("nobody uses it: %s", got)
	}
	if _, got := tell("hub"); len(got.Uses) != 1000 || !got.MoreUses {
		t.Errorf("%d are told, and there are others: %v", len(got.Uses), got.MoreUses)
	}
	if got, err := w.client.Assets.GetAsset(t.Context(), &apipb.GetAssetRequest{Partition: "shop", Asset: "db"}); err != nil || len(got.Uses) > 0 {
		t.Errorf("it was not asked for: %v, %v", got.GetUses(), err)
	}
}
