package prodspec

import (
	"cmp"
	"fmt"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// unsized counts, by check, the assets that a check of recent peaks is about and
// that do not say how much they serve.
type unsized map[int]*write

// seeUnsized notes what an asset lacks.
func (l *linter) seeUnsized(id intent.AssetID, asset intent.Asset) error {
	for i, c := range l.definition.Policy.GetChecks() {
		if c.GetPeak() == nil || c.GetPeak().GetServes() != "" {
			continue
		}
		capacity := &intentpb.Capacity{}
		if _, err := schema.Addon(asset, capacity); err != nil {
			return err
		}
		if capacity.Dimensions[dimensionOf(c)] != "" {
			continue
		}
		if expression := c.GetWhere(); expression != "" {
			filter, err := l.deprecated.environment.Filter(expression)
			if err != nil {
				return err
			}
			if matches, err := filter.Match(asset); err != nil || !matches {
				continue
			}
		}
		if l.unsized[i] == nil {
			l.unsized[i] = &write{first: id}
		}
		l.unsized[i].assets++
	}
	return nil
}

func dimensionOf(c *intentpb.Check) string { return cmp.Or(c.GetPeak().GetDimension(), "capacity") }

// tellUnsized says of which assets a check could not tell.
func (l *linter) tellUnsized() {
	for i, c := range l.definition.Policy.GetChecks() {
		if lacking := l.unsized[i]; lacking != nil {
			l.add(l.definition.CheckPlaces[i][""].Line, "checks."+c.GetName(),
				fmt.Sprintf("the check %s is about %s, and %d in all, without a Capacity in the dimension %s: their pushes wait, unless their plugins report it", c.GetName(), lacking.first, lacking.assets, dimensionOf(c)),
				"give them one, say serves: or take them out by where:")
		}
	}
}
