package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

const (
	claimText  = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"NAME"},"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"disk-7","resources":{"requests":{"storage":"1Gi"}}}}`
	claimsPath = "/api/v1/namespaces/harbour/persistentvolumeclaims"
)

// TestATurndownNamesTheData: who approves the deletion of a namespace, a definition or a claim
// approves the data that they were shown, and no other.
func TestATurndownNamesTheData(t *testing.T) {
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	c.kind = kindOf(t, c.list)
	c.mustPush(c.asset(object(t, accessManifests["kinds"])))
	for _, namespace := range []string{"harbour", "other"} {
		c.byHand("/api/v1/namespaces", http.MethodPost, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`)
		p.Wait("the kind Berth", func() error {
			_, err := p.Ask(http.MethodPost, "/apis/harbour.example/v1/namespaces/"+namespace+"/berths", "application/json", []byte(`{"apiVersion":"harbour.example/v1","kind":"Berth","metadata":{"name":"north"}}`))
			return err
		})
	}
	claim := func(name string) { c.byHand(claimsPath, http.MethodPost, strings.Replace(claimText, "NAME", name, 1)) }
	claim("logs")
	c.byHand("/api/v1/namespaces/harbour/secrets", http.MethodPost, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pilot"},"data":{"key":"aHVzaA=="}}`)

	t.Run("namespace", func(t *testing.T) { c.inTest(t).namespaceTurndown(claim) })
	t.Run("definition", func(t *testing.T) { c.inTest(t).definitionTurndown() })
	t.Run("claim", func(t *testing.T) {
		manifest := object(t, strings.Replace(strings.Replace(claimText, "NAME", "logs", 1), `"metadata":{`, `"metadata":{"namespace":"harbour",`, 1))
		d := c.inTest(t).diff(c.asset(manifest, &intentpb.Turndown{Reason: "gone"}))
		if text := changes(d); d.Plan.Action != serve.ActionDelete || !strings.Contains(text, `spec.volumeName: "disk-7"`) {
			t.Errorf("it is %v %s\n%s", d.Outcome, d.Reason, text)
		}
	})
}

func (c *cluster) inTest(t *testing.T) *cluster {
	own := *c
	own.T = t
	return &own
}

func (c *cluster) namespaceTurndown(claim func(name string)) {
	down := c.asset(object(c.T, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"harbour"}}`), &intentpb.Turndown{Reason: "gone"})
	d := c.diff(down)
	want := `holds["Berth.harbour.example north"]: "Berth.harbour.example north" → ` + "\n" +
		`holds["PersistentVolumeClaim logs"]: "PersistentVolumeClaim logs" → ` + "\n" + `holds["Secret pilot"]: "Secret pilot" → `
	if text := changes(d); !d.Plan.Destructive() || !strings.HasSuffix(text, want) || strings.Contains(text, "hush") {
		c.Fatalf("it is %v %s\n%s", d.Outcome, d.Reason, text)
	}
	c.unseenData(down)
	// What holds no data is a note: it changes no approval.
	c.byHand("/api/v1/namespaces/harbour/configmaps", http.MethodPost, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`)
	noted := c.diff(down)
	if noted.Plan.Digest() != d.Plan.Digest() || !strings.Contains(notes(noted), "1 configmaps") {
		c.Errorf("with a ConfigMap it is\n%s\n%s", changes(noted), notes(noted))
	}
	// A new claim is not of what was approved.
	claim("orders")
	if outcome := c.push(down, d, permits{}); outcome.Ending != serve.Stale {
		c.Errorf("with a claim that nobody saw the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if live := c.byHand("/api/v1/namespaces/harbour", http.MethodGet, ""); live["metadata"].(map[string]any)["deletionTimestamp"] != nil {
		c.Error("the namespace is being deleted")
	}
	again := c.diff(down)
	if !strings.Contains(changes(again), `holds["PersistentVolumeClaim orders"]`) {
		c.Errorf("then it is\n%s", changes(again))
	}
	if outcome := c.push(down, again, permits{}); outcome.Ending != serve.Pushed {
		c.Errorf("the push of what was seen ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if d := c.diff(down); d.Outcome != serve.Pending {
		c.Errorf("after it, it is %v %s", d.Outcome, d.Reason)
	}
}

func (c *cluster) definitionTurndown() {
	down := c.asset(object(c.T, accessManifests["kinds"]), &intentpb.Turndown{Reason: "gone"})
	d := c.diff(down)
	for _, want := range []string{`holds["Berth.harbour.example harbour/north"]`, `holds["Berth.harbour.example other/north"]`} {
		if !strings.Contains(changes(d), want) {
			c.Errorf("without %s it is %v %s\n%s", want, d.Outcome, d.Reason, changes(d))
		}
	}
	c.byHand("/apis/harbour.example/v1/namespaces/other/berths", http.MethodPost, `{"apiVersion":"harbour.example/v1","kind":"Berth","metadata":{"name":"south"}}`)
	if outcome := c.push(down, d, permits{}); outcome.Ending != serve.Stale {
		c.Errorf("with an object that nobody saw the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
}

// unseenData: whoever may not list the data cannot show it, and nothing is deleted unseen.
func (c *cluster) unseenData(down serve.Intent) {
	const access = "/apis/rbac.authorization.k8s.io/v1/"
	c.byHand(access+"clusterroles", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"sees"},"rules":[{"apiGroups":[""],"resources":["namespaces"],"verbs":["get","delete"]},{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["list"]}]}`)
	c.byHand(access+"clusterrolebindings", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"sees"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"sees"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"nobody"}]}`)
	o := object(c.T, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"harbour"}}`)
	o.Cluster = "weak"
	down.Payload = c.asset(o).Payload
	c.plane.Wait("the role to count", func() error {
		d := c.diff(down)
		if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, `cannot list resource "persistentvolumeclaims"`) {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
}
