package remote

import (
	"context"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// mostChanged is how many assets may have changed for a plugin to be sent which. Where
// more have, it asks for what it holds.
const mostChanged = 10_000

// changedWithin bounds how long a batch waits to be sent with what changed.
const changedWithin = time.Second

// changeFeed sends the plugin at the other end of a stream, once for each new incarnation
// that it is asked about, which assets changed since the one before. Without it the
// plugin would ask for all its assets again after each change of one.
type changeFeed struct {
	contents plugin.Contents

	mutex      sync.Mutex
	partitions map[intent.PartitionID]*progress
}

// progress is how far a plugin knows the changes of a partition. Whoever has the turn may
// change it.
type progress struct {
	turn chan struct{}
	// sent is the newest incarnation whose changes it knows; failed is the last one whose
	// changes could not be read.
	sent, failed intent.Sequence
	// identity is that of the sent one, as it was when it was sent.
	identity intent.Digest
}

func newChangeFeed(contents plugin.Contents) *changeFeed {
	return &changeFeed{contents: contents, partitions: map[intent.PartitionID]*progress{}}
}

func (f *changeFeed) progressOf(partition intent.PartitionID) *progress {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	p := f.partitions[partition]
	if p == nil {
		p = &progress{turn: make(chan struct{}, 1)}
		f.partitions[partition] = p
	}
	return p
}

// sendWith calls send with what changed up to the incarnation, or nil. Of several calls
// as of a new incarnation the others wait until the first has sent: the plugin knows
// before it is asked. A context that ends lets them go on without.
func (f *changeFeed) sendWith(ctx context.Context, incarnation intent.IncarnationID, send func(*pluginpb.Changes)) {
	p := f.progressOf(incarnation.Partition)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		send(nil)
		return
	}
	if incarnation.Sequence <= p.sent || incarnation.Sequence == p.failed {
		<-p.turn
		send(nil)
		return
	}
	defer func() { <-p.turn }()
	send(f.compare(ctx, p, incarnation))
}

func (f *changeFeed) compare(ctx context.Context, p *progress, incarnation intent.IncarnationID) *pluginpb.Changes {
	contents, ok := f.contents.(plugin.ChangedContents)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changedWithin)
	defer cancel()
	identity, err := contents.Identity(ctx, incarnation)
	if err != nil {
		p.failed = incarnation.Sequence
		return nil
	}
	older, expected := intent.IncarnationID{Partition: incarnation.Partition, Sequence: p.sent}, p.identity
	var changed []intent.AssetID
	if !older.IsZero() {
		changed, err = changesSince(ctx, contents, older, expected, incarnation)
	}
	switch {
	case older.IsZero(), fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound):
		p.sent, p.identity = incarnation.Sequence, identity // The next changes start from it.
		return nil
	case err != nil:
		p.failed = incarnation.Sequence
		return nil
	}
	p.sent, p.identity = incarnation.Sequence, identity
	changes := &pluginpb.Changes{Older: older.String(), Changed: make([]uint64, len(changed))}
	for i, asset := range changed {
		changes.Changed[i] = plugin.NumberOf(asset)
	}
	return changes
}

// changesSince returns which assets differ from an older incarnation, if it is still the
// one whose identity is known. A fault.NotFound says that it is another now: the store
// lost commits, so the plugin must ask for what it holds.
func changesSince(ctx context.Context, contents plugin.ChangedContents, older intent.IncarnationID, expected intent.Digest, newer intent.IncarnationID) ([]intent.AssetID, error) {
	identity, err := contents.Identity(ctx, older)
	if err != nil {
		return nil, err
	}
	if identity != expected {
		return nil, fault.New(fault.NotFound, "%s is not what it was when its changes were sent", older)
	}
	return contents.Changed(ctx, older, newer, mostChanged)
}
