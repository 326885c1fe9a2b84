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
	// identity is that of the told one, as it was when it was told.
	identity intent.Digest
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
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changedWithin)
	defer cancel()
	identity, err := contents.Identity(ctx, incarnation)
	if err != nil {
		p.refused = incarnation.Sequence
		return nil
	}
	older, known := intent.IncarnationID{Partition: incarnation.Partition, Sequence: p.told}, p.identity
	var changed []intent.AssetID
	if !older.IsZero() {
		changed, err = changesSince(ctx, contents, older, known, incarnation)
	}
	switch {
	case older.IsZero(), fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound):
		p.told, p.identity = incarnation.Sequence, identity // What comes after it can be told.
		return nil
	case err != nil:
		p.refused = incarnation.Sequence
		return nil
	}
	p.told, p.identity = incarnation.Sequence, identity
	told := &pluginpb.Changes{Older: older.String(), Changed: make([]uint64, len(changed))}
	for i, asset := range changed {
		told.Changed[i] = plugin.NumberOf(asset)
	}
	return told
}

// changesSince returns which assets differ from an older incarnation, if it is still the
// one whose identity is known. A fault.NotFound says that it is another now: the store
// lost commits, so the plugin must ask for what it holds.
func changesSince(ctx context.Context, contents plugin.ChangedContents, older intent.IncarnationID, known intent.Digest, newer intent.IncarnationID) ([]intent.AssetID, error) {
	identity, err := contents.Identity(ctx, older)
	if err != nil {
		return nil, err
	}
	if identity != known {
		return nil, fault.New(fault.NotFound, "%s is not what it was when it was told", older)
	}
	return contents.Changed(ctx, older, newer, mostChanged)
}
