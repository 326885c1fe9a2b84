package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/provenance"
)

// Blame says where an asset, or a value of one, comes from.
type Blame struct {
	// Field is the path of the value; empty: it is about the whole content.
	Field string
	// Value is as people see it: shortened, and no secret.
	Value string
	// Since is the incarnation in which it became what it is, and Before the
	// newest retained one in which it was otherwise, zero when there is none.
	// Unless Exact it may have become so in one between them that is no longer
	// retained.
	Since, Before intent.IncarnationID
	Exact         bool
	// Cut: it was looked for no further back than Since.
	Cut bool
	// Was is the value in Before; empty: none.
	Was string
	// Published is when Since was, zero if that is not known. Sources are the
	// states of the sources then.
	Published time.Time
	Sources   []intent.SourceRevision
	// SourcesBefore are their states in Before.
	SourcesBefore []intent.SourceRevision
	// Origin as of Since; of a field, its Derived are those that gave its addon, or
	// parts of it, or that changed it. Unknown: nothing of it was kept.
	Origin  provenance.Origin
	Unknown bool
	// Line of a file that has the field's name and value, the only one of those
	// that were read; nil: not known.
	Line *provenance.Place
	// Asset that it is about, and From where its field comes from, if that is a
	// field of another asset, or another field of this one; as of Since. Because says
	// how that is known.
	Asset   intent.AssetID
	From    *Blame
	Because string
}

// mostSteps bounds how far back one call looks, in changes of the asset.
const mostSteps = 200

// Blame finds where an asset of an incarnation comes from, or one of its fields,
// by its path as in a filter. It goes back from change to change of the asset.
// From there it goes on to what the field comes from.
func (r *Reader) Blame(ctx context.Context, id intent.IncarnationID, asset intent.AssetID, field string) (Blame, error) {
	blame, err := r.blame(ctx, id, asset, field)
	if err != nil {
		return Blame{}, err
	}
	return blame, r.follow(ctx, &blame, map[end]bool{{asset, field}: true})
}

// blame of one stage.
func (r *Reader) blame(ctx context.Context, id intent.IncarnationID, asset intent.AssetID, field string) (Blame, error) {
	member, err := r.store.Member(ctx, id, asset)
	if err != nil {
		return Blame{}, err
	}
	blame := Blame{Asset: asset, Field: field, Since: intent.IncarnationID{Partition: id.Partition, Sequence: member.Since}}
	current, err := r.value(ctx, id, member, field)
	if err != nil {
		return Blame{}, err
	}
	blame.Value = current.display
	for step := 0; ; step++ {
		if step == mostSteps {
			blame.Cut = true
			break
		}
		older, err := r.store.Incarnations(ctx, id.Partition, blame.Since.Sequence, 1)
		if err != nil {
			return Blame{}, err
		}
		blame.Exact = blame.Since.Sequence == 1
		if len(older) == 0 {
			break
		}
		adjacent := older[0].ID.Sequence+1 == blame.Since.Sequence
		previous, err := r.store.Member(ctx, older[0].ID, asset)
		if fault.Is(err, fault.NotFound) {
			blame.Before, blame.Exact = older[0].ID, adjacent
			break
		}
		if err != nil {
			return Blame{}, err
		}
		if previous.Digest != member.Digest {
			previousValue, err := r.value(ctx, older[0].ID, previous, field)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return Blame{}, err
			}
			if err != nil || previousValue.whole != current.whole {
				blame.Before, blame.Exact, blame.Was = older[0].ID, adjacent, previousValue.display
				break
			}
		}
		member, blame.Since.Sequence = previous, previous.Since
	}
	if !blame.Before.IsZero() {
		previous, err := r.store.Incarnation(ctx, blame.Before)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return Blame{}, err
		}
		blame.SourcesBefore = previous.Sources
	}
	return blame, r.origin(ctx, asset, &blame)
}

// value of a field. That of the whole content is its digest.
func (r *Reader) value(ctx context.Context, id intent.IncarnationID, member intent.Member, field string) (leaf, error) {
	if field == "" {
		return leaf{whole: member.Digest.String()}, nil
	}
	asset, err := r.Asset(ctx, member)
	if err != nil {
		return leaf{}, err
	}
	_, schemas, err := r.environment(ctx, id)
	if err != nil {
		return leaf{}, err
	}
	all, err := leaves(schemas, asset)
	if err != nil {
		return leaf{}, err
	}
	at := slices.IndexFunc(all, func(l leaf) bool { return l.path == field })
	if at < 0 {
		err := fault.New(fault.NotFound, "%s of %s has no value %.200q", member.Asset, id, field)
		return leaf{}, err.WithHint("%s", values(all, field))
	}
	return all[at], nil
}

// values that a person may have meant.
func values(all []leaf, field string) string {
	last := strings.LastIndexByte(field, '.') + 1
	const most = 8
	var examples []string
	for _, like := range []func(path string) bool{
		func(path string) bool { return strings.Contains(path, field[last:]) },
		func(path string) bool { return strings.HasPrefix(path, field[:last]) },
		func(string) bool { return true },
	} {
		for _, l := range all {
			if l.display != "{}" && len(examples) < most && like(l.path) {
				examples = append(examples, l.path)
			}
		}
		if len(examples) > 0 {
			break
		}
	}
	return "write a path such as " + strings.Join(examples, ", ")
}

// origin fills in where it came from then.
func (r *Reader) origin(ctx context.Context, asset intent.AssetID, blame *Blame) error {
	published, origin, err := provenance.Read(ctx, r.store, blame.Since, asset)
	if fault.Is(err, fault.NotFound) {
		blame.Unknown = true
		incarnation, err := r.store.Incarnation(ctx, blame.Since)
		if err == nil {
			blame.Published, blame.Sources = incarnation.Created, incarnation.Sources
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	blame.Published, blame.Sources, blame.Origin = published.At, published.Sources, origin
	if at, ok := origin.Lines[blame.Field]; ok && blame.Field != "" {
		blame.Line = &at
	}
	if blame.Field != "" {
		// Only what may have given the field. What did, is for people to see: an
		// addon may be derived in part.
		blame.Origin.Derived = slices.DeleteFunc(blame.Origin.Derived, func(d provenance.Derived) bool { return !gives(d, blame.Field) })
		if len(blame.Origin.Derived) > 0 {
			blame.Line = nil
		}
	}
	return nil
}

// gives reports whether a derivation or resolver may have given a field.
func gives(d provenance.Derived, field string) bool {
	if d.Field == "" {
		return ofAddon(field, d.Addon)
	}
	rest, ok := strings.CutPrefix(field, d.Field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// ofAddon reports whether a path is in an addon, named in short or in full.
func ofAddon(path string, addon intent.TypeName) bool {
	full := string(addon)
	for _, name := range []string{full, full[strings.LastIndexByte(full, '.')+1:]} {
		if rest, ok := strings.CutPrefix(path, "addons."+name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
