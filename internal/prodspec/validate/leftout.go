package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// leftOut refuses a candidate that lacks an asset of the base because a generator
// could not read it: only who takes an asset out of the sources removes it.
func (j *judging) leftOut(ctx context.Context) error {
	var gone []intent.AssetID
	for _, entry := range j.delta {
		if entry.Removed && len(j.LeftOut) > 0 {
			gone = append(gone, entry.Asset)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	given := map[intent.AssetID]string{}
	for _, asset := range gone {
		var err error
		if given[asset], err = j.Given(ctx, asset); err != nil {
			return err
		}
	}
	slices.Sort(gone)
	for _, generator := range slices.Sorted(maps.Keys(j.LeftOut)) {
		for _, left := range j.LeftOut[generator] {
			lost := slices.DeleteFunc(slices.Clone(gone), func(asset intent.AssetID) bool {
				if left.Asset != "" {
					return asset != left.Asset
				}
				return given[asset] != "" && given[asset] != generator
			})
			if len(lost) > 0 {
				j.add(refusedLoss(j.Base, left, lost))
			}
		}
	}
	return nil
}

// mostLost assets are named by one finding.
const mostLost = 5

func refusedLoss(base intent.IncarnationID, left intent.Finding, lost []intent.AssetID) intent.Finding {
	left.Rule, left.Severity, left.LeftOut = "left-out", intent.Error, false
	names := make([]string, 0, mostLost)
	for _, asset := range lost[:min(len(lost), mostLost)] {
		names = append(names, string(asset))
	}
	text := strings.Join(names, ", ")
	if more := len(lost) - mostLost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	reason := left.Message
	if left.Asset != "" {
		left.Message = fmt.Sprintf("%s has %s, which cannot be read any more: %s", base, text, reason)
		left.Hint += "; to remove the asset, take it out of the sources"
	} else {
		left.Message = fmt.Sprintf("what cannot be read here may be what %s has and this candidate lacks (%s): %s", base, text, reason)
		left.Hint += "; or take it out, so that what leaves is told from what cannot be read"
	}
	return left
}
