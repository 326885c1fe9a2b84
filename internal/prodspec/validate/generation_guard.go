package validate

import (
	"context"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// leaveReplaced takes assets out of the measure that are older generations of what the
// candidate has: a new generation is no removal of the one before.
func (j *judging) leaveReplaced(ctx context.Context, p *period, m *measure) error {
	renewed := map[string]bool{}
	var affected []intent.AssetID
	for _, asset := range m.affected {
		r, ok := j.ruleOf(asset)
		if !ok {
			affected = append(affected, asset)
			continue
		}
		isRenewed, known := renewed[r.GetName()]
		if !known {
			var err error
			if isRenewed, err = j.isRenewed(ctx, p, r); err != nil {
				return err
			}
			renewed[r.GetName()] = isRenewed
		}
		if isRenewed {
			m.total--
		} else {
			affected = append(affected, asset)
		}
	}
	m.affected = affected
	return nil
}

// ruleOf an asset is the rule of generations that names it, which both head and the candidate
// have: no commit exempts its own removals (S23).
func (j *judging) ruleOf(asset intent.AssetID) (generation.Rule, bool) {
	r, ok := generation.Find(j.HeadPolicy, asset)
	return r, ok && slices.ContainsFunc(generation.Rules(j.CandidatePolicy), func(c generation.Rule) bool { return c.Digest == r.Digest })
}

// isRenewed reports whether the candidate has a generation of what a rule names, and no fewer
// than the head had with which the period began: one that takes them away without others in
// their place removes them.
func (j *judging) isRenewed(ctx context.Context, p *period, r generation.Rule) (bool, error) {
	served, err := j.generationsAt(ctx, p.first, r)
	if fault.Is(err, fault.NotFound) { // It is not kept any more.
		served, err = j.generationsAt(ctx, j.Base, r)
	}
	if err != nil {
		return false, err
	}
	now, err := j.generationsAt(ctx, j.Base, r)
	if err != nil {
		return false, err
	}
	for _, entry := range j.delta {
		if r.Names(entry.Asset) {
			now[entry.Asset] = !entry.Removed
		}
	}
	remaining := 0
	for asset, isThere := range now {
		isDown, err := j.turnedDown(ctx, asset)
		if err != nil {
			return false, err
		}
		if isThere && !isDown {
			remaining++
		}
	}
	return remaining > 0 && remaining >= len(served), nil
}

// generationsAt lists what a rule names of an incarnation and nobody turned down in it.
func (j *judging) generationsAt(ctx context.Context, at intent.IncarnationID, r generation.Rule) (map[intent.AssetID]bool, error) {
	const page = 1000
	down := map[intent.AssetID]bool{}
	for filter := (store.AssetFilter{Prefix: r.GetPrefix(), Field: string(turndownType), Limit: page}); ; {
		members, err := j.Snapshots.Members(ctx, at, filter)
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			filter.After, down[member.Asset] = member.Asset, true
		}
		if len(members) < page {
			break
		}
	}
	found := map[intent.AssetID]bool{}
	for filter := (store.AssetFilter{Prefix: r.GetPrefix(), Limit: page}); ; {
		members, err := j.Snapshots.Members(ctx, at, filter)
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			if filter.After = member.Asset; r.Names(member.Asset) && !down[member.Asset] {
				found[member.Asset] = true
			}
		}
		if len(members) < page {
			return found, nil
		}
	}
}
