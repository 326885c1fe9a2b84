package enforcer

import (
	"context"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// inward reads what others declare to an asset.
func (r *reader) inward(ctx context.Context, referent intent.AssetID, partition intent.PartitionID, horizon []intent.Sequence, s *neighbourFacts) (*inward, error) {
	inbound := &inward{horizon: horizon}
	for _, sequence := range horizon {
		at := intent.IncarnationID{Partition: partition, Sequence: sequence}
		if err := r.inwardAt(ctx, referent, at, s, inbound); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	slices.Sort(inbound.referrers)
	inbound.referrers = slices.Compact(inbound.referrers)
	return inbound, nil
}

// inwardAt adds what is declared in one incarnation. One that is no longer
// kept is one that nobody follows, nor was enforced at, any more. Most assets
// have no edges to them: they cost one query, and none where no asset of the
// partition has dependencies.
func (r *reader) inwardAt(ctx context.Context, referent intent.AssetID, at intent.IncarnationID, s *neighbourFacts, inbound *inward) error {
	if !s.turndown {
		if any, err := r.anyDependencies(ctx, at); err != nil || !any {
			return err
		}
	}
	references, err := r.store.EdgesTo(ctx, at, referent)
	if err != nil {
		return err
	}
	declares := func(e store.Edge) bool { return strings.HasPrefix(e.Field, dependencies+".") }
	if !s.turndown && !slices.ContainsFunc(references, declares) || len(references) == 0 {
		return nil
	}
	if inbound.edges == nil {
		inbound.edges, inbound.refers, inbound.tried = map[intent.Digest][]edge{}, map[intent.Digest]bool{}, map[intent.AssetID][]attempt{}
	}
	contents, err := r.referrers(ctx, referent, at, s, inbound)
	for _, reference := range references {
		if content, ok := contents[reference.From]; ok && !declares(reference) {
			inbound.refers[content] = true
		}
	}
	return err
}

// referrers adds the assets that refer to one, and what they declare to it. It
// returns their contents.
func (r *reader) referrers(ctx context.Context, referent intent.AssetID, at intent.IncarnationID, s *neighbourFacts, inbound *inward) (map[intent.AssetID]intent.Digest, error) {
	const page = 5000
	contents := map[intent.AssetID]intent.Digest{}
	for cursor := (intent.AssetID)(""); ; {
		members, err := r.store.Members(ctx, at, store.AssetFilter{RefersTo: referent, After: cursor, Limit: page})
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			cursor = member.Asset
			if member.Asset == referent {
				continue
			}
			contents[member.Asset] = member.Effective
			inbound.referrers = append(inbound.referrers, member.Asset)
			if err := r.declaredBy(ctx, referent, at, member, s, inbound); err != nil {
				return nil, err
			}
		}
		if len(members) < page {
			return contents, nil
		}
	}
}

// dependencies is the type of the addon, and begins the path of every
// reference in it.
var dependencies = string((&intentpb.Dependencies{}).ProtoReflect().Descriptor().FullName())

// anyDependencies reports whether any asset of an incarnation declares some.
func (r *reader) anyDependencies(ctx context.Context, at intent.IncarnationID) (bool, error) {
	r.mu.Lock()
	any, ok := r.depends[at]
	r.mu.Unlock()
	if ok {
		return any, nil
	}
	members, err := r.store.Members(ctx, at, store.AssetFilter{Field: dependencies, Limit: 1})
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.depends) >= mostRemembered {
		clear(r.depends)
	}
	r.depends[at] = len(members) > 0
	return r.depends[at], nil
}

// declaredBy adds what a member of an incarnation declares to the asset.
func (r *reader) declaredBy(ctx context.Context, referent intent.AssetID, at intent.IncarnationID, member intent.Member, s *neighbourFacts, inbound *inward) error {
	if _, ok := inbound.edges[member.Effective]; ok {
		return nil
	}
	all, err := r.edges(ctx, at, member)
	if err != nil {
		return err
	}
	var matching []edge
	needs := false
	for _, declared := range all {
		if declared.neighbour == referent {
			matching = append(matching, declared)
			needs = needs || declared.rule == intentpb.Dependency_RULE_VERSION
		}
	}
	inbound.edges[member.Effective] = matching
	if !needs || !s.moves {
		return nil
	}
	if _, ok := inbound.tried[member.Asset]; ok {
		return nil
	}
	return r.attempts(ctx, referent, at.Partition, member.Asset, inbound)
}

// attempts adds the last pushes of an asset, and what their contents declare.
func (r *reader) attempts(ctx context.Context, referent intent.AssetID, partition intent.PartitionID, id intent.AssetID, inbound *inward) error {
	const most = 10
	pushes, err := r.store.Pushes(ctx, partition, id, most)
	inbound.tried[id] = nil
	for _, push := range pushes {
		inbound.tried[id] = append(inbound.tried[id], attempt{push.Effective, push.Target.Sequence})
		if _, ok := inbound.edges[push.Effective]; ok {
			continue
		}
		member, err := r.store.Member(ctx, push.Target, id)
		if fault.Is(err, fault.NotFound) {
			continue // Not kept: older than what anything follows.
		}
		if err != nil {
			return err
		}
		all, err := r.edges(ctx, push.Target, member)
		if err != nil {
			return err
		}
		inbound.edges[push.Effective] = slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return e.neighbour != referent })
	}
	return err
}

// edges of a member, remembered: a hub asks for those of a thousand at every
// look.
func (r *reader) edges(ctx context.Context, at intent.IncarnationID, member intent.Member) ([]edge, error) {
	r.mu.Lock()
	cached, ok := r.declared[member.Digest]
	r.mu.Unlock()
	if ok {
		return cached, nil
	}
	content, err := r.asset(ctx, at, member.Asset)
	if err != nil {
		return nil, err
	}
	if cached, err = edgesOf(content); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 100_000
	if len(r.declared) >= most {
		clear(r.declared)
	}
	r.declared[member.Digest] = cached
	return cached, nil
}
