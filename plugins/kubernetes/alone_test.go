package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// startWebhook judges ConfigMaps of the namespace guarded, and answers no dry run.
func startWebhook(t *testing.T, p *plane.Plane) {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID    string `json:"uid"`
				DryRun bool   `json:"dryRun"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%v,"status":{"message":"no dry runs here"}}}`, review.Request.UID, !review.Request.DryRun)
	}))
	t.Cleanup(hook.Close)
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	body := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"guard"},"webhooks":[{"name":"guard.harbour.example",
"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}],
"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"guarded"}},"sideEffects":"NoneOnDryRun","admissionReviewVersions":["v1"]}]}`, hook.URL, authority)
	if _, err := p.Ask(http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "application/json", []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func guardedMap(data string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"guarded"},"data":{` + data + `}}`
}

// TestAWebhookThatAnswersNoDryRun: what cannot be predicted is unknown, and is kept by what
// intent names where the list of clusters says so, which each answer repeats.
func TestAWebhookThatAnswersNoDryRun(t *testing.T) {
	p := plane.Start(t)
	list := filepath.Join(t.TempDir(), "clusters.yaml")
	text := fmt.Sprintf("kubernetes-clusters: v1\nclusters:\n  real: {kubeconfig: %[1]q, partitions: [shop]}\n  trusting: {kubeconfig: %[1]q, partitions: [shop], compare: {ConfigMap: schema}}\n", p.Kubeconfig)
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, plane: p, list: list}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	c = c.with(t, "guarded")
	startWebhook(t, p)
	trusted := func(data string) serve.Intent {
		o := object(t, guardedMap(data))
		o.Cluster = "trusting"
		return c.asset(o)
	}
	asked := func(data string) serve.Intent { return c.asset(object(t, guardedMap(data))) }
	p.Wait("the webhook to count", func() error {
		if d := c.diff(asked(`"a":"1"`)); !strings.Contains(notes(d), "no dry runs here") {
			return fmt.Errorf("it is %v %s %s", d.Outcome, d.Reason, notes(d))
		}
		return nil
	})

	repeats := func(d serve.Difference) {
		t.Helper()
		for _, change := range d.Unmanaged {
			if strings.Contains(change.Reason, "compare: schema for ConfigMap") {
				return
			}
		}
		t.Errorf("that it was not asked is not told: %v %v", d.Outcome, d.Unmanaged)
	}
	repeats(c.diff(trusted(`"a":"1","b":"2"`)))
	c.mustPush(trusted(`"a":"1","b":"2"`))
	repeats(c.diff(trusted(`"a":"1","b":"2"`)))
	if d := c.diff(asked(`"a":"9"`)); d.Outcome != serve.Differs || !strings.Contains(notes(d), "no dry runs here") {
		t.Errorf("where dry runs are asked it is %v %s", d.Outcome, notes(d))
	} else if outcome := c.push(asked(`"a":"9"`), d, permits{before: func() { t.Error("what was refused was written") }}); outcome.Ending != serve.Failed {
		t.Errorf("where dry runs are asked a push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.byHand("/api/v1/namespaces/guarded/configmaps/settings?fieldManager=kubectl-edit", http.MethodPatch, `{"data":{"a":"5","theirs":"yes"}}`)
	d := c.diff(trusted(`"a":"9"`))
	if got, want := changes(d), "update\ndata.a: \"5\" → \"9\" by kubectl-edit\ndata.b: \"2\" → "; got != want || !strings.Contains(notes(d), "compare: schema for ConfigMap") {
		t.Errorf("the plan is\n%s\nwant\n%s\nwith %s", got, want, notes(d))
	}
	repeats(d)
	edit := permits{before: func() {
		c.byHand("/api/v1/namespaces/guarded/configmaps/settings", http.MethodPatch, `{"data":{"a":"6"}}`)
	}}
	if outcome := c.push(trusted(`"a":"9"`), d, edit); outcome.Ending != serve.Stale {
		t.Errorf("a push of what was edited meanwhile ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.mustPush(trusted(`"a":"9"`))
	data := c.byHand("/api/v1/namespaces/guarded/configmaps/settings", http.MethodGet, "")["data"].(map[string]any)
	if len(data) != 2 || data["a"] != "9" || data["theirs"] != "yes" {
		t.Errorf("there is %v", data)
	}
	o := object(t, guardedMap(`"a":"9"`))
	o.Cluster = "trusting"
	down := c.asset(o, &intentpb.Turndown{Reason: "gone"})
	if d := c.diff(down); d.Plan.Action != serve.ActionDelete || strings.Contains(notes(d), "refuse") {
		t.Errorf("its turndown is %v %s %s", d.Outcome, d.Reason, notes(d))
	}
}
