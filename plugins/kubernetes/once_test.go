package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"lehr.dev/sdk/serve"
)

// askingOnce: a creation costs one dry run and one write in all, the look after it included; but where
// a webhook may change what is there, that look asks the server, and tells what the webhook would change.
func askingOnce(c *cluster) {
	asked := c.counted()
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
		var asset serve.Intent
		var d serve.Difference
		cost := asked.cost(func() { asset, d = create() })
		if d.Outcome != serve.InSync {
			c.Fatalf("%s is %v %s", asset.ID, d.Outcome, d.Reason)
		}
		if want := "1 APPLY configmaps; 1 APPLY configmaps dry; 3 GET configmaps"; cost != want {
			return fmt.Errorf("it took %s, want %s", cost, want)
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
	asked := c.counted()
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
		var all []serve.Intent
		var answers []serve.Difference
		cost := asked.cost(func() { all, answers = look() })
		for i, d := range answers {
			if d.Outcome != serve.InSync || !d.At.IsZero() && d.At.Before(all[i].ReadSince) {
				c.Fatalf("%s is %v %s as of %v, asked for %v", all[i].ID, d.Outcome, d.Reason, d.At, all[i].ReadSince)
			}
		}
		if cost != "1 LIST configmaps" {
			return fmt.Errorf("it cost %s", cost)
		}
		return nil
	})
	for i := range 5 {
		c.byHand(fmt.Sprintf("/api/v1/namespaces/confirming/configmaps/thing-%d", i), http.MethodPatch, `{"data":{"a":"theirs"}}`)
		all, answers := look()
		for k, d := range answers {
			if want := k <= i; want != (d.Outcome == serve.Differs) {
				c.Errorf("after %d edits %s is %v %s", i+1, all[k].ID, d.Outcome, d.Reason)
			}
		}
	}
}

// lagging: what was written before a question as of now is in its answer, although the watch lags: an
// event that comes after the question, but tells of an earlier write, proves nothing of what was
// written between them.
func lagging(c *cluster) {
	var isHeld, hasFirst atomic.Bool
	release, ended := make(chan struct{}), make(chan struct{})
	hold := func(part []byte) {
		if !isHeld.Load() {
			return
		}
		if bytes.Contains(part, []byte("first")) {
			hasFirst.Store(true)
		}
		select {
		case <-release:
		case <-ended:
		}
		if bytes.Contains(part, []byte("second")) {
			<-ended
		}
	}
	c.putInFront(func(server http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if resource, _ := resourceOf(r.URL.Path); resource == "configmaps" && r.URL.Query().Get("watch") != "" {
				w = &heldAnswer{w, hold}
			}
			server.ServeHTTP(w, r)
		})
	})
	c.Cleanup(func() { close(ended) })
	given := c.watched()
	first, second := named(c, "first", "lagging", "1", "ConfigMap"), named(c, "second", "lagging", "1", "ConfigMap")
	for _, asset := range []serve.Intent{first, second} {
		c.mustPush(asset)
		c.recalled(asset)
	}
	isHeld.Store(true)
	edit := func(asset serve.Intent) {
		c.byHand(fmt.Sprintf("/api/v1/namespaces/lagging/configmaps/%s", asset.ID), http.MethodPatch, `{"data":{"a":"theirs"}}`)
	}
	hinted := given.of(first.ID)
	edit(first)
	c.plane.Wait("the event of the first edit to be held", func() error {
		if !hasFirst.Load() {
			return errors.New("none is")
		}
		return nil
	})
	edit(second)
	second = asOfNow(second)
	close(release)
	c.plane.Wait("the first edit to be hinted", func() error {
		if given.of(first.ID) == hinted {
			return fmt.Errorf("%d hints", hinted)
		}
		return nil
	})
	for range 3 {
		if d := c.diff(second); d.Outcome != serve.Differs {
			c.Fatalf("edited before it was asked as of now, the second is %v %s as of %v, asked for %v", d.Outcome, d.Reason, d.At, second.ReadSince)
		}
	}
}

// heldAnswer does something before each part of an answer is sent.
type heldAnswer struct {
	http.ResponseWriter
	before func(part []byte)
}

func (h *heldAnswer) Write(part []byte) (int, error) {
	h.before(part)
	return h.ResponseWriter.Write(part)
}

func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }
