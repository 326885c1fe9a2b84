package cluster

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/kubekind"
)

// TestOwners: owners are followed through kinds that only the cluster knows, a circle ends,
// and of objects nothing but metadata is asked for.
func TestOwners(t *testing.T) {
	known := map[string]string{
		"/api/v1/namespaces/shop/pods/a":                             `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n"},{"apiVersion":"harbour.example/v1","kind":"Berth","name":"b","controller":true}]}}`,
		"/apis/harbour.example/v1":                                   `{"resources":[{"name":"berths/scale","kind":"Berth","namespaced":true},{"name":"berthes","kind":"Berth","namespaced":true},{"name":"docks","kind":"Dock"}]}`,
		"/apis/harbour.example/v1/namespaces/shop/berthes/b":         `{"metadata":{"ownerReferences":[{"apiVersion":"harbour.example/v1","kind":"Dock","name":"d"}]}}`,
		"/apis/harbour.example/v1/docks/d":                           `{"metadata":{}}`,
		"/api/v1/namespaces/shop/pods/self":                          `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"self"}]}}`,
		"/api/v1":                                                    `{"resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`,
		"/api/v1/namespaces/shop/pods/lost":                          `{"metadata":{"ownerReferences":[{"apiVersion":"gone.example/v1","kind":"Gone","name":"g"}]}}`,
		"/api/v1/namespaces/shop/pods/of-two-that-do-not-control-it": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a"},{"apiVersion":"v1","kind":"Pod","name":"self"}]}}`,
	}
	f := &fake{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isObject := strings.Contains(r.URL.Path, "/pods/") || strings.Contains(r.URL.Path, "/berthes/") || strings.Contains(r.URL.Path, "/docks/")
		if isObject && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata;") {
			t.Errorf("the content of %s was asked for", r.URL.Path)
		}
		if known[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(known[r.URL.Path]))
	}))
	t.Cleanup(f.Close)
	config := f.kubeconfig(t, "token: "+token)
	ask := func(name string) ([]Owner, error) {
		return Owners(t.Context(), config, "", Subject{Kinds: kubekind.NewTable().Match("po"), Namespace: "shop", Name: name})
	}
	if owners, err := ask("a"); err != nil || !slices.Equal(owners, []Owner{{"Berth", "harbour.example", "shop", "b"}, {"Dock", "harbour.example", "", "d"}}) {
		t.Errorf("they are %v, %v", owners, err)
	}
	if owners, err := ask("self"); err != nil || len(owners) != mostOwners {
		t.Errorf("of one in a circle they are %v, %v", owners, err)
	}
	if owners, err := ask("of-two-that-do-not-control-it"); err != nil || len(owners) != 0 {
		t.Errorf("of one that nothing controls they are %v, %v", owners, err)
	}
	for _, name := range []string{"none", "lost"} {
		if owners, err := ask(name); err == nil {
			t.Errorf("of %s they are %v", name, owners)
		}
	}
}
