package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/provenance"
)

// mostStages bounds how far a field is followed.
const mostStages = 10

// end is a field of an asset, or the asset itself.
type end struct {
	asset intent.AssetID
	field string
}

// follow goes on from a field to what it comes from: another field of its asset,
// of which it was derived, or a field of an asset that the generator read. Where
// several may be it, it says nothing.
func (r *Reader) follow(ctx context.Context, b *Blame, visited map[end]bool) error {
	if b.Unknown || len(visited) >= mostStages {
		return nil
	}
	var target end
	var because string
	var err error
	switch {
	case b.Field != "" && len(b.Origin.Derived) > 0:
		target, because, err = r.derivedOf(ctx, b)
	case b.Line == nil && len(b.Origin.Assets) > 0:
		target, because, err = r.readOf(ctx, b)
	}
	if err != nil || target.asset == "" || visited[target] {
		return err
	}
	visited[target] = true
	next, err := r.blame(ctx, b.Since, target.asset, target.field)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	next.Because, b.From = because, &next
	return r.follow(ctx, b.From, visited)
}

// derivedOf finds the field that an expression took a derived value from: the only
// one that it names, or the only one that changed.
func (r *Reader) derivedOf(ctx context.Context, b *Blame) (end, string, error) {
	// What derived it last is what it is by.
	derivation := b.Origin.Derived[len(b.Origin.Derived)-1]
	now, previous, err := r.sides(ctx, b, b.Asset)
	if err != nil {
		return end{}, "", err
	}
	var named, changed []string
	for path, value := range now {
		if path == b.Field || !slices.ContainsFunc(derivation.Reads, func(read string) bool {
			return path == read || strings.HasPrefix(path, read+".") || strings.HasPrefix(path, read+"[")
		}) {
			continue
		}
		named = append(named, path)
		if previous != nil && previous[path].whole != value.whole {
			changed = append(changed, path)
		}
	}
	switch {
	case len(changed) == 1:
		return end{b.Asset, changed[0]}, fmt.Sprintf("generate.%s names it, and it changed in the same incarnation", derivation.Derivation), nil
	case len(named) == 1 && len(changed) == 0 && b.Before.IsZero():
		return end{b.Asset, named[0]}, fmt.Sprintf("generate.%s names it", derivation.Derivation), nil
	}
	return end{}, "", nil
}

// readOf finds the field of an asset that a generator read which gave a field its
// value: the only one with the value and the name, or the only one that changed in
// the same incarnation.
func (r *Reader) readOf(ctx context.Context, b *Blame) (end, string, error) {
	var value leaf
	if b.Field != "" {
		member, err := r.store.Member(ctx, b.Since, b.Asset)
		if err == nil {
			value, err = r.value(ctx, b.Since, member, b.Field)
		}
		if err != nil {
			return end{}, "", err
		}
	}
	var alike, changedAlike, partly, changed []end
	for _, asset := range b.Origin.Assets {
		now, previous, err := r.sides(ctx, b, asset)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return end{}, "", err
		}
		for path, l := range now {
			at := end{asset, path}
			altered := previous != nil && previous[path].whole != l.whole
			same := b.Field != "" && l.whole == value.whole && provenance.Alike(path, b.Field)
			if same {
				alike = append(alike, at)
			}
			if altered {
				changed = append(changed, at)
				if same {
					changedAlike = append(changedAlike, at)
				} else if b.Field != "" && partOf(l.whole, value.whole) {
					partly = append(partly, at)
				}
			}
		}
	}
	const reason = "it changed in the same incarnation, and the generator read it"
	switch {
	case len(changedAlike) == 1:
		return changedAlike[0], "it has the same name and value, it changed in the same incarnation, and the generator read it", nil
	case len(changedAlike) == 0 && len(partly) == 1:
		return partly[0], reason, nil
	case len(changedAlike)+len(partly) == 0 && len(changed) == 1 && !filesChanged(b.Origin):
		return changed[0], reason, nil
	case len(alike) == 1 && len(changed) == 0:
		return alike[0], "it has the same name and value, and the generator read it", nil
	}
	return end{}, "", nil
}

// filesChanged reports whether a file that made an asset changed with it.
func filesChanged(o provenance.Origin) bool {
	return o.Made.Change != "" || slices.ContainsFunc(o.Inputs, func(p provenance.Place) bool { return p.Change != "" })
}

// partOf reports whether a value is a part of another.
func partOf(part, whole string) bool {
	part = strings.Trim(part, `"`)
	return part != "" && strings.Contains(whole, part)
}

// sides are the values of an asset in Since and in Before, by their paths; nil: there
// is no Before.
func (r *Reader) sides(ctx context.Context, b *Blame, asset intent.AssetID) (now, previous map[string]leaf, err error) {
	if now, err = r.valuesIn(ctx, b.Since, asset); err != nil || b.Before.IsZero() {
		return now, nil, err
	}
	previous, err = r.valuesIn(ctx, b.Before, asset)
	if fault.Is(err, fault.NotFound) {
		return now, map[string]leaf{}, nil
	}
	return now, previous, err
}

func (r *Reader) valuesIn(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (map[string]leaf, error) {
	member, err := r.store.Member(ctx, id, asset)
	if err != nil {
		return nil, err
	}
	content, err := r.Asset(ctx, member)
	if err != nil {
		return nil, err
	}
	_, schemas, err := r.environment(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := leaves(schemas, content)
	if err != nil {
		return nil, err
	}
	values := map[string]leaf{}
	for _, l := range all {
		if l.whole != "{}" {
			values[l.path] = l
		}
	}
	return values, nil
}
