package enforcer

import (
	"context"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// commonAsked is what the common policy of the server asks of pushes in the partition, beside
// what the partition's policies do. It is never changed.
type commonAsked struct {
	// stored is the digest of the common policy, owner that of the partition by which its
	// rules were chosen, and digest that of what they ask.
	stored, digest intent.Digest
	owner          string
	rules          []commonRule
}

// commonRule is a rule that is about the partition.
type commonRule struct {
	*intentpb.CommonRule
	checks []policyCheck
	// origins of the checks, in their order.
	origins []*check.Common
}

// readCommon reads what the common policy asks of the partition under head's policy. What was
// chosen before is used again while nothing moved that it rests on.
func (e *Enforcer) readCommon(ctx context.Context, next *view) error {
	stored, err := e.Store.CommonPolicy(ctx)
	if err != nil {
		return err
	}
	owner, previous := next.policy.GetOwner(), e.view.common
	if previous != nil && previous.stored == stored.Digest && previous.owner == owner {
		next.common = previous
		return nil
	}
	policy, err := commonpolicy.Decode(stored.Body)
	if err != nil {
		return err
	}
	next.common, err = newCommonAsked(policy, stored.Digest, e.Partition, owner)
	return err
}

func newCommonAsked(policy *intentpb.CommonPolicy, stored intent.Digest, partition intent.PartitionID, owner string) (*commonAsked, error) {
	asked := &commonAsked{stored: stored, owner: owner}
	var names []byte
	for _, rule := range commonpolicy.Rules(policy, commonpolicy.TraitsOf(policy, partition, owner)) {
		checks, err := asksOf(rule.GetPolicy())
		if err != nil {
			return nil, err
		}
		r := commonRule{CommonRule: rule, checks: checks}
		for _, c := range checks {
			part := "checks." + strings.TrimPrefix(c.Name, commonpolicy.CheckName(rule.Name, ""))
			r.origins = append(r.origins, &check.Common{
				Rule: rule.Name, Owner: rule.Owner, Place: commonpolicy.Place(policy, rule, part),
				Observed: !commonpolicy.Required(rule), Overridable: slices.Contains(rule.Overridable, c.Name),
			})
		}
		asked.rules = append(asked.rules, r)
		names = append(names, rule.Name+"\x00"...)
	}
	if len(asked.rules) > 0 {
		asked.digest = intent.Sum("lehr.common.enforced.v1", append(stored[:], names...))
	}
	return asked, nil
}

// commonDigest is that of what the common policy asks; zero: nothing.
func (v *view) commonDigest() intent.Digest {
	if v.common == nil {
		return intent.Digest{}
	}
	return v.common.digest
}

// digestAsked is that of what was asked; zero: nothing was.
func (c *commonAsked) digestAsked() intent.Digest {
	if c == nil {
		return intent.Digest{}
	}
	return c.digest
}

// hasChecks reports whether any rule has a check.
func (c *commonAsked) hasChecks() bool {
	return c != nil && slices.ContainsFunc(c.rules, func(r commonRule) bool { return len(r.checks) > 0 })
}

// requireCommon adds what the common policy asks of the push. No policy of the partition takes
// any of it away. Of rules that are only observed the checks are judged, and hold nothing.
func (r *reader) requireCommon(ctx context.Context, g *observation, loaded contents, all *requirements, budgets map[string]int, collected *gathered) error {
	if all.common = g.common; g.common == nil {
		return nil
	}
	contentsAsked := []intent.Asset{loaded.target}
	for _, more := range []*intent.Asset{loaded.lastEnforced, loaded.head} {
		if more != nil {
			contentsAsked = append(contentsAsked, *more)
		}
	}
	for _, rule := range g.common.rules {
		if commonpolicy.Required(rule.CommonRule) {
			all.quorum = all.quorum.Stricter(quorumOf(rule.Policy))
			for _, content := range contentsAsked {
				scope := &intentpb.ImpactedScope{}
				if _, err := schema.Addon(content, scope); err != nil {
					return err
				}
				if err := useBudgets(rule.Policy, scope, all, budgets, collected); err != nil {
					return err
				}
			}
			if all.standing.turndown && rule.Policy.Turndowns > 0 {
				use(budgets, turndowns, rule.Policy.Turndowns)
			}
		}
		if err := r.askCommon(ctx, g, rule, loaded.target, collected); err != nil {
			return err
		}
	}
	return nil
}

// askCommon adds the checks of a common rule that are about the content.
func (r *reader) askCommon(ctx context.Context, g *observation, rule commonRule, content intent.Asset, collected *gathered) error {
	scope := &intentpb.ImpactedScope{}
	if _, err := schema.Addon(content, scope); err != nil {
		return err
	}
	for i, c := range rule.checks {
		if c.Where != "" {
			about, err := r.isAbout(ctx, g.target, c.Check, content)
			if err != nil {
				return err
			}
			if !about {
				continue
			}
		}
		origin := rule.origins[i]
		if origin.Observed && c.GetRate() != nil {
			continue // What would count in it is counted only where it is in force.
		}
		if w, counts := check.Counts(c.Check, content, scope.Scopes, collected.isRollback && check.HoldsRollbacks(c.Check)); counts {
			collected.windows = append(collected.windows, w)
		}
		collected.checks = append(collected.checks, gatheredCheck{policyCheck: c, common: origin})
	}
	return nil
}
