package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/plugintest/testbed"
	"lehr.dev/sdk/serve"
)

// proxied is a balancer whose admin endpoint is behind a proxy. Caddy is told that it may be
// called by that name.
func (c *caddy) proxied() (*caddypb.Balancer, *testbed.Proxy) {
	c.t.Helper()
	proxy := testbed.NewProxy(c.t, c.admin)
	b := c.balancer(upstream(c.t, "a"))
	b.Admin = proxy.Address()
	c.byHand(http.MethodPost, "/config/admin/origins", fmt.Sprintf("[%q, %q]", c.admin, b.Admin))
	waitFor(c.t, "Caddy to take calls by the proxy's name", func() error {
		if d := c.diff(b); d.Outcome == serve.Unknown {
			return errors.New(d.Reason)
		}
		return nil
	})
	return b, proxy
}

// TestTroubleOnTheWayToCaddy puts a proxy before a real admin endpoint. What cannot be read
// is unknown, never in sync and never absent; a write that got no answer comes about once;
// and when the trouble is over nothing of it is left.
func TestTroubleOnTheWayToCaddy(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		trouble testbed.Trouble
		says    string
	}{
		"refused":           {testbed.Trouble{Refuse: true}, "connection refused"},
		"hung":              {testbed.Trouble{Hang: true}, "no answer within"},
		"cut at once":       {testbed.Trouble{Cut: true}, "start it, for example"},
		"cut in the header": {testbed.Trouble{Cut: true, After: 40}, "start it, for example"},
		"cut in the body":   {testbed.Trouble{Cut: true, After: 250}, "start it, for example"},
		"garbled":           {testbed.Trouble{Garble: true}, "malformed"},
		"slow beyond use":   {testbed.Trouble{BytesPerSecond: 50}, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCaddy(t)
			b, proxy := c.proxied()
			c.mustPush(b)
			heavier := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
			planned := c.diff(heavier)

			proxy.Hurt(one.trouble)
			if d := c.diff(b); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, one.says) || len(d.Current) > 0 {
				t.Errorf("it is told as %v, %q, want %q", d.Outcome, d.Reason, one.says)
			}
			if outcome := c.push(heavier, planned, permits{}); outcome.Ending != serve.Failed || !outcome.Retryable {
				t.Errorf("a push ends %+v", outcome)
			}
			proxy.Heal()
			if d := c.diff(heavier); d.Outcome == serve.Unknown {
				t.Errorf("after it: %s", d.Reason)
			} else if d.Outcome == serve.Differs {
				c.mustPush(heavier)
			}
			shares(t, b.Listen[0], 1)
		})
	}
}

// TestAnAnswerThatIsCutIsFoundOut: the write went through, and its answer was lost.
func TestAnAnswerThatIsCutIsFoundOut(t *testing.T) {
	c := startCaddy(t)
	b, proxy := c.proxied()
	planned := c.diff(b)
	// The permit is asked for right before the write.
	cutting := permits{before: func() error { proxy.Hurt(testbed.Trouble{Cut: true}); return nil }}
	if outcome := c.push(b, planned, cutting); outcome.Ending == serve.Pushed {
		t.Errorf("with all answers cut the push ends %+v", outcome)
	}
	proxy.Heal()
	c.mustBeInSync(b)
}
