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

// Stood is how a defence fared when it was tested alone, its siblings off.
type Stood struct {
	Defence string `json:"defence"`
	// Of is the property that was judged.
	Of string `json:"of"`
	// Quiet is how many hours were simulated with it in place, in which the
	// property held.
	Quiet float64 `json:"quiet"`
	// Seed of the run that told without it, Hours how much of that run was
	// simulated, and After of all seeds until then.
	Seed  uint64  `json:"seed"`
	Hours float64 `json:"hours,omitempty"`
	After float64 `json:"after"`
}

//go:embed defences.json
var stood []byte

// KnownDefences are those that were last tested alone, by name.
func KnownDefences() (list []Stood) {
	if err := json.Unmarshal(stood, &list); err != nil {
		panic(err) // It is part of the program.
	}
	return list
}

// KnownStood is how one fared.
func KnownStood(defence string) (Stood, bool) {
	list := KnownDefences()
	at := slices.IndexFunc(list, func(s Stood) bool { return s.Defence == defence })
	if at < 0 {
		return Stood{}, false
	}
	return list[at], true
}
