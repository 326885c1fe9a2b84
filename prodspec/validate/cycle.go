package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// Cycles are named whole up to maxNamed assets, and at most maxCycles of them
// are told.
const (
	maxNamed  = 50
	maxCycles = 20
)

// dependencyFields is how the paths of dependency edges begin.
var dependencyFields = string((*intentpb.Dependencies)(nil).ProtoReflect().Descriptor().FullName()) + "."

// cycles refuses dependencies that go round in a circle: none of their assets
// could ever be pushed. It walks from the edges that are new, for only they
// can close a circle that the base has not.
func (j *judging) cycles(ctx context.Context) error {
	walk := &cycleWalk{judging: j, place: map[intent.AssetID]int{}}
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil {
			continue
		}
		fresh, err := j.newDependencies(ctx, entry.Asset)
		if err != nil {
			return err
		}
		if !fresh {
			continue
		}
		if err := walk.from(ctx, entry.Asset); err != nil {
			return err
		}
		if walk.found >= maxCycles {
			break
		}
	}
	return nil
}

// newDependencies reports whether the asset depends on one that it did not
// depend on in the base.
func (j *judging) newDependencies(ctx context.Context, asset intent.AssetID) (bool, error) {
	now, err := j.dependencies(ctx, asset)
	if err != nil || len(now) == 0 {
		return false, err
	}
	list, err := j.dependenciesBefore(ctx, asset)
	before := make(map[intent.AssetID]bool, len(list))
	for _, on := range list {
		before[on] = true
	}
	return slices.ContainsFunc(now, func(on intent.AssetID) bool { return !before[on] }), err
}

// dependencies of an asset in the candidate.
func (j *judging) dependencies(ctx context.Context, asset intent.AssetID) (on []intent.AssetID, err error) {
	entry := j.entries[asset]
	switch {
	case entry == nil, !entry.Removed && entry.Body == nil:
		return j.dependenciesBefore(ctx, asset)
	case entry.Removed:
		return nil, nil
	}
	for _, reference := range entry.References {
		if strings.HasPrefix(reference.Field, dependencyFields) {
			on = append(on, reference.To)
		}
	}
	return on, nil
}

func (j *judging) dependenciesBefore(ctx context.Context, asset intent.AssetID) (on []intent.AssetID, err error) {
	if j.Base.IsZero() {
		return nil, nil
	}
	edges, err := j.Snapshots.EdgesFrom(ctx, j.Base, asset)
	for _, edge := range edges {
		if strings.HasPrefix(edge.Field, dependencyFields) {
			on = append(on, edge.To)
		}
	}
	return on, err
}

// cycleWalk is a depth-first search with a stack of its own: chains may be as
// long as the partition is large. It sees each asset once.
type cycleWalk struct {
	*judging
	// place of an asset: its index on the path plus 1, or done.
	place map[intent.AssetID]int
	found int
}

const done = -1

type step struct {
	asset intent.AssetID
	// left are the dependencies not yet looked at.
	left []intent.AssetID
}

func (w *cycleWalk) from(ctx context.Context, start intent.AssetID) error {
	if w.place[start] != 0 {
		return nil
	}
	var path []step
	enter := func(asset intent.AssetID) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		on, err := w.dependencies(ctx, asset)
		path = append(path, step{asset, on})
		w.place[asset] = len(path)
		return err
	}
	if err := enter(start); err != nil {
		return err
	}
	for len(path) > 0 && w.found < maxCycles {
		top := &path[len(path)-1]
		if len(top.left) == 0 {
			w.place[top.asset] = done
			path = path[:len(path)-1]
			continue
		}
		next := top.left[0]
		top.left = top.left[1:]
		switch place := w.place[next]; {
		case place == done:
		case place > 0:
			w.report(path[place-1:])
		default:
			if err := enter(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// report names the cycle from its smallest id on.
func (w *cycleWalk) report(cycle []step) {
	w.found++
	first := 0
	for i := range cycle {
		if cycle[i].asset < cycle[first].asset {
			first = i
		}
	}
	var names []string
	for i := range min(len(cycle), maxNamed) {
		names = append(names, string(cycle[(first+i)%len(cycle)].asset))
	}
	if more := len(cycle) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("(%d more)", more))
	}
	smallest := cycle[first].asset
	names = append(names, string(smallest))
	message := fmt.Sprintf("%d assets depend on each other in a circle: %s", len(cycle), strings.Join(names, " → "))
	if len(cycle) == 1 {
		message = fmt.Sprintf("asset %s depends on itself", smallest)
	}
	w.add(intent.Finding{
		Rule: "cycle", Severity: intent.Error, Asset: smallest, Field: strings.TrimSuffix(dependencyFields, "."),
		Message: message, Hint: "remove one of the dependencies",
	})
}
