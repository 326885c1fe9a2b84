// Package kubeobject keeps objects of Kubernetes clusters as intent says
// (lehr.kubernetes.v1.Object). What differs is what the API server predicts: it is asked
// what it would make of each object, and changes nothing. It deletes only for an asset that
// asks for its turndown, or to replace what cannot be changed. Between calls it keeps the
// answers that found an asset in sync, and gives them again while watches show that nothing
// has changed. Only the program lehr-kubernetes calls it, through sdk/serve.
package kubeobject

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"lehr.dev/internal/ground/recent"
	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/storagemark"
	"lehr.dev/sdk/serve"
)

const (
	objectType    serve.TypeName = "lehr.kubernetes.v1.Object"
	unmanagedType serve.TypeName = "lehr.intent.v1.Unmanaged"
	// atOnce is how many objects of one batch are looked at a time; diffWithin how long
	// the batch may take, because Lehr waits for 10 s.
	atOnce     = 16
	diffWithin = 8 * time.Second
)

// Objects serves lehr.kubernetes.v1.Object.
type Objects struct {
	list  *clusterfile.File
	marks *storagemark.Marks
	// seen are the answers that found an asset in sync.
	seen *recent.Map[seenKey, seen]

	mutex       sync.Mutex
	connections map[string]*connection
	// watching is until when production is watched; nil: Watch was not called.
	watching context.Context
	// accepted restores by the names of clusters, as the list said at listReadAt.
	accepted   map[string]string
	listReadAt time.Time

	hintMutex sync.Mutex
	toHint    func(serve.PartitionID, serve.AssetID)
}

// New serves the clusters of a list; marks remembers how far their storages had come.
func New(list *clusterfile.File, marks *storagemark.Marks) *Objects {
	return &Objects{list: list, marks: marks, connections: map[string]*connection{}, seen: recent.New[seenKey, seen](seenBytes)}
}

var _ serve.Kind = (*Objects)(nil)

// Served is of class C: the API server compares UID and resourceVersion, which it never
// gives out twice, in the very call that writes.
func (o *Objects) Served() serve.Served {
	return serve.Served{Type: objectType, Guarantee: serve.CompareAndSet, LongestEffect: kubeapi.LongestEffect, Cadence: cadence}
}

// Diff looks at the objects in any order, so that slow clusters do not always keep the
// same others from being told.
func (o *Objects) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	ctx, cancel := context.WithTimeoutCause(ctx, diffWithin, fmt.Errorf("all objects asked for at once were not looked at within %v", diffWithin))
	defer cancel()
	differences := make([]serve.Difference, len(assets))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, i := range rand.Perm(len(assets)) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			differences[i] = o.protected(ctx, assets[i], len(assets))
		})
	}
	running.Wait()
	return differences
}

// protected is the difference of an asset, also when looking at it panics: that is this
// asset's failure only (S12).
func (o *Objects) protected(ctx context.Context, asset serve.Intent, count int) (difference serve.Difference) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "panic while looking at %s: %v\n%s", asset.ID, problem, debug.Stack())
			difference = unknown(fmt.Errorf("looking at it panicked: %v (a defect of the plugin; its log has the stack)", problem))
		}
	}()
	return o.compare(ctx, asset, count)
}

// compare answers from what is known, where that is recent enough, or looks. So many assets are asked
// about at once.
func (o *Objects) compare(ctx context.Context, asset serve.Intent, count int) serve.Difference {
	s, err := readSubject(ctx, asset)
	if err != nil {
		return unknown(err)
	}
	c, err := o.connect(string(asset.Incarnation.Partition), s.payload.Cluster)
	if err != nil {
		return unknown(err)
	}
	c.watches.Expect(s.object(), s.seenKey().asset)
	if difference, ok := o.recall(ctx, c, s, count); ok {
		return difference
	}
	found, err := o.look(ctx, c, s, isAnswered)
	if err != nil {
		return unknown(err)
	}
	difference := found.difference()
	o.remember(found, difference)
	return difference
}

func unknown(err error) serve.Difference {
	pause, _ := kubeapi.BusyFor(err)
	return serve.Difference{Outcome: serve.Unknown, Reason: err.Error(), RetryAfter: pause}
}
