package enforcer

import (
	"context"
	"fmt"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// readFacts works out how an asset stands after a look. enforced is its content as
// enforced last, if it is there as such.
func (r *reader) readFacts(ctx context.Context, content intent.Asset, enforced *intent.Asset, d intent.Difference) (*neighbourFacts, error) {
	s := &neighbourFacts{at: d.At, effective: d.Effective, inSync: d.Outcome == intent.InSync, impacts: d.Impacts}
	var err error
	if s.turndown, err = schema.Addon(content, &intentpb.Turndown{}); err != nil {
		return nil, err
	}
	s.empty = len(d.Current) == 0 && (d.Plan.Action == intent.ActionCreate || s.turndown && s.inSync)
	s.reported(content.ID, d)
	capacity, version := &intentpb.Capacity{}, &intentpb.Version{}
	if _, err = schema.Addon(content, capacity); err != nil {
		return nil, err
	}
	if _, err = schema.Addon(content, version); err != nil {
		return nil, err
	}
	if len(capacity.Dimensions) == 0 && version.Expression == "" && enforced == nil {
		s.declares.none = true
		return s, nil
	}
	rules, err := r.rules(ctx, d.Incarnation)
	if err != nil {
		return nil, err
	}
	outcome, err := rules.leave(content, d)
	for dimension, text := range capacity.Dimensions {
		quantity := s.evaluate(rules, outcome, dimension, text, d)
		if err != nil {
			quantity = amount{err: fmt.Errorf("how much of %s %s has is not known: %w", dimension, content.ID, err)}
		}
		s.setAmount(dimension, quantity)
	}
	s.declares = declaredIn(rules, content)
	s.moves = s.versionMoves(rules, content, enforced, d)
	return s, nil
}
