// Package kubeobject keeps objects of Kubernetes clusters as intent says
// (lehr.kubernetes.v1.Object). What differs is what the API server predicts: it is asked
// what it would make of each object, and changes nothing. It deletes only for an asset that
// asks for its turndown, or to replace what cannot be changed, and keeps nothing of
// production between calls. Only the program lehr-kubernetes calls it, through sdk/serve.
package kubeobject

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kubeapi"
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
	list *clusterfile.File

	mutex   sync.Mutex
	servers map[string]*kubeapi.Server
}

// New serves the clusters of a list.
func New(list *clusterfile.File) *Objects {
	return &Objects{list: list, servers: map[string]*kubeapi.Server{}}
}

var _ serve.Kind = (*Objects)(nil)

// Served is of class C: the API server compares UID and resourceVersion, which it never
// gives out twice, in the very call that writes.
func (o *Objects) Served() serve.Served {
	return serve.Served{Type: objectType, Guarantee: serve.CompareAndSet, LongestEffect: kubeapi.LongestEffect}
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
			differences[i] = o.protected(ctx, assets[i])
		})
	}
	running.Wait()
	return differences
}

// protected is the difference of an asset, also when looking at it panics: that is this
// asset's failure only (S12).
func (o *Objects) protected(ctx context.Context, asset serve.Intent) (difference serve.Difference) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "panic while looking at %s: %v\n%s", asset.ID, problem, debug.Stack())
			difference = unknown(fmt.Errorf("looking at it panicked: %v (a defect of the plugin; its log has the stack)", problem))
		}
	}()
	found, err := o.look(ctx, asset)
	if err != nil {
		return unknown(err)
	}
	return found.difference()
}

func unknown(err error) serve.Difference {
	pause, _ := kubeapi.BusyFor(err)
	return serve.Difference{Outcome: serve.Unknown, Reason: err.Error(), RetryAfter: pause}
}

// server that a partition names, as the operator's list has it.
func (o *Objects) server(partition, name string) (*kubeapi.Server, clusterfile.Cluster, error) {
	cluster, err := o.list.Find(partition, name)
	if err != nil {
		return nil, cluster, err
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if server := o.servers[name]; server != nil {
		return server, cluster, nil
	}
	server, err := kubeapi.Connect(cluster)
	if err != nil {
		return nil, cluster, fmt.Errorf("connecting to the cluster %s: %w", name, err)
	}
	o.servers[name] = server
	return server, cluster, nil
}
