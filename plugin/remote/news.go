package remote

import (
	"context"
	"sync"
	"time"

	"lehr.dev/fault"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
)

// mostChanged is how many assets may have changed for a plugin to be told which. Where
// more have, it asks for what it holds.
const mostChanged = 10_000

// changedWithin bounds how long a batch waits to be sent with what changed.
const changedWithin = time.Second

// news tells the plugin at the other end of a stream what changed from one incarnation
// of a partition to the next that it is asked about, once: without it, it would ask for
// all its assets again after each change of one.
type news struct {
	contents plugin.Contents

	mutex      sync.Mutex
	partitions map[intent.PartitionID]*progress
}

// progress is how far a plugin has been told. Whoever has the turn may change it.
type progress struct {
	turn chan struct{}
	// told is the newest incarnation that it was asked about, but for what cannot be
	// told; refused is the last such.
	told, refused intent.Sequence
}

func newNews(contents plugin.Contents) *news {
	return &news{contents: contents, partitions: map[intent.PartitionID]*progress{}}
}

func (n *news) progressOf(partition intent.PartitionID) *progress {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	p := n.partitions[partition]
	if p == nil {
		p = &progress{turn: make(chan struct{}, 1)}
		n.partitions[partition] = p
	}
	return p
}

// tell calls send with what changed before the incarnation, or nil. Of several calls
// as of a new incarnation the others wait until the first has sent: the plugin knows
// before it is asked. A context that ends lets them go on without.
func (n *news) tell(ctx context.Context, incarnation intent.IncarnationID, send func(*pluginpb.Changes)) {
	p := n.progressOf(incarnation.Partition)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		send(nil)
		return
	}
	if incarnation.Sequence <= p.told || incarnation.Sequence == p.refused {
		<-p.turn
		send(nil)
		return
	}
	defer func() { <-p.turn }()
	send(n.compare(ctx, p, incarnation))
}

func (n *news) compare(ctx context.Context, p *progress, incarnation intent.IncarnationID) *pluginpb.Changes {
	contents, ok := n.contents.(plugin.ChangedContents)
	older := intent.IncarnationID{Partition: incarnation.Partition, Sequence: p.told}
	if !ok || older.IsZero() {
		p.told = incarnation.Sequence
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changedWithin)
	defer cancel()
	changed, err := contents.Changed(ctx, older, incarnation, mostChanged)
	switch {
	case err == nil:
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound):
		p.told = incarnation.Sequence // What comes after it can be told.
		return nil
	default:
		p.refused = incarnation.Sequence
		return nil
	}
	p.told = incarnation.Sequence
	told := &pluginpb.Changes{Older: older.String(), Changed: make([]uint64, len(changed))}
	for i, asset := range changed {
		told.Changed[i] = plugin.NumberOf(asset)
	}
	return told
}
