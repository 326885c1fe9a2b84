package mutation

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Caught is a run in which a mutant was found, or the search that found none.
type Caught struct {
	Mutant string `json:"mutant"`
	// By is the property that told; empty: none did.
	By string `json:"by,omitempty"`
	// Seed of the run, and how much of it was simulated, if that was noted, at
	// the density and length of the hunt's runs. After counts the runs of the
	// seeds before too, from the first seed on from which that took longest.
	Seed  uint64  `json:"seed,omitempty"`
	Hours float64 `json:"hours,omitempty"`
	After float64 `json:"after"`
}

//go:embed known.json
var known []byte

// Known are the runs that the last hunt wrote down, by name.
func Known() (list []Caught) {
	if err := json.Unmarshal(known, &list); err != nil {
		panic(err) // It is part of the program.
	}
	return list
}

// KnownSeed is the seed of the run in which a mutant was found.
func KnownSeed(name string) (seed uint64, found bool) {
	list := Known()
	at := slices.IndexFunc(list, func(c Caught) bool { return c.Mutant == name && c.By != "" })
	if at < 0 {
		return 0, false
	}
	return list[at].Seed, true
}
