package main

import (
	"context"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/plugintest"
)

// TestConforms holds the plugin to the protocol, over the real wire and with a
// real Caddy.
func TestConforms(t *testing.T) {
	c := startCaddy(t)
	first := c.balancer(upstream(t, "a"), upstream(t, "b"))
	plugintest.Run(t, plugintest.Target{
		Run:   []string{program},
		First: first,
		Second: alter(first, func(b *caddypb.Balancer) {
			b.Upstreams["a"].Weight = 3
			b.Health = &caddypb.HealthCheck{Path: "/healthz", Interval: durationpb.New(5e8)}
		}),
		Production: func(context.Context) (string, error) { return c.config("/config/"), nil },
	})
}
