package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/plugins/caddy/balancer"
	"lehr.dev/sdk/serve"
)

// The tests of class C: a write is bound to what it was planned for, by a
// comparison in the very call that writes, with a token that is never reused.

// change is what the SDK hands to Apply.
func (c *caddy) change(b *caddypb.Balancer, push serve.PushID) serve.Change[*caddypb.Balancer] {
	c.t.Helper()
	asset := serve.Asset[*caddypb.Balancer]{ID: "balancer/web", Payload: b}
	resolved, err := balancer.New().Resolve(c.t.Context(), asset)
	if err != nil {
		c.t.Fatal(err)
	}
	states, err := balancer.New().Read(c.t.Context(), []serve.Asset[*caddypb.Balancer]{asset})
	if err == nil {
		err = states[0].Err
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return serve.Change[*caddypb.Balancer]{Asset: asset, Target: resolved, State: states[0], Push: push}
}

type applying func(context.Context, serve.Change[*caddypb.Balancer], serve.Permit) error

// race runs writers that have all compared before one of them writes, and
// returns how many wrote and how many were told that production moved.
func race(t *testing.T, writers []applying, changes []serve.Change[*caddypb.Balancer]) (wrote, stale int) {
	t.Helper()
	var ready sync.WaitGroup
	ready.Add(len(writers))
	results := make([]error, len(writers))
	var group sync.WaitGroup
	for i := range writers {
		// Asked once more when the connection broke under a write.
		arrive := sync.OnceFunc(func() {
			ready.Done()
			ready.Wait()
		})
		permit := permits{before: func() error {
			arrive()
			return nil
		}}
		group.Go(func() { results[i] = writers[i](t.Context(), changes[i], permit) })
	}
	group.Wait()
	for _, err := range results {
		switch {
		case err == nil:
			wrote++
		case errors.Is(err, serve.ErrStale):
			stale++
		default:
			t.Errorf("a writer that lost was told: %v", err)
		}
	}
	return wrote, stale
}

func TestOfTwoWritersOneWins(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	heavier := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
	r := balancer.New()
	one, other := []serve.Change[*caddypb.Balancer]{c.change(b, "p1"), c.change(heavier, "p2")}, applying(r.Apply)
	if wrote, stale := race(t, []applying{other, other}, one); wrote != 1 || stale != 1 {
		t.Errorf("of two that create, %d wrote and %d were stale", wrote, stale)
	}
	// Even when both want the same content.
	first := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 7 })
	same := []serve.Change[*caddypb.Balancer]{c.change(first, "p3"), c.change(first, "p4")}
	if wrote, stale := race(t, []applying{r.Apply, r.Apply}, same); wrote != 1 || stale != 1 {
		t.Errorf("of two that update, %d wrote and %d were stale", wrote, stale)
	}
	last := []serve.Change[*caddypb.Balancer]{c.change(b, "p5"), c.change(b, "p6")}
	if wrote, stale := race(t, []applying{r.Apply, r.Remove}, last); wrote != 1 || stale != 1 {
		t.Errorf("of one that updates and one that removes, %d wrote and %d were stale", wrote, stale)
	}
}

func TestTheSameContentHasAnotherToken(t *testing.T) {
	c := startCaddy(t)
	a := c.balancer(upstream(t, "a"))
	b := alter(a, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
	c.mustPush(a)
	old := c.change(b, "late")
	etag := c.etag(web)
	c.mustPush(b)
	c.mustPush(a)
	if now := c.change(b, "now"); now.State.Base == old.State.Base {
		t.Fatalf("two states with one content have one base, %s", old.State.Base)
	}
	before := c.config("/config/")
	if err := balancer.New().Apply(t.Context(), old, permits{}); !errors.Is(err, serve.ErrStale) {
		t.Errorf("a push of an old base ended with %v", err)
	}
	if err := balancer.New().Remove(t.Context(), old, permits{}); !errors.Is(err, serve.ErrStale) {
		t.Errorf("a removal of an old base ended with %v", err)
	}
	// Caddy itself refuses it, whatever the plugin compares beforehand.
	if status := c.patchIfMatch(web, `{}`, etag); status != http.StatusPreconditionFailed {
		t.Errorf("Caddy answers the old ETag with %d", status)
	}
	if c.config("/config/") != before {
		t.Error("something changed")
	}
}

// etag reads the ETag of a path.
func (c *caddy) etag(path string) string {
	c.t.Helper()
	response, err := http.Get("http://" + c.admin + path)
	if err != nil {
		c.t.Fatal(err)
	}
	response.Body.Close()
	return response.Header.Get("ETag")
}

func (c *caddy) patchIfMatch(path, body, etag string) int {
	c.t.Helper()
	request, err := http.NewRequest(http.MethodPatch, "http://"+c.admin+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("If-Match", etag)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// A change elsewhere in the same Caddy is none of the balancer's business.
func TestChangesElsewhereDoNotDisturb(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	heavier := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
	neighbour := c.balancer(upstream(t, "b"))
	neighbour.Name = "neighbour"
	update, create := c.change(heavier, "p1"), c.change(neighbour, "p2")
	c.byHand(http.MethodPut, "/config/apps/http/grace_period", `"3s"`)
	if err := balancer.New().Apply(t.Context(), update, permits{}); err != nil {
		t.Errorf("an update after a change elsewhere: %v", err)
	}
	if err := balancer.New().Apply(t.Context(), create, permits{}); err != nil {
		t.Errorf("a creation after a change elsewhere: %v", err)
	}
}

// A push that was planned for a Caddy before its restart creates nothing in
// the one after.
func TestARestartMovesTheBaseOfNothing(t *testing.T) {
	c := startCaddy(t)
	late := c.change(c.balancer(upstream(t, "a")), "late")
	c.Kill()
	c.Restart()
	if err := balancer.New().Apply(t.Context(), late, permits{}); !errors.Is(err, serve.ErrStale) {
		t.Errorf("it ended with %v", err)
	}
	if got := c.config("/config/apps"); got != "null" {
		t.Errorf("it made %s", got)
	}
}

func TestAPermitThatIsRefusedChangesNothing(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	refused := permits{before: func() error { return errors.New("the permit is withdrawn") }}
	before := c.config("/config/")
	if outcome := c.push(b, c.diff(b), refused); outcome.Ending == serve.Pushed {
		t.Errorf("the push ended %s", outcome.Ending)
	}
	if c.config("/config/") != before {
		t.Error("something changed")
	}
}

// The plan is compared first: a hand edit between diff and push that changes
// it makes the push stale, and one that does not needs a permit for the new
// base.
func TestAHandEditBetweenDiffAndPush(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	heavier := alter(b, func(b *caddypb.Balancer) { b.Upstreams["a"].Weight = 5 })
	planned := c.diff(heavier)
	c.byHand(http.MethodPost, web+"/idle_timeout", `"7s"`)
	if outcome := c.push(heavier, planned, permits{}); outcome.Ending != serve.Stale {
		t.Errorf("a push whose plan moved ended %s: %s", outcome.Ending, outcome.Reason)
	}
	planned = c.diff(heavier)
	// In the moment before the write, after all was compared.
	meddling := permits{before: func() error {
		c.byHand(http.MethodPost, web+"/read_timeout", `"7s"`)
		return nil
	}}
	if outcome := c.push(heavier, planned, meddling); outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "412") {
		t.Errorf("a push whose base moved under it ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if got := c.config(web + "/read_timeout"); got != `"7s"` {
		t.Errorf("the stale push wrote over it: %s", got)
	}
	c.mustPush(heavier)
}
