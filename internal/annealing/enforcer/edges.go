package enforcer

import (
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// edge is a dependency that an asset declares.
type edge struct {
	neighbour       intent.AssetID
	rule            intentpb.Dependency_Rule
	serves, expects string
	atLeast         string
	// loosened: only the last enforced content declares it.
	loosened bool
}

// edgesOf lists the dependencies that an asset's content declares.
func edgesOf(content intent.Asset) ([]edge, error) {
	addon := &intentpb.Dependencies{}
	if ok, err := schema.Addon(content, addon); err != nil || !ok {
		return nil, err
	}
	edges := make([]edge, 0, len(addon.Dependencies))
	for _, d := range addon.Dependencies {
		declared := edge{neighbour: intent.AssetID(d.On), rule: d.Rule, atLeast: d.AtLeast}
		if d.Rule == intentpb.Dependency_RULE_CAPACITY {
			declared.serves, declared.expects = d.Serves, d.Expects
			if declared.serves == "" {
				declared.serves = check.DefaultDimension
			}
			if declared.expects == "" {
				declared.expects = declared.serves
			}
		}
		if !slices.Contains(edges, declared) {
			edges = append(edges, declared)
		}
	}
	return edges, nil
}

// union of the edges at the target and at the last enforced content.
func union(target, enforced []edge) []edge {
	all := slices.Clone(target)
	for _, old := range enforced {
		if !slices.Contains(target, old) {
			old.loosened = true
			all = append(all, old)
		}
	}
	return all
}

// edgesToHeed are the union of the edges at the target and of those of the
// content that is there. A version that the content there needs already, or a
// higher one, needs no look: the push asks for nothing more. Content of another
// type, which the identity guard let through, was about another thing: what
// that served or needed is not to be had of this one.
func edgesToHeed(content intent.Asset, present *intent.Asset, s *neighbourFacts) ([]edge, error) {
	target, err := edgesOf(content)
	if err != nil || present == nil || present.Payload.Type != content.Payload.Type {
		return target, err
	}
	presentEdges, err := edgesOf(*present)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(union(target, presentEdges), func(e edge) bool {
		return e.rule == intentpb.Dependency_RULE_VERSION && (e.loosened || !s.empty && slices.ContainsFunc(presentEdges, func(b edge) bool {
			if b.rule != e.rule || b.neighbour != e.neighbour {
				return false
			}
			order, err := check.Compare(b.atLeast, e.atLeast)
			return err == nil && order >= 0
		}))
	}), nil
}

// inward is what other assets declare to one, as of all the incarnations that
// any of them may follow, or was enforced at last.
type inward struct {
	// horizon of these incarnations.
	horizon []intent.Sequence
	// referrers are the assets that refer to it.
	referrers []intent.AssetID
	// edges are, by the effective digest of a content, those that it declares
	// to the asset; refers: it refers to the asset in another way.
	edges  map[intent.Digest][]edge
	refers map[intent.Digest]bool
	// tried are the last pushes of those that need a version: what was pushed
	// and not seen in sync may be there all the same.
	tried map[intent.AssetID][]attempt
}

// covers reports whether the incarnations are among those that it is as of;
// nil: what others declare does not matter.
func (i *inward) covers(horizon []intent.Sequence) bool {
	if i == nil {
		return true
	}
	for _, sequence := range horizon {
		if _, ok := slices.BinarySearch(i.horizon, sequence); !ok {
			return false
		}
	}
	return true
}

// attempt is a push to some content.
type attempt struct {
	content intent.Digest
	at      intent.Sequence
}
