package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
)

// wholeFerryDefinition is the ferry's of production, but for its tables, and a harbour beside it: a kind
// of its own with an object of it, and a webhook that judges these, with the program that answers it.
const wholeFerryDefinition = `lehr: v1
partition: ferry-prod
mode: enforce
sources:
  kustomize: {dir: kustomize, files: ["**"]}
  chart: {dir: boards, files: ["**"]}
  harbour: {dir: harbour, files: ["*.yaml"]}
generate:
  services: {render: kustomize, from: [kustomize], with: {cluster: real, folder: kustomize/overlays/prod}}
  boards:
    render: helm
    from: [chart]
    with: {cluster: real, namespace: ferry-prod, chart: boards/chart, values: boards/prod.yaml, kube_version: "1.34", omit: Pod/boards-answer}
  docks: {render: kubernetes, from: [harbour], with: {cluster: real, namespace: harbour}}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`

// harbour is in no order: what comes before what is found in the objects. %s is where the webhook is asked,
// and its authority.
const harbour = `apiVersion: harbour.example/v1
kind: Berth
metadata: {name: north}
spec: {length: 9}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: berths}
webhooks:
- name: judged.harbour.example
  clientConfig: {url: %q, caBundle: %q}
  rules: [{apiGroups: [harbour.example], apiVersions: [v1], resources: [berths], operations: [CREATE, UPDATE]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: noted.harbour.example
  clientConfig: {service: {namespace: harbour, name: guard}}
  rules: [{apiGroups: [nothing.harbour.example], apiVersions: [v1], resources: [nothings], operations: [CREATE]}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: v1
kind: Service
metadata: {name: guard}
spec: {selector: {app: guard}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard}
spec:
  selector: {matchLabels: {app: guard}}
  template: {metadata: {labels: {app: guard}}, spec: {containers: [{name: guard, image: "harbour/guard:v1"}]}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: berths.harbour.example}
spec:
  group: harbour.example
  names: {kind: Berth, plural: berths}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {length: {type: integer}}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: harbour}
`

// startJudge answers a webhook: a berth shorter than 5 is denied. It counts what it judged.
func startJudge(t *testing.T) (url, authority string, judged *atomic.Int64) {
	t.Helper()
	judged = &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID    string `json:"uid"`
				Object struct{ Spec struct{ Length int } }
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		judged.Add(1)
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t,"status":{"message":"a berth is at least 5 long"}}}`, review.Request.UID, review.Request.Object.Spec.Length >= 5)
	}))
	t.Cleanup(server.Close)
	return server.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), judged
}

// awaitHealthy waits until the server has found every asset as intended, and well.
func (f *ferry) awaitHealthy(assets []string) {
	f.Helper()
	f.plane.Wait("all assets to be in sync and well", func() error {
		said, err := f.run("get", "assets")
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		if found := strings.Count(said, "in-sync"); found < len(assets) || strings.Contains(said, "unhealthy") {
			return fmt.Errorf("%d of %d are in sync: %s", found, len(assets), said)
		}
		return nil
	})
}

// TestTheFerryComesUpWhole: the example in its production form comes up from nothing in a cluster with
// controllers until all of it is well: its autoscaler, its budget, its Ingress, its database's volume, a
// kind of its own with an object of it, and a webhook that the API server asks. The webhook's configuration
// is made once its Service has something behind it that is ready.
func TestTheFerryComesUpWhole(t *testing.T) {
	p := plane.Start(t)
	kubelet := p.StartControllers()
	url, authority, judged := startJudge(t)
	f := newFerry(t, p, wholeFerryDefinition)
	if err := os.Mkdir(filepath.Join(f.folder, "harbour"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write("harbour/all.yaml", fmt.Sprintf(harbour, url, authority))
	// What a platform's people make: a volume for the database.
	if _, err := p.Ask(http.MethodPost, "/api/v1/persistentvolumes", "application/json", []byte(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"fast-1"},
"spec":{"storageClassName":"fast","capacity":{"storage":"200Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/nowhere"}}}`)); err != nil {
		t.Fatal(err)
	}
	kubelet.SetFault("harbour/guard:v1", plane.Fault{Unready: true})
	assets := f.assets()
	if len(assets) < 36 {
		t.Fatalf("the ferry has %d assets: %v", len(assets), assets)
	}
	startServer(t, f.folder, f.lehr, "1s")

	const configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/berths"
	p.Wait("the configuration to wait for its Service", func() error {
		said, err := f.run("why", "kubernetes/real/validatingwebhookconfiguration.admissionregistration.k8s.io/berths")
		if err == nil && !strings.Contains(said, "Service harbour/guard, which the API server would call because of it, has no endpoint that is ready") {
			err = errors.New(said)
		}
		return err
	})
	if answer, err := p.Ask(http.MethodGet, configuration, "", nil); err == nil {
		t.Fatalf("the configuration is there before its Service is ready: %s", answer)
	}
	kubelet.SetFault("harbour/guard:v1", plane.Fault{})
	f.awaitHealthy(assets)

	for _, path := range []string{
		configuration, "/apis/harbour.example/v1/namespaces/harbour/berths/north", "/apis/networking.k8s.io/v1/namespaces/ferry-prod/ingresses/web",
		"/apis/policy/v1/namespaces/ferry-prod/poddisruptionbudgets/booking", "/apis/autoscaling/v2/namespaces/ferry-prod/horizontalpodautoscalers/web",
	} {
		if _, err := p.Ask(http.MethodGet, path, "", nil); err != nil {
			t.Error(err)
		}
	}
	web := p.Parse(mustGet(t, p, deployments+"ferry-prod/deployments/web"))
	if replicas := web["spec"].(map[string]any)["replicas"]; replicas != 4.0 {
		t.Errorf("the autoscaler asks for 4 of web, and there are %v", replicas)
	}
	claim := p.Parse(mustGet(t, p, "/api/v1/namespaces/ferry-prod/persistentvolumeclaims/data-store-0"))
	if phase := claim["status"].(map[string]any)["phase"]; phase != "Bound" {
		t.Errorf("the database's claim is %v", phase)
	}

	// The webhook judges what is written from now on.
	f.write("harbour/all.yaml", strings.Replace(fmt.Sprintf(harbour, url, authority), "length: 9", "length: 3", 1))
	p.Wait("the webhook's words", func() error {
		said, err := f.run("why", "kubernetes/real/harbour/berth.harbour.example/north")
		if err == nil && !strings.Contains(said, "a berth is at least 5 long") {
			err = errors.New(said)
		}
		return err
	})
	if judged.Load() == 0 {
		t.Error("the webhook was never asked")
	}
	berth := p.Parse(mustGet(t, p, "/apis/harbour.example/v1/namespaces/harbour/berths/north"))
	if length := berth["spec"].(map[string]any)["length"]; length != 9.0 {
		t.Errorf("the berth has the length %v", length)
	}
}

func mustGet(t *testing.T, p *plane.Plane, path string) []byte {
	t.Helper()
	answer, err := p.Ask(http.MethodGet, path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
