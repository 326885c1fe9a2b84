package campaign

import (
	_ "embed"
	"encoding/json"

	"lehr.dev/internal/sim"
)

//go:embed cover.json
var coverText []byte

// cover is what cover.json holds.
type cover struct {
	Hours   float64  `json:"hours"`
	Density float64  `json:"density"`
	Seeds   []uint64 `json:"seeds"`
}

// Cover returns seeds whose runs, when they were chosen, met each required situation, most
// of them twice. What a campaign must meet is rare in seeds taken as they come: with these
// first, nearly all of its time goes to seeds that nobody chose. Runs that are otherwise
// than those that were chosen among have none. Where Lehr has changed since, some
// situations are missed, and found by the other seeds, only later.
func Cover(run sim.Options) []uint64 {
	var chosen cover
	if err := json.Unmarshal(coverText, &chosen); err != nil {
		panic("internal/sim/campaign/cover.json: " + err.Error())
	}
	if run.Hours != chosen.Hours || run.Density != chosen.Density || run.Replicas > 1 || run.Definition != "" || run.Only != nil || len(run.Without) > 0 {
		return nil
	}
	return chosen.Seeds
}

// Choose returns few seeds whose runs met each required situation as often as is asked, or
// as often as any did. marks are the situations that each seed's run met.
func Choose(marks map[uint64][]string, times int) []uint64 {
	need := map[string]int{}
	for _, mark := range sim.Required {
		need[mark] = times
	}
	var chosen []uint64
	for {
		var best uint64
		most := 0
		for seed, met := range marks {
			gain := 0
			for _, mark := range met {
				gain += min(need[mark], 1)
			}
			if gain > most || gain == most && gain > 0 && seed < best {
				best, most = seed, gain
			}
		}
		if most == 0 {
			return chosen
		}
		for _, mark := range marks[best] {
			need[mark] = max(0, need[mark]-1)
		}
		chosen = append(chosen, best)
		delete(marks, best)
	}
}
