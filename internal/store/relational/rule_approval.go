package relational

import (
	"fmt"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// checkRule: a rule that is the approval in place of people's is in the policy of head, in
// this very transaction, and names the asset; the push carries out a Turndown by a plan that
// removes the asset's own thing and nothing else, and consumes nothing (S9). A rule of previews
// approves that of what Lehr itself made for the asset alone.
func (d *desk) checkRule(a store.Admission) (*intent.WaitingOn, error) {
	if a.Rule == nil {
		return nil, nil
	}
	refuse := func(format string, arguments ...any) *intent.WaitingOn {
		return &intent.WaitingOn{Kind: intent.WaitApproval, Approve: true, Reason: fmt.Sprintf("the %s is no approval of plan %s of content %s: ",
			a.Rule, a.Plan.Short(), a.Effective.Short()) + fmt.Sprintf(format, arguments...)}
	}
	switch {
	case !a.Removes:
		return refuse("no Turndown asks for it"), nil
	case !generation.RemovesOnlyItself(a.PlanDetail) || a.PlanDetail.Digest() != a.Plan:
		return refuse("it does not only remove the asset's own thing"), nil
	}
	policy, err := d.headPolicy()
	if err != nil {
		return nil, err
	}
	if !isInForce(policy, a) {
		return refuse("the policy of head does not have it so, or it does not name the asset"), nil
	}
	if a.Rule.Preview == "" {
		return nil, nil
	}
	made, err := hasMade(d.transaction, d.lease.Partition, a.Asset, a.ResourceKey)
	if err != nil || made {
		return nil, err
	}
	return refuse("the preview did not make what is there"), nil
}

// isInForce: a policy has the rule, and it names the asset.
func isInForce(policy *intentpb.Policy, a store.Admission) bool {
	if a.Rule.Preview != "" {
		_, ok := branchpreview.Approval(policy, a.Asset, &intentpb.PreviewRemoval{Rule: a.Rule.Rule, Digest: a.Rule.Digest.String(), Preview: a.Rule.Preview})
		return ok
	}
	_, ok := generation.Approval(policy, a.Asset, &intentpb.GenerationRemoval{Rule: a.Rule.Rule, Digest: a.Rule.Digest.String()})
	return ok
}

// headPolicy is the policy of head; nil: it has none.
func (d *desk) headPolicy() (*intentpb.Policy, error) {
	id := intent.IncarnationID{Partition: d.lease.Partition, Sequence: d.now.head}
	var member intent.Member
	var body []byte
	ok, err := d.one(contentOfMember, []any{string(id.Partition), string(intent.PolicyAsset), int64(id.Sequence)},
		&member.Asset, &member.Type, digestColumn{&member.Digest}, digestColumn{&member.Effective}, &member.Since, &body)
	if err != nil || !ok {
		return nil, err
	}
	if intent.BodyDigest(body) != member.Digest {
		return nil, fault.New(fault.Internal, "the policy of %s is damaged", id).WithHint("lehr store verify says what else is")
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	policy := &intentpb.Policy{}
	return policy, schema.Payload(asset, policy)
}
