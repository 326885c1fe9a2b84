package flux

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// mostEdges of one asset: their addon stays well below what an asset may have.
const mostEdges = 1000

func edgesIn(with map[string]any) int {
	addons, _ := with["addons"].(map[string]any)
	dependencies, _ := addons["Dependencies"].(map[string]any)
	list, _ := dependencies["dependencies"].([]map[string]any)
	return len(list)
}

// addEdges has what dependsOn names come first, and a Namespace before the release in it.
func (f *fleet) addEdges() {
	ids := f.idsByGenerator()
	for _, k := range f.kustomizations {
		if k.name != "" {
			f.order(k.place(), k.name, k.with, f.before(k.object, k.spec.DependsOn, false), ids)
		}
	}
	for _, r := range f.releases {
		if r.name == "" {
			continue
		}
		names := f.before(r.object, r.spec.DependsOn, true)
		// What its own Kustomization comes after, comes before it too.
		for k := r.owner; k != nil; k = k.owner {
			names = append(names, f.before(k.object, k.spec.DependsOn, false)...)
		}
		namespace := "kubernetes/" + r.with["cluster"].(string) + "/namespace/" + r.namespace()
		f.order(r.place(), r.name, r.with, names, ids, namespace)
	}
}

// mostAlone is how long releases are built one by one, all together.
const mostAlone = 3 * time.Minute

// idsByGenerator are the ids of assets. Where not all can be built together, because a chart
// cannot be fetched, each release is tried alone, and what failed is told.
func (f *fleet) idsByGenerator() map[string][]string {
	ids, err := f.buildIDs(f.ctx, f.definition(nil))
	if err == nil {
		return ids
	}
	ids = map[string][]string{}
	for _, k := range f.kustomizations {
		ids[k.name] = k.ids
	}
	ctx, cancel := context.WithTimeout(f.ctx, mostAlone)
	defer cancel()
	hasFailed := false
	for _, r := range f.releases {
		if r.name == "" {
			continue
		}
		alone, err := f.buildIDs(ctx, f.definition(r))
		if err != nil {
			f.leave(r.place(), "its chart cannot be rendered now: "+err.Error(), true)
			hasFailed = true
			continue
		}
		ids[r.name] = alone[r.name]
	}
	if !hasFailed {
		f.leave("lehr build of all together", err.Error(), true)
	}
	return ids
}

// before are the generators of what an object names in dependsOn.
func (f *fleet) before(o object, list []dependency, isRelease bool) (names []string) {
	for _, d := range list {
		namespace := cmpOr(d.Namespace, o.Metadata.Namespace)
		found := f.generatorsOf(d.Name, namespace, isRelease)
		if found == nil {
			f.leave(o.place(), fmt.Sprintf("it depends on %s/%s, which is not here: no edge", namespace, d.Name), true)
		}
		if d.ReadyExpr != "" {
			f.leave(o.place(), fmt.Sprintf("the readyExpr of its dependency %s is not carried over: it waits until each asset is in sync and healthy", d.Name), false)
		}
		names = append(names, found...)
	}
	return names
}

// generatorsOf are those of a Kustomization, with its releases and the Kustomizations in it, or
// of a HelmRelease; nil: there is none of the name.
func (f *fleet) generatorsOf(name, namespace string, isRelease bool) []string {
	found := false
	names := []string{}
	for _, r := range f.releases {
		isIt := isRelease && r.Metadata.Name == name && r.Metadata.Namespace == namespace
		found = found || isIt
		isIn := !isRelease && r.owner != nil && r.owner.Metadata.Name == name && r.owner.Metadata.Namespace == namespace
		if (isIt || isIn) && r.name != "" {
			names = append(names, r.name)
		}
	}
	for _, k := range f.kustomizations {
		switch {
		case isRelease:
		case k.Metadata.Name == name && k.Metadata.Namespace == namespace:
			found = true
			if k.name != "" {
				names = append(names, k.name)
			}
		case k.owner != nil && !k.owner.isRoot && k.owner.Metadata.Name == name && k.owner.Metadata.Namespace == namespace:
			names = append(names, f.generatorsOf(k.Metadata.Name, k.Metadata.Namespace, false)...)
		}
	}
	if !found {
		return nil
	}
	return names
}

// order writes the edges of a generator's assets.
func (f *fleet) order(place, name string, with map[string]any, before []string, ids map[string][]string, more ...string) {
	var targets []string
	for _, other := range before {
		if other == name {
			continue
		}
		if len(ids[other]) == 0 {
			f.leave(place, fmt.Sprintf("it comes after %s, whose assets could not be built: no edge; import again when lehr build works, or add it", other), true)
		}
		for _, id := range ids[other] {
			// A name by content is another one with the next change, and the edge would name nothing.
			if !generatedName.MatchString(id) {
				targets = append(targets, id)
			}
		}
	}
	for _, id := range more {
		for _, known := range ids {
			if slices.Contains(known, id) && !slices.Contains(ids[name], id) {
				targets = append(targets, id)
			}
		}
	}
	slices.Sort(targets)
	targets = slices.Compact(targets)
	if len(targets) > mostEdges {
		f.leave(place, fmt.Sprintf("it comes after %d assets: it has edges to the first %d of them", len(targets), mostEdges), true)
		targets = targets[:mostEdges]
	}
	if len(targets) == 0 {
		return
	}
	edges := make([]map[string]any, len(targets))
	for i, id := range targets {
		edges[i] = map[string]any{"on": id, "rule": "RULE_ORDER"}
	}
	with["addons"] = map[string]any{"Dependencies": map[string]any{"dependencies": edges}}
}
