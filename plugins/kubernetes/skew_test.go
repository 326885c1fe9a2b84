package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/kubekind"
	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// recorded is an API server that has nothing, and says which kinds it has as one of another minor did.
type recorded struct {
	folder string
	// isOff are the paths that it does not have; away those whose own server does not answer.
	isOff func(path string) bool
	away  string

	mutex sync.Mutex
	asked []string
}

var isEarly = regexp.MustCompile(`/v[0-9]+(alpha|beta)[0-9]+$`)

func (r *recorded) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	path := request.URL.Path
	r.mutex.Lock()
	r.asked = append(r.asked, path)
	r.mutex.Unlock()
	text, err := os.ReadFile(filepath.Join(r.folder, strings.ReplaceAll(strings.Trim(path, "/"), "/", "__")+".json"))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.away != "" && path == r.away:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","message":"service unavailable","code":503}`))
	case err != nil || r.isOff != nil && r.isOff(path):
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"the server could not find the requested resource","code":404}`))
	default:
		_, _ = w.Write(text)
	}
}

// connect asks it, as the plugin asks a cluster.
func (r *recorded) connect(t *testing.T) *kubeapi.Server {
	t.Helper()
	listening := httptest.NewServer(r)
	t.Cleanup(listening.Close)
	name := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, current-context: here, contexts: [{name: here, context: {cluster: real}}], clusters: [{name: real, cluster: {server: "` + listening.URL + `"}}]}`
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := kubeapi.Connect(clusterfile.Cluster{Kubeconfig: name})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func minors(t *testing.T) (folders []string) {
	t.Helper()
	folders, err := filepath.Glob("testdata/discovery/v*")
	if err != nil || len(folders) < 3 {
		t.Fatalf("there are %v: %v", folders, err)
	}
	return folders
}

func kindOfVersion(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// TestOtherMinorsHaveTheKinds: what the plugin finds on servers of other minors is what these list, and
// what Lehr knows of a kind without asking is so there, too, as far as the minor has the kind.
func TestOtherMinorsHaveTheKinds(t *testing.T) {
	known := kubekind.NewTable()
	for _, folder := range minors(t) {
		server := (&recorded{folder: folder}).connect(t)
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var list struct {
				Kind, GroupVersion string
				Resources          []struct {
					Name, Kind string
					Namespaced bool
					Verbs      []string
				}
			}
			if err := json.Unmarshal(text, &list); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, r := range list.Resources {
				if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "watch") {
					continue
				}
				namespace := ""
				if r.Namespaced {
					namespace = "shop"
				}
				place, err := server.Find(t.Context(), kindOfVersion(list.GroupVersion, r.Kind), namespace)
				if err != nil || !place.Served || place.Select("").Resource.Resource != r.Name {
					t.Errorf("%s: %s of %s is found as %+v: %v", folder, r.Kind, list.GroupVersion, place, err)
				}
				kind, ok := known.Find(r.Kind, kubekind.GroupOf(list.GroupVersion))
				if ok && (kind.Plural != r.Name || kind.Namespaced != r.Namespaced) {
					t.Errorf("%s: %s of %s is %s, and is known as %+v", folder, r.Kind, list.GroupVersion, r.Name, kind)
				}
				found[kind.Full()] = found[kind.Full()] || ok
			}
		}
		for _, kind := range []string{"Deployment.apps", "StatefulSet.apps", "Job.batch", "Ingress.networking.k8s.io", "HorizontalPodAutoscaler.autoscaling", "PodDisruptionBudget.policy", "CustomResourceDefinition.apiextensions.k8s.io"} {
			if !found[kind] {
				t.Errorf("%s has no %s", folder, kind)
			}
		}
	}
}

// TestKindsThatAMinorDoesNotHave: a version that a minor has not, a kind that it has in another one, and
// one of a group that is away are told apart, and none harms others.
func TestKindsThatAMinorDoesNotHave(t *testing.T) {
	oldest := "testdata/discovery/v1.32.9"
	old := &recorded{folder: oldest, isOff: isEarly.MatchString, away: "/apis/metrics.example/v1"}
	server := old.connect(t)
	for _, one := range []struct {
		apiVersion, kind string
		others           []string
	}{
		{"resource.k8s.io/v1", "DeviceClass", nil},
		{"autoscaling/v2beta2", "HorizontalPodAutoscaler", []string{"autoscaling/v2", "autoscaling/v1"}},
		{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", nil},
		{"harbour.example/v1", "Berth", nil},
		{"v2", "ConfigMap", nil},
	} {
		kind := kindOfVersion(one.apiVersion, one.kind)
		place, err := server.Find(t.Context(), kind, "")
		if err != nil || place.Served {
			t.Errorf("%v is found as %+v: %v", kind, place, err)
		}
		if others, err := server.VersionsWith(t.Context(), kind.GroupKind()); err != nil || !slices.Equal(others, one.others) {
			t.Errorf("%v is there as %v, want %v: %v", kind, others, one.others, err)
		}
	}
	if place, err := server.Find(t.Context(), kindOfVersion("metrics.example/v1", "Gauge"), "shop"); err == nil {
		t.Errorf("a group that is away has %+v", place)
	}
	if place, err := server.Find(t.Context(), kindOfVersion("apps/v1", "Deployment"), "shop"); err != nil || !place.Served {
		t.Errorf("beside a group that is away a Deployment is found as %+v: %v", place, err)
	}
}

// TestAdmissionOfOtherMinors: what changes the server's predictions is followed in the version in which a
// minor has it, so that a policy of an earlier version is not missed.
func TestAdmissionOfOtherMinors(t *testing.T) {
	policy := schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}
	for _, one := range []struct {
		folder, version string
		isOff           func(string) bool
	}{
		{"v1.32.9", "v1alpha1", nil}, {"v1.34.1", "v1beta1", nil}, {"v1.37.2", "v1", nil},
		{"v1.32.9", "", isEarly.MatchString}, {"v1.34.1", "", isEarly.MatchString}, {"v1.37.2", "v1", isEarly.MatchString},
	} {
		server := (&recorded{folder: filepath.Join("testdata/discovery", one.folder), isOff: one.isOff}).connect(t)
		selection, ok, err := server.SelectAll(t.Context(), policy, "v1", "v1beta1", "v1alpha1")
		if err != nil || ok != (one.version != "") || selection.Resource.Version != one.version {
			t.Errorf("%s: it is followed as %v: %v", one.folder, selection.Resource, err)
		}
	}
}

// TestAVersionThatIsNotServed: an object of a version that a real server does not have is not taken for
// gone where the server has the kind in another version: nothing says whether the object is there.
func TestAVersionThatIsNotServed(t *testing.T) {
	p := plane.Start(t, "--runtime-config=autoscaling/v2=false")
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	c = c.with(t, "skewed")
	manifest := func(version, metrics string) string {
		return `{"apiVersion":"autoscaling/` + version + `","kind":"HorizontalPodAutoscaler","metadata":{"name":"web","namespace":"skewed"},"spec":{"maxReplicas":3,` + metrics + `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`
	}
	served := object(t, manifest("v1", ""))
	c.mustPush(c.asset(served))
	const words = "the cluster has no kind HorizontalPodAutoscaler in autoscaling/v2, but in autoscaling/v1: name one of these as apiVersion"
	other := object(t, manifest("v2", ""))
	d := c.diff(c.asset(other))
	if d.Plan.Action != serve.ActionCreate || d.Health.Reason != words || !strings.Contains(notes(d), words) {
		t.Errorf("it is %v %s, %v %s\n%s", d.Outcome, d.Reason, d.Health.State, d.Health.Reason, changes(d))
	}
	if outcome := c.push(c.asset(other), d, permits{}); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, words) {
		t.Errorf("a push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if d := c.diff(c.asset(other, &intentpb.Turndown{Reason: "gone"})); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, words) {
		t.Errorf("its turndown is %v %s", d.Outcome, d.Reason)
	}
	if d := c.diff(c.asset(served)); d.Outcome != serve.InSync {
		t.Errorf("the object is %v %s", d.Outcome, d.Reason)
	}
}
