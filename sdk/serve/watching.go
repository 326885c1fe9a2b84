package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/recent"
)

const (
	// askedBytes bounds what is kept of which assets were asked about, of all connections;
	// hints about what is forgotten are dropped.
	askedBytes = 128 << 20
	// leastWatchPause and mostWatchPause bound the pause before a Watch that ended is
	// called again.
	leastWatchPause, mostWatchPause = time.Second, time.Minute
)

// watching runs the plugin's watchers, and hands what they hint to the streams of those
// who asked about it. A nil one watches nothing.
type watching struct {
	plugin   string
	watchers []Watcher
	// asked are the assets that each connection asked about lately.
	asked *recent.Map[heldKey, struct{}]

	mutex   sync.Mutex
	streams map[*hintStream]bool
	// failures of the watchers that do not run, by their place.
	failures map[int]error
}

// newWatching is nil when no kind of the plugin watches production.
func newWatching(p Plugin) *watching {
	w := &watching{plugin: p.Name, streams: map[*hintStream]bool{}, failures: map[int]error{}}
	for _, kind := range p.Resources {
		w.watchers = append(w.watchers, watchersOf(kind)...)
	}
	if len(w.watchers) == 0 {
		return nil
	}
	w.asked = recent.New[heldKey, struct{}](askedBytes)
	return w
}

func watchersOf(kind Kind) []Watcher {
	if k, ok := kind.(interface{ watchers() []Watcher }); ok {
		return k.watchers()
	}
	if watcher, ok := kind.(Watcher); ok {
		return []Watcher{watcher}
	}
	return nil
}

// run starts all watchers, and starts each again that ends before ctx does.
func (w *watching) run(ctx context.Context) {
	if w == nil {
		return
	}
	for place, watcher := range w.watchers {
		go w.keep(ctx, place, watcher)
	}
}

func (w *watching) keep(ctx context.Context, place int, watcher Watcher) {
	pace := loop.Backoff{First: leastWatchPause, Most: mostWatchPause}
	for failures := 1; ; failures++ {
		startedAt := time.Now()
		err := protect("Watch", "", func() error { return watcher.Watch(ctx, w.hint) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("Watch returned without an error: a defect of the plugin")
		}
		if time.Since(startedAt) > mostWatchPause {
			failures = 1
		}
		fmt.Fprintf(os.Stderr, "%s: production is not watched: %v\n", w.plugin, err)
		w.fail(place, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace.After(failures)):
		}
		w.resume(place)
	}
}

// fail ends all streams: what a watcher misses is not hinted.
func (w *watching) fail(place int, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failures[place] = err
	for stream := range w.streams {
		stream.end(err)
	}
}

func (w *watching) resume(place int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.failures, place)
}

// join adds a stream, unless a watcher does not run.
func (w *watching) join(stream *hintStream) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, err := range w.failures {
		return err
	}
	w.streams[stream] = true
	return nil
}

func (w *watching) leave(stream *hintStream) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.streams, stream)
}

// recordAsked keeps what a batch asks about, before it is answered.
func (w *watching) recordAsked(connection uint64, batch *pluginpb.DiffBatch) {
	const overhead = 100
	if w == nil {
		return
	}
	for _, asset := range batch.Assets {
		key := heldKey{connection, PartitionID(batch.Partition), AssetID(asset)}
		w.asked.Put(key, struct{}{}, len(asset)+overhead)
	}
}

// hint hands an asset to the streams whose connection asked about it.
func (w *watching) hint(partition PartitionID, asset AssetID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for stream := range w.streams {
		if _, ok := w.asked.Get(heldKey{stream.connection, partition, asset}); ok {
			stream.add(hinted{partition, asset})
		}
	}
}
