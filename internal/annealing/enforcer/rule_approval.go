package enforcer

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// removalRule returns the rule of generations or previews that is the approval of the removal that
// an asset's Turndown asks for; nil: none is. The policies of the target and of head must both
// have it as the Turndown names it. Of a rule of previews, isFound says that Lehr did not create
// what is there for the asset: then the rule approves nothing, and people decide.
func (r *reader) removalRule(ctx context.Context, g *observation, target intent.Asset) (rule *intent.RuleApproval, isFound bool, _ error) {
	turndown := &intentpb.Turndown{}
	if _, err := schema.Addon(target, turndown); err != nil || turndown.GetGeneration() == nil && turndown.GetPreview() == nil {
		return nil, false, err
	}
	var found intent.RuleApproval
	for _, at := range []intent.IncarnationID{g.target, g.head} {
		policy, err := r.policy(ctx, at)
		if err != nil {
			return nil, false, err
		}
		approval, ok := generation.Approval(policy.Policy, target.ID, turndown.GetGeneration())
		if !ok {
			approval, ok = branchpreview.Approval(policy.Policy, target.ID, turndown.GetPreview())
		}
		if !ok {
			return nil, false, nil
		}
		found = approval
	}
	if found.Preview == "" {
		return &found, false, nil
	}
	made, err := r.store.HasMade(ctx, g.target.Partition, target.ID, g.difference.ResourceKey)
	return &found, !made, err
}
