package main

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

// TestHandEditsShowAndAreRepaired changes everything that a person may change
// in a server of Lehr's.
func TestHandEditsShowAndAreRepaired(t *testing.T) {
	const handler = web + "/routes/0/handle/0"
	for name, edit := range map[string]struct{ method, path, body, shows string }{
		"a weight":         {http.MethodPatch, handler + "/load_balancing/selection_policy/weights/0", `9`, `upstreams["a"].weight: 9 → 1`},
		"an address":       {http.MethodPatch, handler + "/upstreams/1/dial", `"127.0.0.1:9"`, `upstreams["b"].address: "127.0.0.1:9" → `},
		"listen":           {http.MethodPatch, web + "/listen", `["127.0.0.1:0"]`, `listen[0]: "127.0.0.1:0" → `},
		"another listen":   {http.MethodPost, web + "/listen", `"127.0.0.1:0"`, `listen[1]: "127.0.0.1:0" → `},
		"try_for":          {http.MethodPatch, handler + "/load_balancing/try_duration", `"9s"`, `try_for: 9s → 2s`},
		"no retries":       {http.MethodDelete, handler + "/load_balancing/retry_match", ``, `load_balancing.retry_match"]: "missing" → `},
		"health path":      {http.MethodPatch, handler + "/health_checks/active/uri", `"/other"`, `health.path: "/other" → "/"`},
		"no health check":  {http.MethodDelete, handler + "/health_checks/active", ``, `health.path:  → "/"`},
		"an upstream":      {http.MethodPost, handler + "/upstreams", `{"dial":"127.0.0.1:9"}`, `upstreams["127.0.0.1:9"].address: "127.0.0.1:9" → `},
		"fewer upstreams":  {http.MethodDelete, handler + "/upstreams/0", ``, `upstreams["a"].address:  → `},
		"a header":         {http.MethodPut, handler + "/headers/response/set/X-Secret", `["hunter2"]`, `foreign["routes[0].handle[0].headers"]: "added" → `},
		"another route":    {http.MethodPost, web + "/routes", `{"handle":[{"handler":"static_response"}]}`, `foreign["routes[1]"]: "added" → `},
		"a route in front": {http.MethodPut, web + "/routes/0", `{"handle":[{"handler":"static_response","body":"hunter2"}]}`, `foreign["routes[1]"]: "added" → `},
		"another policy":   {http.MethodPatch, handler + "/load_balancing/selection_policy", `{"policy":"random"}`, `selection_policy.policy"]: "changed" → `},
		"a matcher":        {http.MethodPut, web + "/routes/0/match", `[{"path":["/hunter2"]}]`, `foreign["routes[0].match"]: "added" → `},
		"no id":            {http.MethodDelete, web + "/@id", ``, `foreign["@id"]: "missing" → `},
		"a timeout":        {http.MethodPut, web + "/idle_timeout", `"7s"`, `foreign["idle_timeout"]: "added" → `},
		"TLS":              {http.MethodPatch, web + "/automatic_https", `{"disable_redirects":true,"disable":true}`, `foreign["automatic_https.disable_redirects"]: "added" → `},
		"an empty server":  {http.MethodPatch, web, `{}`, `foreign["routes"]: "missing" → `},
		"garbage":          {http.MethodPatch, web, `{"listen":[],"routes":[{"handle":[]},{}],"errors":{}}`, `foreign["errors"]: "added" → `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCaddy(t)
			b := c.balancer(upstream(t, "a"), upstream(t, "b"))
			b.Health = &caddypb.HealthCheck{Path: "/", Interval: durationpb.New(5e8)}
			c.mustPush(b)
			c.byHand(edit.method, edit.path, edit.body)
			got := c.changes(b)
			if !strings.HasPrefix(got, "update\n") || !strings.Contains(got, edit.shows) {
				t.Errorf("it shows as\n%s\nwant …%s…", got, edit.shows)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a value that may be a secret is shown:\n%s", got)
			}
			c.mustPush(b)
			shares(t, b.Listen[0], 1)
		})
	}
}

func TestWhatIsForeignHasItsReason(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	c.byHand(http.MethodPut, web+"/idle_timeout", `"7s"`)
	for _, change := range c.diff(b).Plan.Changes {
		if !strings.Contains(change.Reason, "somebody added this") {
			t.Errorf("%s has the reason %q", change.Path, change.Reason)
		}
	}
}

// A server that somebody else made is shown whole before it is taken over.
func TestTakingOver(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.byHand(http.MethodPut, web, `{"listen":["`+b.Listen[0]+`"],"routes":[{"handle":[{"handler":"static_response","body":"mine"}]}]}`)
	d := c.diff(b)
	if d.Plan.Action != serve.ActionUpdate {
		t.Fatalf("the plan is %+v", d.Plan)
	}
	found := false
	for _, change := range d.Plan.Changes {
		found = found || change.Path == `foreign["@id"]` && strings.Contains(change.Reason, "not written by Lehr")
	}
	if !found {
		t.Errorf("nothing says that it is not Lehr's: %+v", d.Plan.Changes)
	}
	c.mustPush(b)
}

// A person may write an address without knowing how "lehr-caddy run" listens.
func TestAnAddressWrittenByHandIsTakenBack(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	c.byHand(http.MethodPatch, web+"/listen", `["`+b.Listen[0]+`"]`)
	if got := c.changes(b); !strings.Contains(got, `foreign["listen[0]"]: "changed" → `) {
		t.Errorf("it shows as\n%s", got)
	}
	shares(t, b.Listen[0], 1)
	c.mustPush(b)
	shares(t, b.Listen[0], 1)
}
