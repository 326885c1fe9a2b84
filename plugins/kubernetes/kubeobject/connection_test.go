package kubeobject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubewatch"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

// unreached is a kind over one cluster that nobody asks.
func unreached(t *testing.T) (*Objects, *connection) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"kubeconfig": `{apiVersion: v1, kind: Config, current-context: here, contexts: [{name: here, context: {cluster: none, user: none}}],
clusters: [{name: none, cluster: {server: "https://192.0.2.1"}}], users: [{name: none, user: {}}]}`,
		"clusters.yaml": "kubernetes-clusters: v1\nclusters: {none: {kubeconfig: kubeconfig, partitions: [shop]}}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := clusterfile.Read(filepath.Join(folder, "clusters.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	marks, err := storagemark.Open("")
	if err != nil {
		t.Fatal(err)
	}
	o := New(list, marks)
	c, err := o.connect("shop", "none")
	if err != nil {
		t.Fatal(err)
	}
	return o, c
}

// TestHintsAreNotReliedOnWhereMuchIsNotWatched: with few such assets they are hinted by time,
// with many Lehr is told.
func TestHintsAreNotReliedOnWhereMuchIsNotWatched(t *testing.T) {
	for count, want := range map[int]string{mostUnwatched: "it ended", mostUnwatched + 1: fmt.Sprintf("%d objects are not watched now", mostUnwatched+1)} {
		o, c := unreached(t)
		c.watches.Start(t.Context())
		kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		for i := range count {
			c.watches.Expect(kubewatch.Object{Kind: kind, Namespace: "a", Name: fmt.Sprint(i)}, kubewatch.Asset{Partition: "shop", ID: serve.AssetID(fmt.Sprint(i))})
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		hinted := 0
		err := o.Watch(ctx, func(serve.PartitionID, serve.AssetID) {
			if hinted++; hinted == 1 {
				cancel(errors.New("it ended"))
			}
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %d not watched: %v", count, err)
		}
		if hinted == 0 || hinted > count/2 {
			t.Errorf("of %d not watched %d were hinted at once", count, hinted)
		}
		cancel(nil)
	}
}
