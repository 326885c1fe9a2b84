package prodspec

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
)

// TestMembersAreThoseOfTheirRuns: whatever runs give, whichever go, and whoever has their
// numbers then.
func TestMembersAreThoseOfTheirRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 6
		m, want, runs := newMembers(), map[intent.AssetID]*generate.Run{}, [most]*generate.Run{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			changed := rapid.SliceOfNDistinct(rapid.IntRange(0, most-1), 1, 3, rapid.ID).Draw(t, "runs that change")
			for _, i := range changed {
				if runs[i] == nil {
					runs[i] = &generate.Run{File: fmt.Sprint(i)}
				}
				m.leave(runs[i])
				for _, output := range runs[i].Taken {
					delete(want, output.ID)
				}
			}
			for _, i := range changed {
				runs[i].Taken = nil
				for _, n := range rapid.SliceOfDistinct(rapid.IntRange(0, 9), rapid.ID).Draw(t, "outputs") {
					// One that another run gives is a duplicate.
					if id := intent.AssetID(fmt.Sprint(n)); want[id] == nil {
						want[id], runs[i].Taken = runs[i], append(runs[i].Taken, generate.Output{ID: id, Line: int32(i)})
					}
				}
				if m.take(runs[i]); len(runs[i].Taken) == 0 && rapid.Bool().Draw(t, "it is dropped") {
					runs[i] = nil
				}
			}
			seen := 0
			for id, at := range m.all() {
				found, ok := m.get(id)
				if seen++; !ok || found != at || at.run != want[id] || at.output().ID != id {
					t.Fatalf("%s is of %+v, want run %v", id, at, want[id])
				}
			}
			if seen != len(want) || m.len() != len(want) || len(m.runs) > most+1 {
				t.Fatalf("%d members and %d numbers, want %d members", seen, len(m.runs), len(want))
			}
		}
		if _, ok := m.get("none"); ok {
			t.Fatal("what was never given is found")
		}
	})
}
