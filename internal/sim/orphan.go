package sim

import (
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// orphans asks the edges of what left intent and was not removed: it runs
// still, and guards what it declared to need (S23).
func (k look) orphans() {
	head := map[intent.AssetID]bool{}
	for _, m := range k.headMembers() {
		head[m.Asset] = true
	}
	for _, pin := range k.pins {
		head[pin.Asset] = true
	}
	for _, id := range slices.Sorted(maps.Keys(k.enforced)) {
		e := k.enforced[id]
		if head[id] || e.Absent {
			continue
		}
		orphan, ok := k.declares(e.Incarnation, id)
		if !ok {
			continue
		}
		for _, edge := range orphan.edges {
			if edge.GetOn() == string(k.Asset) {
				k.orphan(orphan, edge)
			}
		}
	}
}

// orphan asks one edge from an orphan to the asset.
func (k look) orphan(orphan declared, edge *intentpb.Dependency) {
	rule := edge.GetRule()
	k.mark("an orphan's edge was heeded: " + rule.String())
	switch {
	case k.target.turndown && rule != intentpb.Dependency_RULE_CAPACITY:
		k.wrong("S5", "push %s was admitted to remove %s, and the orphan %s depends on it", k.Push, k.Asset, orphan.ID)
	case k.target.turndown || k.letsGo() || k.overridden(rule):
	case rule == intentpb.Dependency_RULE_CAPACITY:
		if now, previous, ok := k.upstreams(k.target); ok && previous > now {
			k.wrong("S23", "push %s of %s was admitted from %d to %d upstreams, and %s, which serves it, is an orphan", k.Push, k.Asset, now, previous, orphan.ID)
		}
	case rule == intentpb.Dependency_RULE_VERSION && k.before != nil:
		has, ok := k.version(k.target)
		previous, before := schemaVersion(k.target), schemaVersion(*k.before)
		if ok && previous < has && previous < before && previous < number(edge.GetAtLeast()) {
			k.wrong("S23", "push %s of %s was admitted from version %d to %d, and the orphan %s needs %s", k.Push, k.Asset, has, previous, orphan.ID, edge.GetAtLeast())
		}
	}
}
