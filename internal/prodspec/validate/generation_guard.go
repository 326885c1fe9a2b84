package validate

import (
	"context"
	"slices"

	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// leaveReplaced takes assets out of the measure that are older generations of what the
// candidate has: a new generation is no removal of the one before.
func (j *judging) leaveReplaced(ctx context.Context, m *measure) error {
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
			if isRenewed, err = j.isRenewed(ctx, r); err != nil {
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
// than head has: one that takes them away without another in their place removes them.
func (j *judging) isRenewed(ctx context.Context, r generation.Rule) (bool, error) {
	const page = 1000
	before := map[intent.AssetID]bool{}
	filter := store.AssetFilter{Prefix: r.GetPrefix(), Limit: page}
	for {
		members, err := j.Snapshots.Members(ctx, j.Base, filter)
		if err != nil {
			return false, err
		}
		for _, member := range members {
			filter.After = member.Asset
			if r.Names(member.Asset) {
				before[member.Asset] = true
			}
		}
		if len(members) < page {
			break
		}
	}
	if err := j.readTurndowns(ctx); err != nil {
		return false, err
	}
	now := map[intent.AssetID]bool{}
	for asset := range before {
		if j.turndownAssets[asset] {
			delete(before, asset)
		}
		now[asset] = true
	}
	for _, entry := range j.delta {
		if r.Names(entry.Asset) {
			now[entry.Asset] = !entry.Removed
		}
	}
	stay := 0
	for asset, isThere := range now {
		isDown, err := j.turnedDown(ctx, asset)
		if err != nil {
			return false, err
		}
		if isThere && !isDown {
			stay++
		}
	}
	return stay > 0 && stay >= len(before), nil
}
