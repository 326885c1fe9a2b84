package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/plugintest/testbed"
	"lehr.dev/sdk/serve"
)

// shares counts who answers n requests.
func shares(t *testing.T, address string, n int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		status, body, err := ask(address)
		if err != nil || status != http.StatusOK {
			t.Fatalf("the balancer answers %d %q: %v", status, body, err)
		}
		counts[body]++
	}
	return counts
}

func TestRequestsAreSharedByWeight(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"), upstream(t, "b"), upstream(t, "c"))
	b.Upstreams["b"].Weight = 3
	b.Upstreams["c"].Weight = 0
	c.mustPush(b)
	if got := shares(t, b.Listen[0], 40); got["a"] != 10 || got["b"] != 30 || got["c"] != 0 {
		t.Errorf("40 requests went to %v, want 10 to a, 30 to b, none to c", got)
	}
	again := alter(b, func(b *caddypb.Balancer) { b.Upstreams["c"].Weight, b.Upstreams["a"].Weight = 1, 0 })
	if got, want := c.changes(again), "update\nupstreams[\"a\"].weight: 1 → 0\nupstreams[\"c\"].address: "; !strings.HasPrefix(got, want) {
		t.Errorf("the plan is\n%s\nwant\n%s…", got, want)
	}
	c.mustPush(again)
	if got := shares(t, b.Listen[0], 40); got["a"] != 0 || got["b"] != 30 || got["c"] != 10 {
		t.Errorf("40 requests went to %v, want none to a, 30 to b, 10 to c", got)
	}
}

func TestWithoutWeightItSaysSo(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	b.Health = &caddypb.HealthCheck{Path: "/"}
	c.mustPush(b)
	none := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 0 })
	d := c.diff(none)
	if len(d.Plan.Changes) != 1 || !d.Plan.Changes[0].Destructive {
		t.Errorf("taking the last weight away is %+v, want one destructive change", d.Plan.Changes)
	}
	c.mustPush(none)
	if status, body, err := ask(b.Listen[0]); status != http.StatusServiceUnavailable || !strings.Contains(body, "No upstream") {
		t.Errorf("it answers %d %q (%v), want 503 and why", status, body, err)
	}
	if d := c.diff(none); d.Health.State != serve.Unhealthy || d.Health.Reason == "" {
		t.Errorf("without upstreams its health is %+v", d.Health)
	}
	if got := c.changes(b); !strings.HasSuffix(got, "\nupstreams[\"a\"].weight:  → 1") {
		t.Errorf("bringing it back is\n%s", got)
	}
	c.mustPush(b)
}

func TestADeadUpstreamCostsNoRequest(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(dead, upstream(t, "b"))
	// Most requests go to the dead one first.
	b.Upstreams["a"].Weight = 100
	c.mustPush(b)
	if got := shares(t, b.Listen[0], 50); got["b"] != 50 {
		t.Errorf("requests went to %v, want all to b", got)
	}
	if d := c.diff(b); d.Health.State != serve.Healthy {
		t.Errorf("with one upstream of two its health is %+v", d.Health)
	}
}

func TestHealthIsWhatClientsSee(t *testing.T) {
	c := startCaddy(t)
	checked := c.balancer(dead)
	checked.Health = &caddypb.HealthCheck{Path: "/"}
	checked.TryFor = durationpb.New(0)
	c.mustPush(checked)
	if d := c.diff(checked); d.Health.State != serve.Unhealthy || !strings.Contains(d.Health.Reason, "no upstream is healthy") {
		t.Errorf("with a dead upstream and a check its health is %+v", d.Health)
	}
	mended := alter(checked, func(b *caddypb.Balancer) { b.Upstreams["a"].Address = upstream(t, "a") })
	c.mustPush(mended)
	if d := c.diff(mended); d.Health.State != serve.Healthy || d.Health.ObservedVersion != "" {
		t.Errorf("with a live upstream its health is %+v", d.Health)
	}
	unchecked := c.balancer(dead)
	unchecked.Name = "other"
	unchecked.TryFor = durationpb.New(6e10)
	c.mustPush(unchecked)
	go ask(unchecked.Listen[0]) // Fails, which Caddy remembers for 30 s.
	waitFor(t, "the failure to be told", func() error {
		if d := c.diff(unchecked); d.Health.State != serve.Unhealthy || !strings.Contains(d.Health.Reason, "failed to a") {
			return fmt.Errorf("health is %+v", d.Health)
		}
		return nil
	})
}

func TestCapacities(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"), upstream(t, "b"))
	impacts := func(b *caddypb.Balancer) string { return fmt.Sprint(c.diff(b).Impacts) }
	if got := impacts(b); got != "[{upstreams 0 2} {a 0 1} {b 0 1}]" {
		t.Errorf("of what is not there: %s", got)
	}
	c.mustPush(b)
	more := alter(b, func(b *caddypb.Balancer) {
		b.Upstreams["b"].Weight = 0
		b.Upstreams["c"] = &caddypb.Upstream{Address: "127.0.0.1:1", Weight: 7}
		b.Upstreams["d"] = &caddypb.Upstream{Address: "127.0.0.1:2", Weight: 7}
		delete(b.Upstreams, "a")
	})
	if got := impacts(more); got != "[{upstreams 2 2} {a 1 0} {b 1 0} {c 0 7} {d 0 7}]" {
		t.Errorf("before a change: %s", got)
	}
	many := alter(b, func(b *caddypb.Balancer) {
		for i := range 200 {
			b.Upstreams[fmt.Sprint(i)] = &caddypb.Upstream{Address: "127.0.0.1:1", Weight: 1}
		}
	})
	if got := impacts(many); got != "[{upstreams 2 202}]" {
		t.Errorf("of more than Lehr takes: %s", got)
	}
}

func TestOthersAreLeftAlone(t *testing.T) {
	c := startCaddy(t)
	other := fmt.Sprintf(`{"listen":[%q],"routes":[{"handle":[{"handler":"static_response","body":"mine"}]}]}`, testbed.FreeAddress(t))
	c.byHand(http.MethodPut, "/config/apps/http/servers/mine", other)
	c.byHand(http.MethodPut, "/config/apps/http/grace_period", `"3s"`)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	c.mustPush(alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 2 }))
	if outcome := c.remove(b, permits{}); outcome.Ending != serve.Pushed {
		t.Fatalf("removing ended %s: %s", outcome.Ending, outcome.Reason)
	}
	want := fmt.Sprintf(`{"http":{"grace_period":"3s","servers":{"mine":%s}}}`, other)
	if got := c.config("/config/apps"); !sameJSON(got, want) {
		t.Errorf("what others have is now\n%s\nwant\n%s", got, want)
	}
}

func TestTurndown(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	if outcome := c.remove(b, permits{}); outcome.Ending != serve.Pushed {
		t.Fatalf("removing ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if got := c.config(web); got != "null" {
		t.Errorf("after the removal there is %s", got)
	}
	if _, _, err := ask(b.Listen[0]); err == nil {
		t.Error("it still listens")
	}
	if d := c.diff(b, &intentpb.Turndown{}); d.Outcome != serve.InSync || len(d.Current) != 0 {
		t.Errorf("what is gone differs: %+v", d)
	}
	if outcome := c.remove(b, permits{}); outcome.Ending != serve.Pushed {
		t.Errorf("removing nothing ended %s: %s", outcome.Ending, outcome.Reason)
	}
}

func TestManyInOneCaddy(t *testing.T) {
	c := startCaddy(t)
	address := upstream(t, "a")
	var assets []serve.Intent
	for i := range 20 {
		b := c.balancer(address)
		b.Name = fmt.Sprintf("web%d", i)
		if i%2 == 0 {
			c.mustPush(b)
		}
		assets = append(assets, c.asset(b))
	}
	keys := map[serve.ResourceKey]bool{}
	for i, d := range c.kind.Diff(t.Context(), assets) {
		keys[d.ResourceKey] = true
		if want := []serve.Action{"", serve.ActionCreate}[i%2]; d.Outcome == serve.Unknown || d.Plan.Action != want {
			t.Errorf("%s: %v %q (%s)", assets[i].ID, d.Outcome, d.Plan.Action, d.Reason)
		}
	}
	if len(keys) != 20 {
		t.Errorf("20 servers have %d keys", len(keys))
	}
}

// Weights may be left to whoever sets them in Caddy.
func TestWeightsLeftToProduction(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"), upstream(t, "b"))
	c.mustPush(b)
	c.byHand(http.MethodPatch, web+"/routes/0/handle/0/load_balancing/selection_policy/weights/0", "3")
	left := &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: `upstreams[*].weight`, Reason: "the autoscaler's"}}}
	if d := c.diff(b, left); d.Outcome != serve.InSync || len(d.Unmanaged) != 1 {
		t.Errorf("with its weights left it is %v, and leaves %+v", d.Outcome, d.Unmanaged)
	}
	moved := alter(b, func(b *caddypb.Balancer) { b.Upstreams["b"].Address = upstream(t, "c") })
	if outcome := c.push(moved, c.diff(moved, left), permits{}, left); outcome.Ending != serve.Pushed {
		t.Fatalf("the push ended %+v", outcome)
	}
	if got := shares(t, b.Listen[0], 40); got["a"] != 30 || got["c"] != 10 {
		t.Errorf("40 requests went to %v, want 30 to a, 10 to c", got)
	}
	others := &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "foreign", Reason: "mine"}}}
	if d := c.diff(b, others); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "cannot be left") {
		t.Errorf("with foreign things left it is %v, %q", d.Outcome, d.Reason)
	}
}
