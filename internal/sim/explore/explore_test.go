package explore

import (
	"os"
	"testing"
)

// mostStates bounds one world: some 250 bytes of memory each.
const mostStates = 30_000_000

// size of the worlds that this run explores.
func size() Size {
	switch {
	case os.Getenv("LEHR_EXPLORE") == "full":
		return Night
	case testing.Short():
		return Small
	}
	return Change
}

// TestEveryStateIsSafeAndLeadsToRest explores all worlds as Lehr is.
func TestEveryStateIsSafeAndLeadsToRest(t *testing.T) {
	total := 0
	for _, w := range Worlds(size()) {
		t.Run(w.Name, func(t *testing.T) {
			graph, err := Explore(New(w), mostStates)
			if err == nil && !w.Torn {
				err = graph.Rest()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Log(graph)
			total += graph.States()
		})
	}
	t.Logf("%d states in all", total)
	if least := [...]int{40_000, 500_000, 5_000_000}[size()]; total < least {
		t.Errorf("only %d states, at least %d are wanted", total, least)
	}
}
