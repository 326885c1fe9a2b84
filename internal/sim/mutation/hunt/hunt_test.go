package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"lehr.dev/internal/sim/mutation"
)

// quickHours is how much is simulated until a mutant of the quick set was
// found in the last hunt; the test gives it quickBudget, so that a change of
// Lehr or of the simulator, which makes other runs of the same seeds, needs no
// new hunt.
const (
	quickHours  = 0.5
	quickBudget = 10
)

// least of the mutants are in the quick set.
const least = 20

// TestMutantsAreCaught switches on each of those that are quickly found. "make
// mutants" hunts all.
func TestMutantsAreCaught(t *testing.T) {
	h := woven(t)
	if err := h.baseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	var quick []mutation.Caught
	for _, c := range mutation.Known() {
		if m, ok := mutation.Find(c.Mutant); ok && m.Equivalent == "" && c.By != "" && c.After <= quickHours {
			quick = append(quick, c)
		}
	}
	if len(quick) < least {
		t.Errorf("%d mutants are known to be found quickly, want %d: hunt again with -write", len(quick), least)
	}
	slots := make(chan struct{}, 2)
	for _, c := range quick {
		t.Run(c.Mutant, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			r := h
			r.budget, r.known = quickBudget, true
			m, _ := mutation.Find(c.Mutant)
			f, err := r.one(t.Context(), m)
			if err != nil || !f.caught() {
				t.Errorf("not found in %.1f simulated hours: %v", f.hours, err)
			}
		})
	}
}

// cheapest is how much was simulated until the lack of a defence of the quick
// set showed.
const cheapest = 0.6

// TestDefencesAlone takes the siblings of those defences away of which the
// lack shows quickest; "make mutants" does so with all.
func TestDefencesAlone(t *testing.T) {
	h := woven(t)
	h.budget = quickBudget
	tested := 0
	for _, s := range mutation.KnownDefences() {
		at := slices.IndexFunc(mutation.Defences, func(d mutation.Defence) bool { return d.Name == s.Defence })
		if at < 0 || s.After > cheapest || tested == few {
			continue
		}
		tested++
		t.Run(s.Defence, func(t *testing.T) {
			t.Parallel()
			holds, falls, err := h.defence(t.Context(), mutation.Defences[at], 3)
			if err != nil || holds.caught() || !falls.caught() {
				t.Errorf("alone it is broken: %t %s; without it broken: %t; %v", holds.caught(), holds.what, falls.caught(), err)
			}
		})
	}
	if tested < few {
		t.Errorf("the lack of %d defences is known to show quickly, want %d: test them again with -defences -write", tested, few)
	}
}

// few of the defences are in the quick set.
const few = 4

// root is the module's folder.
const root = "../../../.."

// binary is built once for all tests, into folder. That it is built also says that
// the woven code compiles.
var (
	folder string
	binary = sync.OnceValues(func() (string, error) {
		return mutation.BuildOf(context.Background(), root, folder, "./internal/sim/mutation/hunt")
	})
)

func TestMain(m *testing.M) { os.Exit(inFolder(m)) }

func inFolder(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "lehr-hunt-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	return m.Run()
}

// woven is a hunt by the program with all mutants.
func woven(t *testing.T) hunt {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a program, and runs it often")
	}
	built, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return hunt{runner: runner{seed: 1, budget: 4, hours: runHours, density: runDensity}, root: root, binary: built, workers: 2}
}
