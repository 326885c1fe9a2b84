package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// identities refuses an id that changes its type (S22): what is enforced
// under that id would be replaced by something else.
func (j *judging) identities(ctx context.Context) error {
	for _, entry := range j.delta {
		if entry.Removed {
			continue
		}
		baseMember, err := j.baseMember(ctx, entry.Asset)
		if err != nil {
			return err
		}
		if baseMember.Type != "" && baseMember.Type != entry.Member.Type {
			j.add(intent.Finding{
				Rule: "identity", Severity: intent.Error, Asset: entry.Asset,
				Message: fmt.Sprintf("asset %s is a %s in %s and a %s in this candidate; an id keeps its type", entry.Asset, baseMember.Type, j.Base, entry.Member.Type),
				Hint:    "give the new asset another id",
			})
		}
	}
	return j.returning(ctx)
}

// returning holds an id that comes back with another type than what was
// enforced under it and is still in production as far as anybody knows: that
// would be forgotten, or taken for the new asset (S22).
func (j *judging) returning(ctx context.Context) error {
	if j.Base.IsZero() {
		return nil // There is no history to ask.
	}
	first, err := j.History.EnforcedPage(ctx, j.Base.Partition, "", 1)
	if err != nil || len(first) == 0 {
		return err
	}
	for _, entry := range j.delta {
		baseMember, err := j.baseMember(ctx, entry.Asset)
		if err != nil {
			return err
		}
		if entry.Removed || baseMember.Type != "" {
			continue
		}
		page, err := j.History.EnforcedPage(ctx, j.Base.Partition, entry.Asset.JustBefore(), 1)
		if err != nil {
			return err
		}
		if len(page) == 1 && page[0].Asset == entry.Asset && page[0].Type != "" && page[0].Type != entry.Member.Type {
			j.guard(intent.Finding{
				Rule: "identity", Asset: entry.Asset,
				Message: fmt.Sprintf("asset %s comes back as a %s; what was enforced under this id as of %s is a %s, and nothing has taken it down", entry.Asset, entry.Member.Type, page[0].Incarnation, page[0].Type),
			})
		}
	}
	return nil
}

// Duplicate renders that an id was emitted more than once, by one generator or
// several: an error, for no rule says which of them is meant (S22).
func Duplicate(asset intent.AssetID, origins []Origin) intent.Finding {
	var generators, places []string
	for _, origin := range origins {
		if name := fmt.Sprintf("%q", origin.Generator); !slices.Contains(generators, name) {
			generators = append(generators, name)
		}
		places = append(places, origin.String())
	}
	emitters := "by the generators " + strings.Join(generators, " and ")
	if len(generators) == 1 {
		emitters = "by the generator " + generators[0]
	}
	finding := intent.Finding{
		Rule: "identity", Severity: intent.Error, Asset: asset,
		Message: fmt.Sprintf("asset %s is emitted %d times %s: %s", asset, len(origins), emitters, strings.Join(places, "; ")),
		Hint:    "give each asset an id of its own, or remove all but one",
	}
	if len(origins) > 0 {
		last := origins[len(origins)-1]
		finding.File, finding.Line = last.File, last.Line
	}
	return finding
}

func (o Origin) String() string {
	place := o.File
	if place != "" && o.Line > 0 {
		place = fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	text := fmt.Sprintf("generator %q", o.Generator)
	if place != "" {
		text += " at " + place
	}
	if len(o.Inputs) > 0 {
		text += " from " + strings.Join(o.Inputs, ", ")
	}
	return text
}
