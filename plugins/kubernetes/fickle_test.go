package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"lehr.dev/sdk/serve"
)

// ficklePredictions: where a webhook gives one of our fields another value each time, nobody can
// say what a push would make of it: it is unknown, with the field. What it gives to a field that
// is nobody's here is a note.
func ficklePredictions(c *cluster) {
	var count atomic.Int64
	var path atomic.Value
	path.Store("/data/a")
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
		patch := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `[{"op":"add","path":%q,"value":"%d"}]`, path.Load(), count.Add(1)))
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`, review.Request.UID, patch)
	}))
	c.Cleanup(hook.Close)
	settings := func(value string) serve.Intent {
		return c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"fickle"},"data":{"a":"`+value+`"}}`))
	}
	c.mustPush(settings("x"))
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	c.byHand("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", http.MethodPost, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"fickle"},"webhooks":[{"name":"fickle.harbour.example",
"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["UPDATE"]}],
"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"fickle"}},"sideEffects":"None","admissionReviewVersions":["v1"]}]}`, hook.URL, authority))
	c.Cleanup(func() {
		c.byHand("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fickle", http.MethodDelete, "")
	})
	c.plane.Wait("the webhook to count", func() error {
		if d := c.diff(settings("x")); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "two dry runs predict different values of the field data.a:") {
			return fmt.Errorf("it is %v %s %s", d.Outcome, d.Reason, changes(d))
		}
		return nil
	})
	path.Store("/data/theirs")
	if d := c.diff(settings("x")); d.Outcome != serve.InSync {
		c.Errorf("with another's field it is %v %s %s", d.Outcome, d.Reason, changes(d))
	}
	d := c.diff(settings("y"))
	if got, want := changes(d), "update\ndata.a: \"x\" → \"y\""; got != want || len(d.Unmanaged) != 1 || d.Unmanaged[0].Path != "data.theirs" {
		c.Errorf("the plan is\n%s\nwant\n%s\nbeside %v", got, want, d.Unmanaged)
	}
}
