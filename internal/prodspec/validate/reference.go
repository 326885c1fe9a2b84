package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// references judges an asset and its neighbours both ways: what a new or
// changed asset refers to, and what refers to a removed one.
func (j *judging) references(ctx context.Context) error {
	for _, entry := range j.delta {
		var err error
		switch {
		case entry.Removed:
			err = j.dangling(ctx, entry.Asset)
		case entry.Body != nil:
			err = j.outgoing(ctx, entry.Asset, entry.References)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *judging) outgoing(ctx context.Context, source intent.AssetID, references []intent.Reference) error {
	for _, reference := range references {
		bad := intent.Finding{Rule: "reference", Severity: intent.Error, Asset: source, Field: reference.Field}
		verb := "refers to"
		if strings.HasPrefix(reference.Field, dependencyFields) {
			verb = "depends on"
		}
		if _, err := intent.ParseAssetID(string(reference.To)); err != nil {
			bad.Message = fmt.Sprintf("asset %s: %s does not name an asset: %v", source, reference.Field, err)
			if strings.ContainsAny(string(reference.To), ":@") {
				bad.Hint = "references never cross partitions: name an asset of this partition by its id alone"
			}
			j.add(bad)
			continue
		}
		target, err := j.member(ctx, reference.To)
		if err != nil {
			return err
		}
		switch entry := j.entries[reference.To]; {
		case entry != nil && entry.Removed && !j.Base.IsZero():
			bad.Message = fmt.Sprintf("asset %s refers to %s in %s, which this candidate removes", source, reference.To, reference.Field)
			bad.Hint = "keep the asset, or remove the reference"
		case target.Digest.IsZero():
			bad.Message = fmt.Sprintf("asset %s %s %s in %s, which does not exist", source, verb, reference.To, reference.Field)
			bad.Hint = "add the asset to this partition, or correct the reference"
		case len(reference.Types) > 0 && !slices.Contains(reference.Types, target.Type):
			bad.Message = fmt.Sprintf("asset %s refers to %s in %s, which is a %s; allowed: %s", source, reference.To, reference.Field, target.Type, joined(reference.Types))
			bad.Hint = "name an asset of an allowed type"
		default:
			continue
		}
		j.add(bad)
	}
	return nil
}

// dangling finds assets that still refer to a removed one. Those in the delta
// with content of their own were judged by their new references.
func (j *judging) dangling(ctx context.Context, removed intent.AssetID) error {
	if j.Base.IsZero() {
		return nil
	}
	edges, err := j.Snapshots.EdgesTo(ctx, j.Base, removed)
	if err != nil {
		return err
	}
	for _, edge := range edges {
		if entry := j.entries[edge.From]; entry != nil && (entry.Removed || entry.Body != nil) {
			continue
		}
		j.add(intent.Finding{
			Rule: "reference", Severity: intent.Error, Asset: edge.From, Field: edge.Field,
			Message: fmt.Sprintf("asset %s refers to %s in %s, which this candidate removes", edge.From, removed, edge.Field),
			Hint:    "keep the asset, or remove the reference",
		})
	}
	return nil
}

func joined(names []intent.TypeName) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
