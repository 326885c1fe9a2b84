package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
)

// TestChangesLoseNoRequest changes weights and upstreams under a load of
// requests, of which each comes by a connection of its own, and of others
// that keep theirs.
func TestChangesLoseNoRequest(t *testing.T) {
	c := startCaddy(t)
	a, b2, c2 := upstream(t, "a"), upstream(t, "b"), upstream(t, "c")
	b := c.balancer(a, b2)
	b.Health = &caddypb.HealthCheck{Path: "/"}
	c.mustPush(b)
	const clients, each = 8, 400
	var answered, failed atomic.Int64
	var group sync.WaitGroup
	for i := range clients {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
		group.Go(func() {
			for range each {
				response, err := client.Get("http://" + b.Listen[0] + "/")
				if err == nil {
					response.Body.Close()
					if response.StatusCode != http.StatusOK {
						err = fmt.Errorf("%s", response.Status)
					}
				}
				if answered.Add(1); err != nil && failed.Add(1) < 5 {
					t.Errorf("a request failed: %v", err)
				}
			}
		})
	}
	changes := 0
	for ; answered.Load() < clients*each; changes++ {
		c.mustPush(alter(b, func(b *caddypb.Balancer) {
			b.Upstreams["a"].Weight = uint32(2 + changes%3)
			if changes%2 == 0 {
				b.Upstreams["c"] = &caddypb.Upstream{Address: c2, Weight: 1}
				delete(b.Upstreams, "b")
			}
		}))
	}
	group.Wait()
	t.Logf("%d requests, %d failed, over %d changes", answered.Load(), failed.Load(), changes)
	if changes < 2 {
		t.Errorf("only %d changes were made meanwhile", changes)
	}
}
