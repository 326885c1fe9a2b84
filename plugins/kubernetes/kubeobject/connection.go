package kubeobject

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/kindhealth"
	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/kubewatch"
	"lehr.dev/sdk/serve"
)

const (
	// cadence is how old an answer may be that nobody asked for in particular, and how long
	// what is in sync rests while its object is watched.
	cadence = 10 * time.Minute
	// mostUnwatched assets are hinted by time; with more, Lehr is told that hints are not to
	// be relied on, and looks at all by itself.
	mostUnwatched = 3000
	// listAge is how often the operator's list is read again while a cluster is halted.
	listAge = 5 * time.Second
)

// connection is a cluster as the operator's list has it.
type connection struct {
	name    string
	cluster clusterfile.Cluster
	server  *kubeapi.Server
	watches *kubewatch.Set
	// health of kinds for which the list has expressions, by Kind.group.
	health map[string]*kindhealth.Rule
}

// connect returns the connection that a partition names.
func (o *Objects) connect(partition, name string) (*connection, error) {
	cluster, err := o.list.Find(partition, name)
	if err != nil {
		return nil, err
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if c := o.connections[name]; c != nil {
		return c, nil
	}
	server, err := kubeapi.Connect(cluster)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster %s: %w", name, err)
	}
	c := &connection{name: name, cluster: cluster, server: server, health: map[string]*kindhealth.Rule{}}
	for kind, text := range cluster.Health {
		if c.health[kind], err = kindhealth.Compile(text); err != nil { // The list was read with it.
			return nil, fmt.Errorf("the health of %s in the cluster %s: %w", kind, name, err)
		}
	}
	c.watches = kubewatch.New(server, o.marks, o.hint)
	if o.watching != nil {
		c.watches.Start(o.watching)
	}
	o.connections[name] = c
	return c, nil
}

var _ serve.Watcher = (*Objects)(nil)

// Watch hints what the watches of all clusters tell. An asset whose object is not watched
// now, because its API is away or may not be watched, is hinted by time: each look at it asks
// the cluster. So what other watches tell stays reliable.
func (o *Objects) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	o.hintMutex.Lock()
	o.toHint = hint
	o.hintMutex.Unlock()
	o.mutex.Lock()
	if o.watching == nil {
		o.watching = ctx
		for _, c := range o.connections {
			c.watches.Start(ctx)
		}
	}
	o.mutex.Unlock()
	beat := time.NewTicker(kubewatch.Beat)
	defer beat.Stop()
	for {
		if unwatched := o.tick(time.Now()); unwatched > mostUnwatched {
			return fmt.Errorf("%d objects are not watched now, more than %d", unwatched, mostUnwatched)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
		}
	}
}

func (o *Objects) tick(now time.Time) (unwatched int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, c := range o.connections {
		unwatched += c.watches.Tick(now)
	}
	return unwatched
}

func (o *Objects) hint(asset kubewatch.Asset) {
	o.hintMutex.Lock()
	hint := o.toHint
	o.hintMutex.Unlock()
	if hint != nil {
		hint(asset.Partition, asset.ID)
	}
}

// believe returns the last restore of a cluster that was accepted; empty: there was none. It
// is an error while the cluster is not to be believed, because it was restored from a backup
// and nobody has accepted that. The list is read again meanwhile: an entry of whoever
// operates the plugin ends it.
func (o *Objects) believe(ctx context.Context, c *connection, resource schema.GroupResource) (accepted string, err error) {
	uid, err := c.server.UID(ctx)
	if err != nil {
		return "", err
	}
	if o.marks.Halted(uid, resource) != nil {
		o.marks.Accept(uid, o.acceptedRestore(c))
	}
	if restored := o.marks.Halted(uid, resource); restored != nil {
		return "", restored
	}
	return cmp.Or(o.marks.Accepted(uid), c.cluster.Restored), nil
}

// acceptedRestore is what the list says now of a cluster's restore.
func (o *Objects) acceptedRestore(c *connection) string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if now := time.Now(); now.Sub(o.listReadAt) > listAge {
		o.listReadAt = now
		if again, err := o.list.ReadAgain(); err == nil {
			o.accepted = map[string]string{}
			for name, cluster := range again.Clusters {
				o.accepted[name] = cluster.Restored
			}
		}
	}
	if id, ok := o.accepted[c.name]; ok {
		return id
	}
	return c.cluster.Restored
}
