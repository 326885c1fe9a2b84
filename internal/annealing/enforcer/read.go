package enforcer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// contents reads what a look needs, unless the look before did.
func (r *reader) contents(ctx context.Context, g *observation) (contents, error) {
	if loaded, ok := g.priorContents(); ok {
		return loaded, nil
	}
	loaded := contents{effective: g.effective, enforced: g.enforced, heeds: g.heeds}
	var err error
	if g.body != nil {
		loaded.target, err = schema.Decode(g.body)
		g.body = nil
	} else {
		loaded.target, err = r.asset(ctx, g.target, g.asset.id)
	}
	if err != nil {
		return loaded, err
	}
	if g.difference.Outcome == intent.Differs && !g.enforced.IsZero() && g.enforced != g.target {
		lastEnforced, err := r.asset(ctx, g.enforced, g.asset.id)
		loaded.lastEnforced, loaded.err = &lastEnforced, err
	}
	if g.difference.Outcome == intent.Differs && !g.heeds.effective.IsZero() && g.heeds.effective != g.effective {
		head, err := r.asset(ctx, g.head, g.asset.id)
		loaded.head, loaded.err = &head, errors.Join(loaded.err, err)
	}
	return loaded, nil
}

// priorContents returns what the look before read, if this one needs just that.
func (g *observation) priorContents() (loaded contents, ok bool) {
	if g.prior == nil {
		return contents{}, false
	}
	loaded = g.prior.loaded
	return loaded, loaded.target.ID != "" && loaded.effective == g.effective && loaded.enforced == g.enforced && loaded.heeds == g.heeds
}

// modeIn returns the mode that the asset's addon asks for, if it has one.
func modeIn(content intent.Asset) (check.Mode, error) {
	addon := &intentpb.Mode{}
	if _, err := schema.Addon(content, addon); err != nil {
		return "", err
	}
	return modeOf(addon.Mode), nil
}

// requirements of a push of an asset to what it is at its target.
func (r *reader) requirements(ctx context.Context, g *observation, loaded contents) requirements {
	all, err := r.required(ctx, g, loaded)
	if err != nil {
		return requirements{err: fmt.Errorf("reading what a push of %s asks for: %w", g.asset.id, err)}
	}
	return all
}

// required gathers what every policy and content in force asks of the push.
func (r *reader) required(ctx context.Context, g *observation, loaded contents) (all requirements, err error) {
	if all.loaded, all.heeds = loaded, g.heeds; loaded.err != nil {
		return all, loaded.err
	}
	var present *intent.Asset
	switch {
	case g.runs && loaded.lastEnforced != nil:
		present = loaded.lastEnforced
	case g.runs:
		present = &loaded.target
	}
	if all.standing, err = r.readFacts(ctx, loaded.target, present, g.difference); err != nil {
		return all, err
	}
	if all.edges, err = edgesToHeed(loaded.target, present, all.standing); err != nil {
		return all, err
	}
	if all.missing, err = readMissing(loaded.target); err != nil {
		return all, err
	}
	if all.rule, all.isFound, err = r.removalRule(ctx, g, loaded.target); err != nil {
		return all, err
	}
	all.overridable = check.Overridable()
	if all.isRollback, err = r.goesBack(ctx, g); err != nil {
		return all, err
	}
	budgets, collected := map[string]int{}, &gathered{isRollback: g.heeds.isRollback}
	err = r.require(ctx, g.target, loaded.target, &all, budgets, collected)
	if err == nil && loaded.lastEnforced != nil {
		collected.former = true
		err = r.require(ctx, g.enforced, *loaded.lastEnforced, &all, budgets, collected)
		collected.former = false
	}
	if err == nil && g.heeds != (headPolicy{}) {
		// Also what the target is: head may not have the asset.
		err = r.require(ctx, g.head, loaded.target, &all, budgets, collected)
	}
	if err == nil && loaded.head != nil {
		err = r.require(ctx, g.head, *loaded.head, &all, budgets, collected)
	}
	if err == nil {
		err = r.requireCommon(ctx, g, loaded, &all, budgets, collected)
	}
	if err == nil {
		err = r.ready(ctx, g, collected, &all)
	}
	if err != nil {
		return all, err
	}
	for _, key := range slices.Sorted(maps.Keys(budgets)) {
		all.budgets = append(all.budgets, store.BudgetUse{Key: key, Limit: budgets[key]})
	}
	switch prior := g.prior; {
	case !all.standing.lifts():
	case prior != nil && prior.inward != nil && prior.inward.covers(g.horizon) && prior.standing.moves == all.standing.moves && prior.standing.effective == g.effective:
		all.inward = prior.inward
	default:
		all.inward, err = r.inward(ctx, g.asset.id, g.target.Partition, g.horizon, all.standing)
	}
	if err == nil && g.difference.Outcome == intent.Differs && (all.marked != "" || g.difference.Plan.Destructive() || len(all.edges) > 0 || all.inward != nil && len(all.inward.referrers) > 0 || collected.loosened()) {
		all.authors, err = r.store.Authors(ctx, g.target, g.asset.id, g.difference.At)
	}
	if len(all.edges) == 0 && (all.inward == nil || len(all.inward.referrers) == 0) {
		all.loaded = contents{} // It will hardly wait long; there may be a million.
	}
	return all, err
}

// goesBack reports whether a push of what was found takes the asset back: a pin says so,
// or the incarnation that gave it its content, whose documents were only undone.
func (r *reader) goesBack(ctx context.Context, g *observation) (bool, error) {
	if g.heeds != (headPolicy{}) || g.difference.Outcome != intent.Differs || g.enforced.IsZero() {
		return g.heeds.older, nil
	}
	policy, err := r.policy(ctx, g.target)
	if err != nil || len(policy.checks) == 0 && !g.common.hasChecks() {
		return false, err
	}
	member, err := r.store.Member(ctx, g.target, g.asset.id)
	if err != nil || member.Since <= g.enforced.Sequence {
		return false, err // It was enforced with it: this repairs it.
	}
	first, err := r.incarnation(ctx, intent.IncarnationID{Partition: g.target.Partition, Sequence: member.Since})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return first.Back, err
}

// require adds what an asset's content asks, under the policy of its
// incarnation.
func (r *reader) require(ctx context.Context, at intent.IncarnationID, content intent.Asset, all *requirements, budgets map[string]int, collected *gathered) error {
	approval, scope := &intentpb.Approval{}, &intentpb.ImpactedScope{}
	if marked, err := schema.Addon(content, approval); err != nil {
		return err
	} else if marked && all.marked == "" {
		all.marked = approval.Reason
	}
	if _, err := schema.Addon(content, scope); err != nil {
		return err
	}
	policy, err := r.policy(ctx, at)
	if err != nil {
		return err
	}
	all.quorum = all.quorum.Stricter(intent.Quorum{People: int(approval.Quorum)}).Stricter(quorumOf(policy.Policy))
	all.overridable = slices.DeleteFunc(all.overridable, func(name string) bool { return !slices.Contains(policy.GetOverrides().GetAllow(), name) })
	if err := useBudgets(policy.Policy, scope, all, budgets, collected); err != nil {
		return err
	}
	if all.standing.turndown {
		use(budgets, turndowns, max(1, policy.Turndowns))
	}
	return r.ask(ctx, at, policy, content, scope.Scopes, collected)
}

// use counts a push in a budget, by the smallest of its limits.
func use(budgets map[string]int, key string, most uint32) {
	if limit, ok := budgets[key]; !ok || int(most) < limit {
		budgets[key] = int(most)
	}
}

// useBudgets counts a push in the budgets of a policy that the scopes of a content are of.
func useBudgets(policy *intentpb.Policy, scope *intentpb.ImpactedScope, all *requirements, budgets map[string]int, collected *gathered) error {
	for _, budget := range policy.GetBudgets() {
		value, impacted := scope.Scopes[budget.Scope]
		if !impacted {
			continue
		}
		key := budget.Scope + "=" + value
		if collected.isRollback {
			use(budgets, key+check.Back, budget.InFlight)
			continue // What is ill is mended by going back.
		}
		use(budgets, key, budget.InFlight)
		bound := unhealthyIn{int(budget.Unhealthy), budget.Scope, value}
		if prior, exists := all.unhealthy[key]; bound.most == 0 || exists && prior.most <= bound.most {
			continue
		}
		if err := bound.check(); err != nil && collected.former {
			continue // There would be no way out.
		} else if err != nil {
			return err
		}
		if all.unhealthy == nil {
			all.unhealthy = map[string]unhealthyIn{}
		}
		all.unhealthy[key] = bound
	}
	return nil
}
