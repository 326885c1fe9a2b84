package web_test

import (
	"fmt"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// inScope has an asset impact a cluster.
func (w *world) inScope(asset intent.Asset, cluster string) intent.Asset {
	w.Helper()
	addon, err := schema.Builtin().Pack(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": cluster}})
	w.must(err)
	asset.Addons = append(asset.Addons, addon)
	return asset
}

// TestServiceGraph: a service is drawn by dependency in lanes of its scopes, and as a tree.
func TestServiceGraph(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.inScope(w.ofGroup(w.command("db", "x"), "site", "back"), "east"), w.inScope(w.ofGroup(w.command("web", "x", "db"), "site", "front"), "west"))
	w.report(inSync("db"), waits("web", intent.WaitOrder, "must come after db", "db"))
	w.shows("/partition/shop/group/site", `href="partition/shop/graph/site"`)
	text := w.shows("/partition/shop/graph/site", `<g class="lane">`, `class="box state-in-sync"`, `class="box state-waiting"`, `class="edge"`)
	if said := words(text); !strings.Contains(said, "web in cluster=west waiting ; refers to db") {
		t.Errorf("by dependency it is %s", said)
	}
	said := words(w.shows("/partition/shop/graph/site?view=tree"))
	if !strings.Contains(said, "site 2 assets ; has site/back , site/front") || !strings.Contains(said, "cluster=west scope ; has web") {
		t.Errorf("as a tree it is %s", said)
	}
}

// TestGraphsFoldThemselves: what an eye cannot read is put together, and said so.
func TestGraphsFoldThemselves(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	var reports []intent.Report
	for i := range 150 {
		id := intent.AssetID(fmt.Sprintf("job-%d/x", i))
		if i < 100 {
			id = intent.AssetID(fmt.Sprintf("web/%d", i))
		}
		assets = append(assets, w.ofGroup(w.command(id, "x"), "site", fmt.Sprint(i%3)))
		reports = append(reports, inSync(id))
	}
	w.publish(0, assets...)
	w.report(reports...)
	said := words(w.shows("/partition/shop/graph/site"))
	if !strings.Contains(said, "100 × web/ in sync") || !strings.Contains(said, "150 are put together into 51 boxes") {
		t.Errorf("150 assets are drawn as %s", said)
	}
	assets, reports = nil, nil
	for i := range 60 {
		id := intent.AssetID(fmt.Sprintf("more/%d", i))
		assets = append(assets, w.ofGroup(w.command(id, "x"), "site", fmt.Sprint(i%3)))
		reports = append(reports, waits(id, intent.WaitHold, "held"))
	}
	w.publish(1, assets...)
	w.report(reports...)
	said = words(w.shows("/partition/shop/graph/site"))
	if !strings.Contains(said, "only instances are drawn") || !strings.Contains(said, "site/0 70 assets, waiting") {
		t.Errorf("210 assets are drawn as %s", said)
	}
}

// TestAncestry: incarnations are drawn behind their parents.
func TestAncestry(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("db", "x"))
	w.publish(1, w.command("db", "y"))
	if said := words(w.shows("/partition/shop/incarnations")); !strings.Contains(said, "shop@1 superseded ; is the parent of shop@2") {
		t.Errorf("the ancestry is %s", said)
	}
}
