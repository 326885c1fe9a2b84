package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// TestTheServerIsKilledInAPush: a push whose API server dies has not been pushed, by its own
// word; what is there afterwards is what was there, and the next push brings it.
func TestTheServerIsKilledInAPush(t *testing.T) {
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	c = c.with(t, "killed")
	settings := func(value string) serve.Intent {
		return c.asset(object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"killed"},"data":{"a":"`+value+`"}}`))
	}
	c.mustPush(settings("1"))
	outcome := c.push(settings("2"), c.diff(settings("2")), permits{before: p.KillServer})
	if outcome.Ending != serve.Failed || !outcome.Retryable {
		t.Errorf("the push ended %s: %s, retryable: %v", outcome.Ending, outcome.Reason, outcome.Retryable)
	}
	p.StartServer()
	p.Wait("the asset to be known", func() error {
		if d := c.diff(settings("2")); d.Outcome != serve.Differs || changes(d) != "update\ndata.a: \"1\" → \"2\"" {
			return fmt.Errorf("it is %v %s %s", d.Outcome, d.Reason, changes(d))
		}
		return nil
	})
	c.mustPush(settings("2"))
}

// bounding: what a quota refuses is told before the push, and by the push.
func bounding(c *cluster) {
	const quotas = "/api/v1/namespaces/bounding/resourcequotas"
	c.byHand(quotas, http.MethodPost, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"few"},"spec":{"hard":{"count/configmaps":"1"}}}`)
	// What a controller manager counts.
	c.byHand(quotas+"/few/status", http.MethodPatch, `{"status":{"hard":{"count/configmaps":"1"},"used":{"count/configmaps":"1"}}}`)
	asset := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one-too-many","namespace":"bounding"},"data":{"a":"1"}}`))
	var d serve.Difference
	c.plane.Wait("the quota to count", func() error {
		if d = c.diff(asset); !strings.Contains(notes(d), "exceeded quota: few") {
			return errors.New(notes(d))
		}
		return nil
	})
	if outcome := c.push(asset, d, permits{}); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "exceeded quota: few") {
		c.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.byHand(quotas+"/few", http.MethodPatch, `{"spec":{"hard":{"count/configmaps":"9"}}}`)
	c.byHand(quotas+"/few/status", http.MethodPatch, `{"status":{"hard":{"count/configmaps":"9"}}}`)
	c.plane.Wait("the quota to be larger", func() error {
		if again := c.diff(asset); notes(again) != "" || again.Plan.Digest() != d.Plan.Digest() {
			return errors.New(notes(again))
		}
		return nil
	})
	c.mustPush(asset)
}
