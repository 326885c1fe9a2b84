package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"

	"lehr.dev/sdk/serve"
)

// askingOnce: a creation costs one dry run and one write in all, the look after it included; but where
// a webhook may change what is there, that look asks the server, and tells what the webhook would change.
func askingOnce(c *cluster) {
	c.watched()
	made := 0
	create := func() (serve.Intent, serve.Difference) {
		c.Helper()
		made++
		asset := named(c, fmt.Sprintf("thing-%d", made), "asking", "1", "ConfigMap")
		if outcome := c.push(asset, c.diff(asset), permits{}); outcome.Ending != serve.Pushed {
			c.Fatalf("the creation ended %s: %s", outcome.Ending, outcome.Reason)
		}
		return asset, c.diff(asset)
	}
	c.plane.Wait("a creation that costs one dry run and one write", func() error { // Once the watches have listed.
		before := c.requests()
		asset, d := create()
		if d.Outcome != serve.InSync {
			c.Fatalf("%s is %v %s", asset.ID, d.Outcome, d.Reason)
		}
		after := c.requests()
		dry, written := after["APPLY configmaps All"]-before["APPLY configmaps All"], after["APPLY configmaps "]-before["APPLY configmaps "]
		if dry != 1 || written != 1 { // A request is counted a moment after its answer.
			return fmt.Errorf("it took %d dry runs and %d writes", dry, written)
		}
		return nil
	})

	// It changes at an update what it leaves at a creation.
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/data/a","value":"theirs"}]`))
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`, review.Request.UID, patch)
	}))
	c.Cleanup(hook.Close)
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	const configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	c.byHand(configurations, http.MethodPost, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"at-updates"},"webhooks":[{"name":"at-updates.harbour.example",
"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["UPDATE"]}],
"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"asking"}},"sideEffects":"None","admissionReviewVersions":["v1"]}]}`, hook.URL, authority))
	c.Cleanup(func() { c.byHand(configurations+"/at-updates", http.MethodDelete, "") })
	asset, _ := create()
	c.plane.Wait("what the webhook would change to be told", func() error {
		if d := c.diff(asset); d.Outcome != serve.Differs || changes(d) != "update\ndata.a: \"1\" → \"theirs\"" {
			return fmt.Errorf("%s is %v %s %s", asset.ID, d.Outcome, d.Reason, changes(d))
		}
		return nil
	})
	if asset, d := create(); d.Outcome != serve.Differs {
		c.Errorf("made with the webhook there, %s is %v %s", asset.ID, d.Outcome, d.Reason)
	}
}

// confirmingMany: many that are asked about as of now cost one list in place of a read each, and what was
// written just before is never taken for what it was.
func confirmingMany(c *cluster) {
	c.watched()
	const count = 30
	var assets []serve.Intent
	for i := range count {
		assets = append(assets, named(c, fmt.Sprintf("thing-%d", i), "confirming", "1", "ConfigMap"))
	}
	for _, asset := range assets {
		c.mustPush(asset)
	}
	look := func() (all []serve.Intent, answers []serve.Difference) {
		for _, asset := range assets {
			all = append(all, asOfNow(asset))
		}
		return all, c.kind.Diff(c.Context(), all)
	}
	c.plane.Wait("a look as of now to cost one list", func() error {
		before := c.requests()
		asked, answers := look()
		for i, d := range answers {
			if d.Outcome != serve.InSync || !d.At.IsZero() && d.At.Before(asked[i].ReadSince) {
				c.Fatalf("%s is %v %s as of %v, asked for %v", asked[i].ID, d.Outcome, d.Reason, d.At, asked[i].ReadSince)
			}
		}
		if total, text := spent(before, c.requests()); total != 1 || text != "1 LIST configmaps ; " {
			return fmt.Errorf("it cost %s", text)
		}
		return nil
	})
	for i := range 5 {
		c.byHand(fmt.Sprintf("/api/v1/namespaces/confirming/configmaps/thing-%d", i), http.MethodPatch, `{"data":{"a":"theirs"}}`)
		asked, answers := look()
		for k, d := range answers {
			if want := k <= i; want != (d.Outcome == serve.Differs) {
				c.Errorf("after %d edits %s is %v %s", i+1, asked[k].ID, d.Outcome, d.Reason)
			}
		}
	}
}
