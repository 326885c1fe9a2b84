package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lehr.dev/annealing/check"
	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/schema"
	"lehr.dev/store"
)

// reader reads intent for passes. Many goroutines use it.
type reader struct {
	store    store.Snapshots
	mu       sync.Mutex
	policies map[intent.IncarnationID]*policy
}

// policy of a partition, decoded.
type policy struct {
	digest intent.Digest
	*intentpb.Policy
}

// requirements are what intent asks of a push of one asset: the union of
// those at the target and at the last enforced incarnation, so that a commit
// cannot disarm its own guards.
type requirements struct {
	order   []edge
	marked  string
	budgets []store.BudgetUse
	// err: they could not be read; nothing is pushed without them (S1).
	err error
}

// edge is a dependency with the rule order.
type edge struct {
	on       intent.AssetID
	loosened bool
}

// asset returns an asset's content as of an incarnation.
func (r *reader) asset(ctx context.Context, id intent.IncarnationID, name intent.AssetID) (intent.Asset, error) {
	_, body, err := r.store.Content(ctx, id, name)
	if err != nil {
		return intent.Asset{}, err
	}
	return schema.Decode(body)
}

// policy returns the policy that an incarnation was published with. One
// without a policy asset only observes.
func (r *reader) policy(ctx context.Context, id intent.IncarnationID) (*policy, error) {
	r.mu.Lock()
	known := r.policies[id]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	member, err := r.store.Member(ctx, id, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return noPolicy(), nil
	}
	if err != nil {
		return nil, err
	}
	content, err := r.asset(ctx, id, intent.PolicyAsset)
	if err != nil {
		return nil, err
	}
	decoded := &policy{digest: member.Digest, Policy: &intentpb.Policy{}}
	if err := schema.Payload(content, decoded.Policy); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 1000
	if len(r.policies) >= most {
		clear(r.policies)
	}
	r.policies[id] = decoded
	return decoded, nil
}

// noPolicy only observes.
func noPolicy() *policy {
	return &policy{Policy: &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}}
}

// modeIn returns the mode that the asset's addon asks for, if it has one.
func modeIn(content intent.Asset) (check.Mode, error) {
	addon := &intentpb.Mode{}
	if _, err := schema.Addon(content, addon); err != nil {
		return "", err
	}
	return modeOf(addon.Mode), nil
}

// requirements of a push of an asset to its content at target, when it was
// enforced last at enforced (zero: never).
func (r *reader) requirements(ctx context.Context, target, enforced intent.IncarnationID, content intent.Asset) requirements {
	var all requirements
	budgets := map[string]int{}
	err := r.require(ctx, target, content, &all, budgets, false)
	if err == nil && !enforced.IsZero() && enforced != target {
		var before intent.Asset
		if before, err = r.asset(ctx, enforced, content.ID); err == nil {
			err = r.require(ctx, enforced, before, &all, budgets, true)
		}
	}
	if err != nil {
		return requirements{err: fmt.Errorf("reading what a push of %s asks for: %w", content.ID, err)}
	}
	for _, key := range slices.Sorted(maps.Keys(budgets)) {
		all.budgets = append(all.budgets, store.BudgetUse{Key: key, Limit: budgets[key]})
	}
	return all
}

// require adds what an asset's content asks, under the policy of its
// incarnation. Loosened: it is the last enforced one, and what only it asks
// is no longer in the target.
func (r *reader) require(ctx context.Context, at intent.IncarnationID, content intent.Asset, all *requirements, budgets map[string]int, loosened bool) error {
	dependencies, approval, scope := &intentpb.Dependencies{}, &intentpb.Approval{}, &intentpb.ImpactedScope{}
	if _, err := schema.Addon(content, dependencies); err != nil {
		return err
	}
	if marked, err := schema.Addon(content, approval); err != nil {
		return err
	} else if marked && all.marked == "" {
		all.marked = approval.Reason
	}
	if _, err := schema.Addon(content, scope); err != nil {
		return err
	}
	for _, dependency := range dependencies.Dependencies {
		on := intent.AssetID(dependency.On)
		known := slices.ContainsFunc(all.order, func(e edge) bool { return e.on == on })
		if dependency.Rule == intentpb.Dependency_RULE_ORDER && !known {
			all.order = append(all.order, edge{on: on, loosened: loosened})
		}
	}
	policy, err := r.policy(ctx, at)
	if err != nil {
		return err
	}
	for _, budget := range policy.Budgets {
		value, impacted := scope.Scopes[budget.Scope]
		if !impacted {
			continue
		}
		key := budget.Scope + "=" + value
		if limit, taken := budgets[key]; !taken || int(budget.InFlight) < limit {
			budgets[key] = int(budget.InFlight)
		}
	}
	return nil
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
