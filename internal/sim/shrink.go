package sim

import (
	"context"
	"slices"
)

// Shrink finds a short list of the disturbances of a failing run that still
// break the same property, by delta debugging (Zeller and Hildebrandt 2002,
// ddmin): at most that many runs. It returns the outcome of the shortest.
func Shrink(ctx context.Context, o Options, failed Outcome, runs int) (Outcome, error) {
	property := failed.Violations[0].Property
	best := failed
	list := o.Only
	if list == nil {
		for _, d := range failed.Plan {
			list = append(list, d.Number)
		}
	}
	still := func(only []int) (bool, error) {
		if runs--; runs < 0 || ctx.Err() != nil {
			return false, ctx.Err()
		}
		o.Only = only
		outcome, err := Run(ctx, o)
		if err != nil || !outcome.Failed() || outcome.Violations[0].Property != property {
			return false, err
		}
		best, list = outcome, only
		return true, nil
	}
	for parts := 2; len(list) > 0 && runs > 0; {
		size := (len(list) + parts - 1) / parts
		shorter := false
		for start := 0; start < len(list) && !shorter; start += size {
			// Never nil: that would be all.
			without := append([]int{}, list[:start]...)
			without = append(without, list[min(start+size, len(list)):]...)
			ok, err := still(without)
			if err != nil {
				return best, err
			}
			shorter = ok
		}
		switch {
		case shorter:
			parts = max(parts-1, 2)
		case size == 1:
			runs = 0
		default:
			parts = min(parts*2, len(list))
		}
	}
	best.Plan = slices.DeleteFunc(slices.Clone(best.Plan), func(d Disturbance) bool { return !slices.Contains(list, d.Number) })
	return best, nil
}
