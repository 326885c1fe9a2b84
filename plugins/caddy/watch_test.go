package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/plugins/caddy/balancer"
	"lehr.dev/sdk/serve"
)

// watching is a plugin's watch, with the hints that it gave.
type watching struct {
	balancers balancer.Balancers
	mutex     sync.Mutex
	hints     map[serve.AssetID]int
}

func startWatching(t *testing.T) *watching {
	t.Helper()
	w := &watching{balancers: balancer.New(), hints: map[serve.AssetID]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = w.balancers.Watch(ctx, func(_ serve.PartitionID, asset serve.AssetID) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.hints[asset]++
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// look looks at a balancer as the asset of its name.
func (w *watching) look(t *testing.T, b *caddypb.Balancer) {
	t.Helper()
	_, err := w.balancers.Read(t.Context(), []serve.Asset[*caddypb.Balancer]{{ID: serve.AssetID(b.Name), Payload: b}})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *watching) count(asset serve.AssetID) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.hints[asset]
}

// hinted waits for a hint about an asset, after those that there were.
func (w *watching) hinted(t *testing.T, what string, asset serve.AssetID, before int) {
	t.Helper()
	waitFor(t, what+" is hinted", func() error {
		if w.count(asset) == before {
			return errors.New("no hint came")
		}
		return nil
	})
}

// A change by hand is hinted, for each balancer in that Caddy and no other, and so are the
// end of Caddy and its return.
func TestChangesAreHinted(t *testing.T) {
	c, quiet := startCaddy(t), startCaddy(t)
	b := c.balancer(upstream(t, "a"), upstream(t, "b"))
	c.mustPush(b)
	elsewhere := quiet.balancer(upstream(t, "a"))
	elsewhere.Name = "elsewhere"
	other := proto.CloneOf(b)
	other.Name = "other"
	w := startWatching(t)
	for range 2 {
		w.look(t, b)
		w.look(t, other)
		w.look(t, elsewhere)
	}
	name := serve.AssetID(b.Name)
	for _, weight := range []string{"9", "8", "7"} {
		before, others := w.count(name), w.count("other")
		c.byHand(http.MethodPatch, web+"/routes/0/handle/0/load_balancing/selection_policy/weights/0", weight)
		w.hinted(t, "a change to "+weight, name, before)
		w.hinted(t, "a change of the other", "other", others)
	}
	before := w.count(name)
	c.Kill()
	w.hinted(t, "the end of Caddy", name, before)
	before = w.count(name)
	c.Restart()
	w.hinted(t, "the return of Caddy", name, before)
	if n := w.count("elsewhere"); n > 0 {
		t.Errorf("%d hints about a Caddy that nobody touched", n)
	}
}

// A change between a look and the first connection is hinted too.
func TestChangeBeforeTheWatch(t *testing.T) {
	c := startCaddy(t)
	b := c.balancer(upstream(t, "a"))
	c.mustPush(b)
	w := &watching{balancers: balancer.New(), hints: map[serve.AssetID]int{}}
	w.look(t, b) // Nobody wants hints yet.
	c.byHand(http.MethodPut, web+"/idle_timeout", `"7s"`)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- w.balancers.Watch(ctx, func(_ serve.PartitionID, asset serve.AssetID) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.hints[asset]++
		})
	}()
	w.hinted(t, "a change before the watch", serve.AssetID(b.Name), 0)
	cancel()
	<-ended
}
