package enforcer

import (
	"context"
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// gathered is what policies ask of a push with their checks.
type gathered struct {
	// former: the policy at hand is that of the last enforced incarnation.
	former bool
	// isRollback: a rollback has the asset go back.
	isRollback bool
	checks     []gatheredCheck
	// windows that a push counts in, by rate limits among them.
	windows []check.Window
	// policies in force, whose say it is what may be overridden.
	policies []*policy
}

// gatheredCheck is former where only the last enforced incarnation asks for it.
type gatheredCheck struct {
	policyCheck
	former bool
	// common rule that asks for it; nil: a policy of the partition does.
	common *check.Common
}

// loosened reports whether only the last enforced incarnation asks for one of the checks.
func (b *gathered) loosened() bool {
	return slices.ContainsFunc(b.checks, func(a gatheredCheck) bool { return a.former })
}

// ask adds the checks of a policy that are about the content.
func (r *reader) ask(ctx context.Context, at intent.IncarnationID, policy *policy, content intent.Asset, scopes map[string]string, collected *gathered) error {
	collected.policies = append(collected.policies, policy)
	for _, c := range policy.checks {
		if c.Where != "" {
			applies, err := r.isAbout(ctx, at, c.Check, content)
			if err != nil {
				return err
			}
			if !applies {
				continue
			}
		}
		if w, counts := check.Counts(c.Check, content, scopes, collected.isRollback && check.HoldsRollbacks(c.Check)); counts && !slices.ContainsFunc(collected.windows, func(existing check.Window) bool { return existing.Key == w.Key }) {
			collected.windows = append(collected.windows, w)
		}
		at := slices.IndexFunc(collected.checks, func(existing gatheredCheck) bool { return existing.digest == c.digest })
		if at < 0 {
			collected.checks = append(collected.checks, gatheredCheck{policyCheck: c, former: collected.former})
			continue
		}
		collected.checks[at].former = collected.checks[at].former && collected.former
	}
	return nil
}

// isAbout reports whether a check of an incarnation is about the content.
func (r *reader) isAbout(ctx context.Context, at intent.IncarnationID, c *intentpb.Check, content intent.Asset) (bool, error) {
	types, err := r.rules(ctx, at)
	if err != nil {
		return false, err
	}
	filter, err := types.Filter(c.Where)
	if err != nil {
		return false, fmt.Errorf("which assets the check %s is about: %w", c.Name, err)
	}
	return filter.Match(content)
}

// ready makes what was asked ready, and reads what it looks at. All is judged
// of the target, in the target's types.
func (r *reader) ready(ctx context.Context, g *observation, collected *gathered, all *requirements) error {
	if len(collected.checks) == 0 {
		return nil
	}
	types, err := r.rules(ctx, g.target)
	if err != nil {
		return err
	}
	for _, a := range collected.checks {
		ready := r.configured(a.policyCheck, types)
		all.checks = append(all.checks, check.Required{Configured: ready, Loosened: a.former, Common: a.common})
		if ready.NeedsContent {
			all.content = all.loaded.target
		}
		if id := ready.Partition; id != "" && all.partitions[id].At.IsZero() {
			if all.partitions == nil {
				all.partitions = map[intent.PartitionID]check.Other{}
			}
			all.partitions[id] = r.other(ctx, id, g)
		}
		if e := ready.Environment; e != (check.Environment{}) {
			if all.trains == nil {
				all.trains = map[check.Environment]check.Train{}
			}
			all.trains[e] = r.train(ctx, e, g)
		}
		if ready.Question != nil || ready.Protection != nil {
			if all.own == nil {
				all.own = map[*check.Configured]check.Own{}
			}
			all.own[ready] = all.standing.own(types, all.loaded.target, ready, g.difference)
		}
		if ready.NeedsOrigin && all.origin.Incarnation.IsZero() {
			if all.origin, err = r.origin(ctx, g); err != nil {
				return err
			}
		}
	}
	if err := r.readEnded(ctx, g.target.Partition, collected.windows, all); err != nil {
		return err
	}
	for _, c := range all.checks {
		if c.Common != nil {
			if c.Common.Overridable {
				all.overridable = append(all.overridable, c.Name)
			}
			continue
		}
		forbidden := slices.ContainsFunc(collected.policies, func(p *policy) bool { return !check.Allows(p.Policy, c.Name, c.Kind) })
		if at := slices.Index(all.overridable, c.Name); at < 0 && !forbidden && !all.forbids(c) {
			all.overridable = append(all.overridable, c.Name)
		}
	}
	return nil
}

// forbids: another check of that name may be of a kind that is not to be
// overridden.
func (all *requirements) forbids(c check.Required) bool {
	return slices.ContainsFunc(all.checks, func(namesake check.Required) bool { return namesake.Name == c.Name && namesake.Kind != c.Kind })
}

// configured is a check that is ready. All assets share it.
func (r *reader) configured(a policyCheck, types *ruling) *check.Configured {
	key := checkOf{a.digest, a.filterDigest, types.schemaSet.Digest()}
	r.mu.Lock()
	cached := r.checks[key]
	r.mu.Unlock()
	if cached != nil {
		return cached
	}
	cached = check.Configure(a.Check, types.Environment)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.checks) >= mostRemembered {
		clear(r.checks)
	}
	r.checks[key] = cached
	return cached
}

// origin says where the target of an asset comes from.
func (r *reader) origin(ctx context.Context, g *observation) (check.Origin, error) {
	target, err := r.incarnation(ctx, g.target)
	if err != nil {
		return check.Origin{}, err
	}
	origin := check.Origin{Incarnation: g.target, Published: target.Created}
	member, err := r.store.Member(ctx, g.target, g.asset.id)
	if err != nil {
		return check.Origin{}, err
	}
	origin.Since = intent.IncarnationID{Partition: g.target.Partition, Sequence: member.Since}
	first, err := r.incarnation(ctx, origin.Since)
	if fault.Is(err, fault.NotFound) {
		origin.Lost = fmt.Errorf("its content came with %s, which is not kept any more", origin.Since)
		return origin, nil
	}
	origin.Appeared, origin.Sources = first.Created, first.Sources
	return origin, err
}

// readEnded reads what the store has of windows that the enforcer does not know.
func (r *reader) readEnded(ctx context.Context, partition intent.PartitionID, windows []check.Window, all *requirements) (err error) {
	all.windows = windows
	if unknown := r.known.missing(windows); len(unknown) > 0 {
		all.endedPushes, err = r.store.Ended(ctx, partition, unknown, mostCounted)
	}
	return err
}
