package main

import (
	"fmt"
	"net/http"
	"strings"

	"lehr.dev/sdk/serve"
)

// telling: an object tells what intent names of it as the cluster has it, once that is there,
// while it is in sync; a Secret tells nothing.
func telling(c *cluster) {
	o := object(c.T, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"telling"},"spec":{"ports":[{"port":80}],"selector":{"app":"web"},"type":"LoadBalancer"}}`)
	o.Outputs = map[string]string{"address": "/status/loadBalancer/ingress/0/ip", "cluster_ip": "/spec/clusterIP", "none": "/spec/absent"}
	asset := c.asset(o)
	c.mustPush(asset)
	ip := c.byHand("/api/v1/namespaces/telling/services/web", http.MethodGet, "")["spec"].(map[string]any)["clusterIP"]
	if got, want := fmt.Sprintf("%s", c.diff(asset).Outputs), fmt.Sprintf(`[{cluster_ip "%s"}]`, ip); got != want {
		c.Errorf("it tells %s, want %s", got, want)
	}
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} { // Only its status changes.
		c.byHand("/api/v1/namespaces/telling/services/web/status", http.MethodPatch, `{"status":{"loadBalancer":{"ingress":[{"ip":"`+address+`"}]}}}`)
		c.byHand("/api/v1/namespaces/telling/services/web", http.MethodGet, "")
		if got, want := fmt.Sprintf("%s", c.diff(asset).Outputs), fmt.Sprintf(`[{address %q} {cluster_ip "%s"}]`, address, ip); got != want {
			c.Errorf("it tells %s, want %s", got, want)
		}
	}
	c.byHand("/api/v1/namespaces/telling/services/web?fieldManager=kubectl-edit", http.MethodPatch, `{"spec":{"ports":[{"port":80,"name":"","protocol":"TCP"}],"selector":{"app":"other"}}}`)
	if d := c.diff(asset); d.Outcome != serve.Differs || d.Outputs != nil {
		c.Errorf("what differs tells %s: %v", d.Outputs, d.Outcome)
	}

	secret := object(c.T, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key","namespace":"telling"},"type":"Opaque"}`)
	c.mustPush(c.asset(secret))
	secret.Outputs = map[string]string{"key": "/data/key"}
	if d := c.diff(c.asset(secret)); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "none is told of a Secret") || d.Outputs != nil {
		c.Errorf("a Secret tells %s: %v %s", d.Outputs, d.Outcome, d.Reason)
	}
}
