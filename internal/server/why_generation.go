package server

import (
	"context"
	"slices"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
)

// readGeneration finds out whether the asset asked for is an orphan that a rule of generations
// names, and whether that keeps it.
func (s *Server) readGeneration(ctx context.Context, facts *explain.Facts) error {
	report, ok := facts.Reports[facts.Asset]
	if !ok || report.State != intent.StateGone || report.Absent || facts.Past {
		return nil
	}
	policy, err := s.policy(ctx, facts.Head)
	if err != nil {
		return err
	}
	rule, ok := generation.Find(policy, facts.Asset)
	if !ok {
		return nil
	}
	var older []generation.Older
	for cursor := intent.AssetID(""); ; {
		orphans, err := s.store.Orphans(ctx, facts.Partition, cursor, mostPage)
		if err != nil {
			return err
		}
		for _, orphan := range orphans {
			cursor = orphan.Asset
			if rule.Names(orphan.Asset) {
				older = append(older, generation.Older{Asset: orphan.Asset, Sequence: orphan.Incarnation.Sequence, At: orphan.At})
			}
		}
		if len(orphans) < mostPage {
			break
		}
	}
	isOlder := func(o generation.Older) bool { return o.Asset == facts.Asset }
	if slices.ContainsFunc(older, isOlder) {
		facts.Generation = &explain.Generation{Rule: rule.GetName(), Keep: int(rule.GetKeep()), Kept: !slices.ContainsFunc(rule.Surplus(older), isOlder)}
	}
	return nil
}
