package enforcer

import (
	"google.golang.org/protobuf/proto"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// policy of a partition, decoded.
type policy struct {
	digest intent.Digest
	*intentpb.Policy
	// checks are its checks.
	checks []policyCheck
}

// requirements are what intent asks of a push of one asset: the union of
// those at the target and at the last enforced incarnation, so that a commit
// cannot disarm its own guards, and at head, so that a pin to older intent
// avoids none of them (S23).
type requirements struct {
	heeds headPolicy
	// common is what the common policy asked when they were gathered.
	common *commonAsked
	// edges that the asset declares itself.
	edges  []edge
	marked string
	// quorum of the approvals that a push consumes, and authors, who may not
	// approve it.
	quorum  intent.Quorum
	authors []string
	// rule of generations or previews that is the approval of the asset's removal; nil: none is.
	rule *intent.RuleApproval
	// isFound: the rule is one of previews, and Lehr did not create what is there.
	isFound bool
	// overridable are the checks that policy lets a person override.
	overridable []string
	// checks of the policies, with the content and the origin of the
	// target as far as one of them looks at it.
	checks  []check.Required
	content intent.Asset
	origin  check.Origin
	// partitions are the partitions that checks ask about.
	partitions map[intent.PartitionID]check.Other
	// trains of the environments that checks ask about.
	trains  map[check.Environment]check.Train
	own     map[*check.Configured]check.Own
	budgets []store.BudgetUse
	// unhealthy is how many assets may be so, or in flight, by the budget's key.
	unhealthy map[string]unhealthyIn
	// windows that a push counts in, and the ended pushes that the store has of
	// those that the enforcer does not know, by key.
	windows     []check.Window
	endedPushes map[string][]store.EndedPush
	// standing is that of the asset itself, inward what others declare to it;
	// nil: that does not matter to this push.
	standing *neighbourFacts
	inward   *inward
	// missing are the outputs of other assets that the content asks for and nobody told.
	missing []missingOutput
	// isRollback: a push takes it back to what it was before.
	isRollback bool
	// err: they could not be read; nothing is pushed without them (S1).
	err error
	// loaded are the contents that ask, at the target and as enforced last: the
	// next look at them need not read them again.
	loaded contents
}

// headPolicy is what head says of an asset whose target is another incarnation; of
// one that follows head it is zero.
type headPolicy struct {
	// effective digest of the asset at head; zero: it is not there.
	effective intent.Digest
	policy    intent.Digest
	// isRollback: a rollback has it go back to its target, which was found good; older: a pin
	// has it go back, that one or a person's.
	isRollback, older bool
}

// contents of an asset at its target and, where that matters, where it was
// enforced last and at head. Each belongs to an incarnation and so never changes.
type contents struct {
	effective    intent.Digest
	enforced     intent.IncarnationID
	heeds        headPolicy
	target       intent.Asset
	lastEnforced *intent.Asset
	// head is what the asset is there, where that is not what it is at its target.
	head *intent.Asset
	// err: what it was enforced with could not be read.
	err error
}

// noPolicy only observes.
func noPolicy() *policy {
	return &policy{Policy: &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}}
}

// modeOf translates a mode; unspecified is none.
func modeOf(mode intentpb.EnforcementMode) check.Mode {
	switch mode {
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF:
		return check.Off
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE:
		return check.Observe
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE:
		return check.Enforce
	default:
		return ""
	}
}

// stricter returns the stricter of two modes; an empty one says nothing.
func stricter(a, b check.Mode) check.Mode {
	for _, mode := range []check.Mode{check.Off, check.Observe, check.Enforce} {
		if a == mode || b == mode {
			return mode
		}
	}
	return check.Observe
}

// turndowns is the key of the budget on removals in flight in the partition.
// Those of scopes have an equals sign.
const turndowns = "turndown"

// quorumOf is what a policy asks of approvals.
func quorumOf(policy *intentpb.Policy) intent.Quorum {
	approval := policy.GetApproval()
	return intent.Quorum{People: int(approval.GetQuorum()), Period: approval.GetExpires().AsDuration()}
}

// policyCheck is one check of a policy, and what tells it from others; where tells
// which assets it is about.
type policyCheck struct {
	*intentpb.Check
	digest, filterDigest intent.Digest
}

// asksOf lists the checks of a policy. Which assets they are about is no part
// of what they are.
func asksOf(policy *intentpb.Policy) ([]policyCheck, error) {
	var checks []policyCheck
	for _, c := range policy.GetChecks() {
		bare := proto.CloneOf(c)
		bare.Where = ""
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
		if err != nil {
			return nil, err
		}
		checks = append(checks, policyCheck{c, intent.Sum("lehr.check.v1", text), intent.Sum("lehr.where.v1", []byte(c.Where))})
	}
	return checks, nil
}
