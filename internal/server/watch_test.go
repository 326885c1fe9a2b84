package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// watcher keeps what a watch tells of.
type watcher struct {
	w      *world
	stream *connect.ServerStreamForClient[apipb.WatchAssetsResponse]
	// has the digest of each asset; last is the incarnation that is complete.
	has    map[string]string
	last   string
	resets int
	events int
}

func (w *world) watch(ctx context.Context, request *apipb.WatchAssetsRequest) *watcher {
	w.Helper()
	request.Partition = "shop"
	stream, err := w.client.Assets.WatchAssets(ctx, request)
	w.must(err)
	return &watcher{w: w, stream: stream, has: map[string]string{}}
}

// next reads to the end of an incarnation, and returns the ids there are.
func (o *watcher) next() string {
	o.w.Helper()
	for o.stream.Receive() {
		m := o.stream.Msg()
		o.events++
		if m.Reset_ {
			o.has = map[string]string{}
			o.resets++
		}
		for _, asset := range m.Assets {
			o.has[asset.Id] = asset.Digest
		}
		for _, id := range m.Removed {
			delete(o.has, id)
		}
		if m.Complete {
			o.last = m.Incarnation
			var ids []string
			for id := range o.has {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return o.last + ": " + strings.Join(ids, " ")
		}
	}
	o.w.Fatalf("the watch ended: %v", o.stream.Err())
	return ""
}

func (o *watcher) expect(want string) {
	o.w.Helper()
	if got := o.next(); got != want {
		o.w.Fatalf("the watcher has %q, want %q", got, want)
	}
}

func TestWatchingAssets(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	early := w.watch(ctx, &apipb.WatchAssetsRequest{})
	w.publish(0, w.job("a", 1, "v1"), w.job("b", 3, "v1"), w.command("c", "x"))
	early.expect("shop@1: a b c")
	all := w.watch(ctx, &apipb.WatchAssetsRequest{})
	all.expect("shop@1: a b c")
	some := w.watch(ctx, &apipb.WatchAssetsRequest{Filter: `type == "Job" && payload.replicas > 2`})
	some.expect("shop@1: b")

	w.publish(1, w.job("a", 5, "v1"), w.job("b", 1, "v1"), w.job("d", 1, "v1"))
	all.expect("shop@2: a b c d")
	some.expect("shop@2: a")
	w.remove(2, "a", "c")
	all.expect("shop@3: b d")
	some.expect("shop@3: ")
	w.publish(3, w.command("c", "y"))
	all.expect("shop@4: b c d")
	some.expect("shop@4: ")
	if all.resets != 1 || some.resets != 1 || some.events != 4 {
		t.Errorf("resets: %d, %d; events: %d", all.resets, some.resets, some.events)
	}

	// What was cut off goes on where it was.
	again := w.watch(ctx, &apipb.WatchAssetsRequest{Filter: `type == "Job" && payload.replicas > 2`, After: "shop@1"})
	again.has["b"] = "known"
	again.expect("shop@4: ")
	current := w.watch(ctx, &apipb.WatchAssetsRequest{After: "shop@4"})
	current.expect("shop@4: ")
	w.publish(4, w.job("e", 9, "v1"))
	current.expect("shop@5: e")
	again.expect("shop@5: e")
	// What is not retained, or never was, cannot be gone on after.
	lost := w.watch(ctx, &apipb.WatchAssetsRequest{After: "shop@77"})
	lost.expect("shop@5: b c d e")
	if again.resets != 0 || current.resets != 0 || lost.resets != 1 {
		t.Errorf("resets: %d, %d, %d", again.resets, current.resets, lost.resets)
	}
}

func TestResumingAfterWhatWasCollected(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("a", 1, "v1"))
	w.publish(1, w.job("b", 1, "v1"))
	w.publish(2, w.job("c", 1, "v1"))
	_, err := w.store.Collect(t.Context(), w.lease, store.Retention{Incarnations: 1, Period: time.Nanosecond, History: time.Nanosecond}, time.Now().Add(time.Hour))
	w.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := w.watch(ctx, &apipb.WatchAssetsRequest{After: "shop@1"})
	watch.expect("shop@3: a b c")
	if watch.resets != 1 {
		t.Errorf("%d resets", watch.resets)
	}
}

// More than one event of assets, and of changes.
func TestWatchingMany(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 1200 {
		assets = append(assets, w.job(intent.AssetID(fmt.Sprintf("a/%04d", i)), 1, "v1"))
	}
	w.publish(0, assets...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := w.watch(ctx, &apipb.WatchAssetsRequest{})
	watch.next()
	if len(watch.has) != 1200 || watch.events < 3 {
		t.Errorf("%d assets in %d events", len(watch.has), watch.events)
	}
	before := watch.has["a/1199"]
	for i := range assets {
		assets[i] = w.job(assets[i].ID, 2, "v1")
	}
	w.publish(1, assets...)
	watch.next()
	if len(watch.has) != 1200 || watch.events < 6 || watch.has["a/1199"] == before {
		t.Errorf("%d assets in %d events", len(watch.has), watch.events)
	}
}

func TestManyWatchers(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("a", 1, "v1"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var ready sync.WaitGroup
	const watchers = 100
	ready.Add(watchers)
	for i := range watchers {
		all.Go(func() {
			request := &apipb.WatchAssetsRequest{Partition: "shop"}
			if i%2 == 0 {
				request.Filter = fmt.Sprintf(`type == "Job" && payload.replicas > %d`, i%4)
			}
			stream, err := w.client.Assets.WatchAssets(ctx, request)
			if err != nil {
				t.Error(err)
				ready.Done()
				return
			}
			defer stream.Close()
			for first := true; stream.Receive(); first = false {
				if first {
					ready.Done()
				}
				if stream.Msg().Incarnation == "shop@4" && stream.Msg().Complete {
					return
				}
			}
			t.Errorf("a watch ended: %v", stream.Err())
		})
	}
	ready.Wait()
	for i := range 3 {
		w.publish(intent.Sequence(i+1), w.job("a", i+2, "v1"))
	}
	all.Wait()
}

func TestWatchesThatCannotBe(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.job("a", 1, "v1"))
	for request, kind := range map[*apipb.WatchAssetsRequest]fault.Kind{
		{}:                                   fault.Invalid,
		{Partition: "mall"}:                  fault.NotFound,
		{Partition: "shop", After: "mall@1"}: fault.Invalid,
		{Partition: "shop", After: "1"}:      fault.Invalid,
		{Partition: "shop", Filter: "type == 1 "}: fault.Invalid,
	} {
		stream, err := w.client.Assets.WatchAssets(t.Context(), request)
		w.must(err)
		for stream.Receive() {
		}
		if err := client.Fault(stream.Err()); !fault.Is(err, kind) {
			t.Errorf("%v ends with %v, want %s", request, err, kind)
		}
		stream.Close()
	}
	// A partition that goes takes its watches along.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := w.watch(ctx, &apipb.WatchAssetsRequest{})
	watch.expect("shop@1: a")
	w.must(w.store.RemovePartition(ctx, "shop", "a try", ann))
	for watch.stream.Receive() {
	}
	if err := client.Fault(watch.stream.Err()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the watch ended with %v", err)
	}
}
