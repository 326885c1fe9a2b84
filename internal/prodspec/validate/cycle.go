package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// Cycles are named whole up to maxNamed assets, and at most maxCycles of them
// are told.
const (
	maxNamed  = 50
	maxCycles = 20
)

// dependencyFields and outputFields are how the paths of edges begin: of dependencies, and
// of what payloads ask for of what others tell.
var (
	dependencyFields = string((*intentpb.Dependencies)(nil).ProtoReflect().Descriptor().FullName()) + "."
	outputFields     = string((*intentpb.ReadsOutputs)(nil).ProtoReflect().Descriptor().FullName()) + "."
)

// cycles refuses dependencies that go round in a circle, so that none of
// their assets could ever be pushed, and warns of those that can be brought to
// a standstill. Who waits for whom:
//
//   - by an edge of order or version, its asset waits for the one named, always, as it does
//     for the one whose output it asks for;
//   - by an edge of capacity, the asset that is served waits for the one that
//     serves it when it comes into being or grows,
//   - and the one that serves waits for the one that it serves when it shrinks.
//
// A circle of the first kind, or of the first and the second, is an error:
// nothing in it can be created. One that needs the third is a warning: what
// shrinks in it must not shrink in the same incarnation.
//
// The walk starts at assets with new edges, for only they can close a circle
// that the base has not.
func (j *judging) cycles(ctx context.Context) error {
	var fresh []intent.AssetID
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil {
			continue
		}
		added, err := j.newDependencies(ctx, entry)
		if err != nil {
			return err
		}
		if added {
			fresh = append(fresh, entry.Asset)
		}
	}
	kinds := []standstill{always, growing, shrinking}
	if j.Servers == nil {
		kinds = kinds[:1] // There is no edge of capacity.
	}
	for _, kind := range kinds {
		walk := &cycleWalk{judging: j, kind: kind, place: map[intent.AssetID]int{}}
		for _, asset := range fresh {
			if err := walk.searchFrom(ctx, asset); err != nil {
				return err
			}
			if walk.reported >= maxCycles {
				break
			}
		}
	}
	return nil
}

// standstill says when assets wait for each other.
type standstill int

const (
	always standstill = iota
	growing
	shrinking
)

// newDependencies reports whether the asset depends on one that it did not
// depend on, in the same way, in the base.
func (j *judging) newDependencies(ctx context.Context, entry *store.Entry) (bool, error) {
	now, err := dependenciesOf(entry.Body)
	if err != nil || len(now) == 0 || j.Base.IsZero() {
		return len(now) > 0, err
	}
	member, err := j.baseMember(ctx, entry.Asset)
	if err != nil || member.Digest.IsZero() {
		return true, err
	}
	body, err := j.Snapshots.Body(ctx, member.Digest)
	if err != nil {
		return false, err
	}
	list, err := dependenciesOf(body)
	inBase := make(map[waiting]bool, len(list))
	for _, dependency := range list {
		inBase[dependency] = true
	}
	return slices.ContainsFunc(now, func(d waiting) bool { return !inBase[d] }), err
}

// waiting is an edge from an asset: to which other, and whether by capacity.
type waiting struct {
	target   intent.AssetID
	capacity bool
}

func dependenciesOf(body []byte) ([]waiting, error) {
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	addon := &intentpb.Dependencies{}
	if _, err := schema.Addon(asset, addon); err != nil {
		return nil, err
	}
	var list []waiting
	for _, d := range addon.Dependencies {
		if d.On != "" {
			list = append(list, waiting{intent.AssetID(d.On), d.Rule == intentpb.Dependency_RULE_CAPACITY})
		}
	}
	reads := &intentpb.ReadsOutputs{}
	if _, err := schema.Addon(asset, reads); err != nil {
		return nil, err
	}
	for _, read := range reads.Reads {
		if edge := (waiting{intent.AssetID(read.Asset), false}); read.Asset != "" && !slices.Contains(list, edge) {
			list = append(list, edge)
		}
	}
	return list, nil
}

// edges of an asset in the candidate. Of the base, the store tells where they
// lead, and Servers which of them are of capacity.
func (j *judging) edges(ctx context.Context, asset intent.AssetID) (list []waiting, err error) {
	entry := j.entries[asset]
	switch {
	case entry != nil && entry.Removed:
		return nil, nil
	case entry != nil && entry.Body != nil:
		return dependenciesOf(entry.Body)
	case j.Base.IsZero():
		return nil, nil
	}
	outgoing, err := j.Snapshots.EdgesFrom(ctx, j.Base, asset)
	if err != nil {
		return nil, err
	}
	capacities := map[intent.AssetID]int{}
	for _, edge := range outgoing {
		if strings.HasPrefix(edge.Field, outputFields) {
			if from := (waiting{edge.To, false}); !slices.Contains(list, from) {
				list = append(list, from)
			}
			continue
		}
		if !strings.HasPrefix(edge.Field, dependencyFields) {
			continue
		}
		remaining, ok := capacities[edge.To]
		if !ok {
			remaining = count(j.servers(edge.To), asset)
		}
		list = append(list, waiting{edge.To, remaining > 0})
		capacities[edge.To] = remaining - 1
	}
	return list, nil
}

// servers are the assets that serve one by an edge of capacity, once for each
// edge.
func (j *judging) servers(asset intent.AssetID) []intent.AssetID {
	if j.Servers == nil {
		return nil
	}
	return j.Servers(asset)
}

func count(list []intent.AssetID, asset intent.AssetID) (n int) {
	for _, id := range list {
		if id == asset {
			n++
		}
	}
	return n
}

// cycleWalk is a depth-first search with a stack of its own: chains may be as
// long as the partition is large. It sees each asset once.
type cycleWalk struct {
	*judging
	kind standstill
	// place of an asset: its index on the path plus 1, or done.
	place    map[intent.AssetID]int
	reported int
}

const finished = -1

type step struct {
	asset intent.AssetID
	// pending are those it waits for that were not yet looked at; taken is the
	// one that was looked at last.
	pending []waiting
	current waiting
}

// waitsFor lists whom an asset waits for.
func (w *cycleWalk) waitsFor(ctx context.Context, asset intent.AssetID) ([]waiting, error) {
	list, err := w.edges(ctx, asset)
	if err != nil {
		return nil, err
	}
	if w.kind != shrinking {
		list = slices.DeleteFunc(list, func(e waiting) bool { return e.capacity })
	}
	if w.kind == growing {
		for _, server := range w.servers(asset) {
			list = append(list, waiting{server, true})
		}
	}
	return list, nil
}

func (w *cycleWalk) searchFrom(ctx context.Context, start intent.AssetID) error {
	if w.place[start] != 0 {
		return nil
	}
	var path []step
	enter := func(asset intent.AssetID) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := w.waitsFor(ctx, asset)
		path = append(path, step{asset: asset, pending: list})
		w.place[asset] = len(path)
		return err
	}
	if err := enter(start); err != nil {
		return err
	}
	for len(path) > 0 && w.reported < maxCycles {
		top := &path[len(path)-1]
		if len(top.pending) == 0 {
			w.place[top.asset] = finished
			path = path[:len(path)-1]
			continue
		}
		top.current = top.pending[0]
		top.pending = top.pending[1:]
		switch place := w.place[top.current.target]; {
		case place == finished:
		case place > 0:
			w.report(path[place-1:])
		default:
			if err := enter(top.current.target); err != nil {
				return err
			}
		}
	}
	return nil
}

// report names the cycle from its smallest id on. A kind of standstill tells
// only of the cycles that the one before it does not.
func (w *cycleWalk) report(cycle []step) {
	capacities := 0
	for i := range cycle {
		if cycle[i].current.capacity {
			capacities++
		}
	}
	if w.kind != always && capacities == 0 || w.kind == shrinking && capacities == len(cycle) {
		return
	}
	w.reported++
	finding := intent.Finding{Rule: "cycle", Severity: intent.Error, Field: strings.TrimSuffix(dependencyFields, ".")}
	smallest, names := named(cycle)
	finding.Asset = smallest
	switch w.kind {
	case always:
		finding.Message = fmt.Sprintf("%d assets depend on each other in a circle: %s", len(cycle), names)
		finding.Hint = "remove one of the dependencies"
	case growing:
		finding.Message = fmt.Sprintf("%d assets wait for each other when they are created or grow: %s; an asset waits for what serves it by a capacity edge", len(cycle), names)
		finding.Hint = "remove one of the dependencies; a capacity edge orders creation already: what serves comes first"
	case shrinking:
		finding.Severity = intent.Warning
		finding.Message = fmt.Sprintf("%d assets wait for each other when they shrink in one incarnation: %s; what serves waits until less is expected of it", len(cycle), names)
		finding.Hint = "remove the order or version edge, since a capacity edge orders both ways; or let what is served shrink first, in an incarnation of its own"
	}
	if len(cycle) == 1 {
		finding.Message = fmt.Sprintf("asset %s depends on itself", smallest)
	}
	w.add(finding)
}

func named(cycle []step) (smallest intent.AssetID, names string) {
	first := 0
	for i := range cycle {
		if cycle[i].asset < cycle[first].asset {
			first = i
		}
	}
	var list []string
	for i := range min(len(cycle), maxNamed) {
		list = append(list, string(cycle[(first+i)%len(cycle)].asset))
	}
	if more := len(cycle) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("(%d more)", more))
	}
	smallest = cycle[first].asset
	return smallest, strings.Join(append(list, string(smallest)), " → ")
}
