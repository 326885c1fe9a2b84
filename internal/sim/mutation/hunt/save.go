package main

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"

	"lehr.dev/internal/sim/mutation"
)

// save writes what was found beside what was known of other mutants.
func (h hunt) save(all []found) error {
	list := mutation.Known()
	for _, f := range all {
		list = slices.DeleteFunc(list, func(c mutation.Caught) bool { return c.Mutant == f.name })
		c := mutation.Caught{Mutant: f.name, By: f.property, Seed: f.seed, After: rounded(f.hours)}
		if f.caught() {
			c.Hours = rounded(f.last)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b mutation.Caught) int { return cmp.Compare(a.Mutant, b.Mutant) })
	return writeList(h.write, list)
}

func writeList[T any](name string, list []T) error {
	text, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

func rounded(hours float64) float64 { return math.Round(hours*100) / 100 }
