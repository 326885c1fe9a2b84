package explore

import (
	"errors"
	"slices"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// toy counts from 0: each number leads to the next, and to what it is given.
type toy struct {
	most    int
	further map[int]Step[int]
	bad     int
	rest    []int
}

func (t toy) Start() []int { return []int{0} }

func (t toy) Steps(from int, take func(Step[int])) {
	if from < t.most {
		take(Step[int]{Label: Label{Verb: "adds one"}, To: from + 1})
	}
	if step, ok := t.further[from]; ok {
		take(step)
	}
}

func (t toy) Judge(n int) string {
	if n == t.bad {
		return "S0: a bad number"
	}
	return ""
}

func (t toy) Settled(n int) bool { return slices.Contains(t.rest, n) }

// explored is what exploring a toy and its rest says, and after how many
// steps.
func explored(t *testing.T, model toy) (string, int) {
	t.Helper()
	graph, err := Explore[int](model, 1_000_000)
	if err == nil {
		err = graph.Rest()
	}
	if err == nil {
		return "", graph.States()
	}
	violation, ok := errors.AsType[*Violation](err)
	if !ok {
		return err.Error(), 0
	}
	return violation.Wrong, len(violation.Trace)
}

func TestTheExplorerFindsWhatIsWrong(t *testing.T) {
	const none = -1
	jump := func(to int, fault bool, wrong string) Step[int] {
		return Step[int]{Label: Label{Verb: "jumps"}, To: to, Fault: fault, Wrong: wrong}
	}
	for name, test := range map[string]struct {
		toy
		wrong string
		count int
	}{
		"nothing": {toy{most: 50_000, bad: none, rest: []int{50_000}}, "", 50_001},
		"a state, by the shortest way": {
			toy{most: 100, bad: 90, rest: []int{100}, further: map[int]Step[int]{10: jump(80, true, "")}}, "S0: a bad number", 21},
		"a step": {
			toy{most: 10, bad: none, rest: []int{10}, further: map[int]Step[int]{4: jump(4, false, "S0: a bad step")}}, "S0: a bad step", 5},
		"a state without a way on": {
			toy{most: 10, bad: none, rest: []int{10}, further: map[int]Step[int]{3: jump(20, true, "")}},
			"L1: from here no path without faults leads to rest", 4},
		"a circle": {
			toy{most: 10, bad: none, rest: []int{10}, further: map[int]Step[int]{3: jump(20, true, ""), 20: jump(21, false, ""), 21: jump(20, false, "")}},
			"L1: from here no path without faults leads to rest", 4},
		"a way on that is a fault": {
			toy{most: 10, bad: none, rest: []int{20}, further: map[int]Step[int]{3: jump(20, true, "")}},
			"L1: from here no path without faults leads to rest", 0},
		"a rest that does not last": {
			toy{most: 10, bad: none, rest: []int{5, 10}}, "L1: what was at rest did not stay so", 6},
		"too many": {
			toy{most: 2_000_000, bad: none, rest: []int{5}}, "more than 1000000 states: the world is too large", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if test.most > 1_000_000 && testing.Short() {
				t.Skip("a million states")
			}
			if wrong, count := explored(t, test.toy); wrong != test.wrong || count != test.count {
				t.Errorf("%q after %d, want %q after %d", wrong, count, test.wrong, test.count)
			}
		})
	}
}

// TestPlansAreToldApart: the model names a plan by where it leads from and to;
// Lehr names it by its digest.
func TestPlansAreToldApart(t *testing.T) {
	for _, w := range Worlds(Small) {
		model := New(w).(*world)
		seen := map[intent.Digest]plans{}
		for from := nothing; from <= foreign; from++ {
			for to := content(1); to <= most; to++ {
				plan, digest := planTo(from, to), model.plan(from, to).Digest()
				// All that leads to nothing is one removal: its content tells it apart.
				if other, ok := seen[digest]; ok && other != plan && !w.Removes[to] {
					t.Errorf("%s: two plans of one digest, %d to %d", w.Name, from, to)
				}
				seen[digest] = plan
				if from != model.effectOf(to) && model.destroys(from, to) != model.plan(from, to).Destructive() {
					t.Errorf("%s: %d to %d destroys by the model: %t", w.Name, from, to, model.destroys(from, to))
				}
			}
		}
	}
}
