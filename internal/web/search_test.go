package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// TestSearch: what is searched for is found whatever it is, in all partitions, and the address
// holds the search.
func TestSearch(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	w.must(w.store.AddPartition(t.Context(), "bank", "/bank/lehr.yaml", "a try", ann))
	now := time.Now()
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "web/test", Owner: intent.Actor{Name: "bob@example.com", Origin: "cli"}, Reason: "racks", Created: now}))
	run := intent.WorkflowRun{Partition: "shop", Workflow: "promote", Reason: "the spring release", By: ann, Started: now, State: []byte("{}")}
	_, err := w.store.StartWorkflow(t.Context(), run, []intent.WorkflowEvent{{Kind: intent.WorkflowStarted, At: now}}, intent.Operator)
	w.must(err)
	for text, want := range map[string]string{
		"promote run 1":   `href="partition/shop/workflow-run/1"`,
		"spring":          "goes on, the spring release",
		"web/pro":         `href="partition/shop/asset/web/production"`,
		"EB/TEST":         `href="partition/shop/asset/web/test"`,
		"Cart deployment": `href="partition/shop/asset/deployment/shop/cart"`,
		"shop@1":          `href="partition/shop/incarnation/1"`,
		"1.1.0":           `href="partition/shop/version/1.1.0?application=web&amp;digest=sha256%3Ab"`,
		"bob@exam":        "holds web/test",
	} {
		w.shows("/search?q="+url.QueryEscape(text), want)
	}
	if text := w.shows("/search?q=web&kind=version"); strings.Contains(text, `href="partition/shop/asset/`) {
		t.Error("a search for versions finds assets")
	}
	if said := words(w.shows("/search?q=web&partition=bank")); !strings.Contains(said, "Nothing was found in 1 partition") {
		t.Errorf("a search of another partition says %s", said)
	}
	if said := words(w.shows("/search?q=x")); !strings.Contains(said, "too short") {
		t.Errorf("one letter is answered by %s", said)
	}
	w.shows("/search", "keep it as a bookmark")
	for _, text := range append(hostile[:5:5], `") || true || id.contains("`, `a\`) {
		if got := w.shows("/search?q=" + url.QueryEscape(text)); strings.Contains(got, "<script>") || strings.Contains(got, "<img") || !strings.Contains(got, "Nothing was found in 2 partitions") {
			t.Errorf("a search for %q is answered by\n%s", text, words(got))
		}
	}
}

// TestSearchOfKubernetesObjects: the asset of an object is found by the names that kubectl uses, whatever the asset is
// called; of what controllers make, the search says how its owner is found.
func TestSearchOfKubernetesObjects(t *testing.T) {
	w := newWorld(t)
	payload, err := schema.Builtin().Pack(&kubernetespb.Object{ApiVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart", Cluster: "eu", Json: "{}"})
	w.must(err)
	custom, err := schema.Builtin().Pack(&kubernetespb.Object{ApiVersion: "example.com/v1", Kind: "Till", Name: "cart", Cluster: "eu", Json: "{}"})
	w.must(err)
	w.publish(0, intent.Asset{ID: "front-door", Payload: payload}, intent.Asset{ID: "till", Payload: custom})
	for text, want := range map[string]string{
		"deployment/cart": "front-door", "deploy cart -n shop": "front-door", "deployments.apps/cart": "front-door", "tills.example.com/cart": "till",
	} {
		if said := w.shows("/search?q="+url.QueryEscape(text), `href="partition/shop/asset/`+want+`"`, "cart"); strings.Contains(said, "asset/front-door") && strings.Contains(said, "asset/till") {
			t.Errorf("%q finds both objects", text)
		}
	}
	for _, text := range []string{"deployment/cart -n bank", "deployment/cash", "service/cart"} {
		w.shows("/search?q="+url.QueryEscape(text), "Nothing was found")
	}
	w.shows("/search?q=pod/cart-7d4b9c-x2x", "lehr find pod/cart-7d4b9c-x2x --owners")
}
