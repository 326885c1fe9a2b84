package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// other is how another partition is, as of the difference; all assets share what
// one of them read for a while.
func (r *reader) other(ctx context.Context, id intent.PartitionID, g *observation) check.Other {
	const shared = 5 * time.Second
	now := g.difference.At
	r.mu.Lock()
	cached := r.partitions[id]
	r.mu.Unlock()
	if age := now.Sub(cached.At); !cached.At.IsZero() && age >= 0 && age < shared {
		return cached
	}
	tally, err := r.lookOver(ctx, id, g.target.Partition, now)
	tally.At = now
	if err != nil {
		return check.Other{At: now, Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[id] = tally
	return tally
}

// lookOver counts what another partition's reports say. What its incarnations
// changed and nobody has looked at since is not in sync, whatever was reported
// before.
func (r *reader) lookOver(ctx context.Context, id, asker intent.PartitionID, now time.Time) (tally check.Other, err error) {
	if id == asker {
		return tally, fmt.Errorf("%s is this partition itself", id)
	}
	partition, err := r.store.Partition(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return tally, fmt.Errorf("there is no partition %s on this server", id)
	}
	if err != nil {
		return tally, err
	}
	tally.Stopped = partition.Stop != nil
	if partition.Head.IsZero() {
		return tally, nil
	}
	policy, err := r.policy(ctx, partition.Head)
	if err != nil {
		return tally, err
	}
	for _, c := range policy.GetChecks() {
		tally.Back = tally.Back || c.GetPartition().GetId() == string(asker)
	}
	served := map[intent.TypeName]bool{}
	for _, binding := range policy.GetPlugins() {
		served[intent.TypeName(binding.GetType())] = true
	}
	// Before the counts: of what is looked at meanwhile rather too little is counted.
	stale, unseen, err := r.overlooked(ctx, partition.Head, served, now)
	if err != nil {
		return tally, err
	}
	counts, err := r.store.CountReports(ctx, id)
	if err != nil {
		return tally, err
	}
	tally.InSync = counts[intent.StateInSync] - stale
	tally.Total = counts[intent.StateInSync] + counts[intent.StateWaiting] + counts[intent.StatePushing] + unseen
	return tally, nil
}

// mostHeads are how many incarnations are gone back for what nobody has looked
// at, by whoever asks first.
const mostHeads = 100

// overlooked counts the assets that were in sync with what incarnations changed
// since, and those that were never looked at. Once there are none, only newer
// incarnations matter: an enforcer follows head, and goes back no more.
func (r *reader) overlooked(ctx context.Context, head intent.IncarnationID, served map[intent.TypeName]bool, now time.Time) (stale, unseen int, err error) {
	const learnt = time.Minute // By then its enforcer knows of it.
	r.mu.Lock()
	lookedAt := r.lookedAt[head.Partition]
	r.mu.Unlock()
	visited := map[intent.AssetID]bool{}
	published := time.Time{}
	for id, n := head, 0; id.Sequence > lookedAt && n < mostHeads; n++ {
		incarnation, err := r.incarnation(ctx, id)
		if fault.Is(err, fault.NotFound) {
			break // It was collected, long ago.
		}
		if err != nil {
			return 0, 0, err
		}
		if published.IsZero() {
			published = incarnation.Created
		}
		err = r.changes(ctx, incarnation, func(change store.Change) error {
			if visited[change.Asset] {
				return nil // A newer one changed it again.
			}
			visited[change.Asset] = true
			if change.After == nil || !served[change.After.Type] {
				return nil
			}
			switch report, err := r.store.Report(ctx, id.Partition, change.Asset); {
			case fault.Is(err, fault.NotFound):
				unseen++
			case err != nil:
				return err
			case report.State == intent.StateInSync && report.Pinned == "" && report.Effective != change.After.Effective:
				stale++
			}
			return nil
		})
		if fault.Is(err, fault.NotFound) {
			break // Its parent was collected, long ago.
		}
		if err != nil {
			return 0, 0, err
		}
		id = incarnation.Parent
	}
	if stale+unseen == 0 && now.Sub(published) > learnt {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lookedAt[head.Partition] = max(lookedAt, head.Sequence)
	}
	return stale, unseen, nil
}

// changes walks over what an incarnation changed.
func (r *reader) changes(ctx context.Context, incarnation intent.Incarnation, visit func(store.Change) error) error {
	for cursor := (intent.AssetID)(""); ; {
		page, err := r.store.Changes(ctx, incarnation.Parent, incarnation.ID, cursor, pageSize)
		if err != nil {
			return err
		}
		for _, change := range page {
			cursor = change.Asset
			if err := visit(change); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}
