package enforcer

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// removalRule returns the rule of generations that is the approval of the removal that an
// asset's Turndown asks for; nil: none is. The policies of the target and of head must both
// have it as the Turndown names it.
func (r *reader) removalRule(ctx context.Context, g *observation, target intent.Asset) (*intent.RuleApproval, error) {
	turndown := &intentpb.Turndown{}
	if _, err := schema.Addon(target, turndown); err != nil || turndown.GetGeneration() == nil {
		return nil, err
	}
	var found intent.RuleApproval
	for _, at := range []intent.IncarnationID{g.target, g.head} {
		policy, err := r.policy(ctx, at)
		if err != nil {
			return nil, err
		}
		approval, ok := generation.Approval(policy.Policy, target.ID, turndown.GetGeneration())
		if !ok {
			return nil, nil
		}
		found = approval
	}
	return &found, nil
}
