package prodspec

import (
	"context"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
)

// grantedBy reads what the assets of a partition tell, and what its policy, as it is
// served, grants to a reader. One that serves nothing yet grants nothing.
func grantedBy(ctx context.Context, s Store, other, reader intent.PartitionID) (read outputs.Offer, err error) {
	partition, err := s.Partition(ctx, other)
	if err != nil {
		return read, err
	}
	if !partition.Head.IsZero() {
		policy := &intentpb.Policy{}
		_, body, err := s.Content(ctx, partition.Head, intent.PolicyAsset)
		if err != nil {
			return read, fault.New(fault.Unavailable, "the policy of partition %s cannot be read: %w", other, err)
		}
		asset, err := schema.Decode(body)
		if err == nil {
			err = schema.Payload(asset, policy)
		}
		if err != nil {
			return read, err
		}
		read.Grants = outputs.GrantsTo(reader, policy)
	}
	read.Document, err = s.Document(ctx, other, outputs.Document, "")
	if fault.Is(err, fault.NotFound) {
		read.Document, err = document.Document{}, nil
	}
	return read, err
}

// otherPartitions wakes a pipeline when what other partitions tell, or grant, may have
// changed. It belongs to the goroutine of Run.
type otherPartitions struct {
	pipeline *Pipeline
	// watched are closed once a partition is not watched any more.
	watched map[intent.PartitionID]chan struct{}
}

// watch begins to watch those that sources read. One that no source reads any more is
// watched on until the pipeline ends, which costs a look when it changes.
func (o *otherPartitions) watch(ctx context.Context, list []definition.Source, watcher source.Watch) {
	for _, src := range list {
		if src.Remote == nil || src.Remote.Outputs == "" || o.watched[src.Remote.Outputs] != nil {
			continue
		}
		other, done := src.Remote.Outputs, make(chan struct{})
		o.watched[other] = done
		o.pipeline.options.Runtime.Go("outputs of "+string(other), func() {
			defer close(done)
			o.pipeline.followOther(ctx, other, watcher)
		})
	}
}

func (o *otherPartitions) wait() {
	for _, other := range slices.Sorted(maps.Keys(o.watched)) {
		_ = o.pipeline.options.Runtime.Wait(context.Background(), -1, o.watched[other])
	}
}

// followOther wakes the pipeline until the context ends. The first look wakes it too: what
// changed between the reading and this was not told.
func (p *Pipeline) followOther(ctx context.Context, other intent.PartitionID, watcher source.Watch) {
	type state struct {
		revision string
		policy   intent.Digest
		there    bool
	}
	var last state
	for {
		changed := p.options.Store.Changed(other)
		now := state{}
		partition, err := p.options.Store.Partition(ctx, other)
		if err == nil {
			now.there = true
			if !partition.Head.IsZero() {
				var member intent.Member
				member, err = p.options.Store.Member(ctx, partition.Head, intent.PolicyAsset)
				now.policy = member.Digest
			}
		}
		if doc, docErr := p.options.Store.Document(ctx, other, outputs.Document, ""); docErr == nil {
			now.revision = doc.Revision.ID
		} else if !fault.Is(docErr, fault.NotFound) {
			err = docErr
		}
		if (err == nil || fault.Is(err, fault.NotFound)) && now != last {
			last = now
			watcher.Wake()
		}
		if p.options.Runtime.Wait(ctx, -1, changed) != nil {
			return
		}
	}
}
