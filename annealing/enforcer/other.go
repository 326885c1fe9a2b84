package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/annealing/check"
	"lehr.dev/fault"
	"lehr.dev/intent"
)

// other is how another partition is, as of the difference; all assets share what
// one of them read for a while.
func (r *reader) other(ctx context.Context, id intent.PartitionID, g *glance) check.Other {
	const shared = 5 * time.Second
	now := g.difference.At
	r.mu.Lock()
	known := r.others[id]
	r.mu.Unlock()
	if age := now.Sub(known.At); !known.At.IsZero() && age >= 0 && age < shared {
		return known
	}
	found, err := r.lookOver(ctx, id, g.target.Partition)
	found.At = now
	if err != nil {
		return check.Other{At: now, Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others[id] = found
	return found
}

// lookOver counts what another partition's reports say. What head changed and
// nobody has looked at since is not in sync, whatever was reported before.
func (r *reader) lookOver(ctx context.Context, id, asks intent.PartitionID) (found check.Other, err error) {
	if id == asks {
		return found, fmt.Errorf("%s is this partition itself", id)
	}
	partition, err := r.store.Partition(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return found, fmt.Errorf("there is no partition %s on this server", id)
	}
	if err != nil {
		return found, err
	}
	found.Stopped = partition.Stop != nil
	if partition.Head.IsZero() {
		return found, nil
	}
	counts, err := r.store.CountReports(ctx, id)
	if err != nil {
		return found, err
	}
	found.InSync = counts[intent.StateInSync]
	found.Of = found.InSync + counts[intent.StateWaiting] + counts[intent.StatePushing]
	policy, err := r.policy(ctx, partition.Head)
	if err != nil {
		return found, err
	}
	for _, c := range policy.GetChecks() {
		found.Back = found.Back || c.GetPartition().GetId() == string(asks)
	}
	served := map[intent.TypeName]bool{}
	for _, binding := range policy.GetPlugins() {
		served[intent.TypeName(binding.GetType())] = true
	}
	head, err := r.incarnation(ctx, partition.Head)
	if err != nil {
		return found, err
	}
	for after := (intent.AssetID)(""); ; {
		page, err := r.store.Changes(ctx, head.Parent, head.ID, after, pageSize)
		if fault.Is(err, fault.NotFound) {
			return found, nil // The parent was collected, long ago.
		}
		if err != nil {
			return found, err
		}
		for _, change := range page {
			after = change.Asset
			if change.After == nil || !served[change.After.Type] {
				continue
			}
			switch report, err := r.store.Report(ctx, id, change.Asset); {
			case fault.Is(err, fault.NotFound):
				found.Of++
			case err != nil:
				return found, err
			case report.State == intent.StateInSync && report.Target.Sequence < head.ID.Sequence:
				found.InSync--
			}
		}
		if len(page) < pageSize {
			return found, nil
		}
	}
}
