package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawRun plays a run of a drawn definition, as far as it goes.
func drawRun(t *rapid.T, d *Definition, begun map[string]int) Run {
	inputs := map[string]Value{"size": {Text: rapid.SampledFrom([]string{"1", "3"}).Draw(t, "size")}, "eager": {Text: rapid.SampledFrom([]string{"true", "false"}).Draw(t, "eager")}}
	result, err := d.Start(inputs, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	count(result, begun)
	return drawSteps(t, d, result.Run, begun)
}

func drawSteps(t *rapid.T, d *Definition, run Run, begun map[string]int) Run {
	now := run.Now
	for range rapid.IntRange(0, 8).Draw(t, "events") {
		now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
		result := d.Step(run, drawEvent(t, run), now)
		count(result, begun)
		run = result.Run
	}
	return d.Step(run, Event{Kind: EventTick}, now).Run
}

// count how often each action began.
func count(result Result, begun map[string]int) {
	for _, effect := range result.Effects {
		if effect.Kind == Begin {
			begun[effect.Key]++
		}
	}
}

// TestMigrationToTheSameDefinition changes nothing.
func TestMigrationToTheSameDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		run := drawRun(t, d, map[string]int{})
		m := d.Migrate(run, d, Migration{}, run.Now)
		if run.End != nil {
			if m.Result.WhyIgnored != RunIsOver {
				t.Fatalf("a run that is over is migrated: %+v", m)
			}
			return
		}
		if len(m.Problems) > 0 || len(m.Result.Effects) > 0 || len(m.Result.Passages) > 0 {
			t.Fatalf("%+v", m)
		}
		if diff := cmp.Diff(string(mustJSON(t, run)), string(mustJSON(t, m.Result.Run))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestMigrationLosesNothing: between any two definitions, with machines moved anywhere and back again, no action begins
// twice; each that was under way goes on as it was, or is cut off and said so; what was left in production stays
// known; and what is refused changes nothing.
func TestMigrationLosesNothing(t *testing.T) {
	moved := 0
	// Few definitions are drawn in a short test: they are drawn again until some fit each other.
	const tries = 20
	for tried := 0; tried == 0 || moved == 0 && tried < tries; tried++ {
		rapid.Check(t, func(t *rapid.T) { moved += migrateToAndFro(t) })
	}
	t.Logf("%d migrations", moved)
	if moved == 0 {
		t.Error("no run was migrated, so nothing was shown")
	}
}

// migrateToAndFro draws a run and moves it between two drawn definitions. It returns how often that
// went through.
func migrateToAndFro(t *rapid.T) (moved int) {
	definitions := []*Definition{drawDefinition(t), drawDefinition(t)}
	begun := map[string]int{}
	run := drawRun(t, definitions[0], begun)
	for range 3 {
		if run.End != nil {
			return moved
		}
		origin, target := definitions[moved%2], definitions[(moved+1)%2]
		m, ok := drawMigration(t, origin, target, run)
		if !ok {
			return moved
		}
		moved++
		checkMigration(t, origin, target, run, m)
		count(m.Result, begun)
		mustBeginOnce(t, begun)
		var read Run
		if err := json.Unmarshal(mustJSON(t, m.Result.Run), &read); err != nil {
			t.Fatal(err)
		}
		run = drawSteps(t, target, read, begun)
		mustBeginOnce(t, begun)
	}
	return moved
}

func mustBeginOnce(t *rapid.T, begun map[string]int) {
	for key, times := range begun {
		if times > 1 {
			t.Fatalf("%s began %d times", key, times)
		}
	}
}

// drawMigration moves machines anywhere, and those that cannot stay a second time. ok: the run can be
// moved so. One that is refused is as it was.
func drawMigration(t *rapid.T, origin, target *Definition, run Run) (m Migrated, ok bool) {
	drawState := func() string { return rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "state") }
	request := Migration{States: map[string]string{}}
	for _, machine := range target.Machines {
		if rapid.IntRange(0, 2).Draw(t, "moves") > 0 {
			request.States[machine.Name] = drawState()
		}
	}
	unchanged := string(mustJSON(t, run))
	m = origin.Migrate(run, target, request, run.Now)
	for _, problem := range m.Problems {
		if target.machine(problem.Machine) != nil {
			request.States[problem.Machine] = drawState()
		}
	}
	if len(m.Problems) > 0 {
		m = origin.Migrate(run, target, request, run.Now)
	}
	if got := string(mustJSON(t, run)); got != unchanged {
		t.Fatalf("the migration changed what it was given: %s", cmp.Diff(unchanged, got))
	}
	if len(m.Problems) == 0 {
		return m, true
	}
	if got := string(mustJSON(t, m.Result)); got != string(mustJSON(t, Result{Run: run})) {
		t.Fatalf("a migration that is refused changes the run: %s", got)
	}
	return m, false
}

func checkMigration(t *rapid.T, from, to *Definition, before Run, m Migrated) {
	after := m.Result.Run
	if after.Definition != to.Digest() || len(after.Machines) != len(to.Machines) {
		t.Fatalf("the run does not follow the other definition: %+v", after)
	}
	for _, left := range before.Leftovers {
		if !slices.Contains(after.Leftovers, left) {
			t.Fatalf("the run forgets that it left %s", left)
		}
	}
	abandoned := map[string]bool{}
	for _, effect := range m.Result.Effects {
		if effect.Kind == Abandon {
			abandoned[effect.Key] = true
		}
	}
	for i, standing := range before.Machines {
		if standing.Action == nil {
			continue
		}
		at := slices.IndexFunc(to.Machines, func(m Machine) bool { return m.Name == from.Machines[i].Name })
		if at < 0 {
			t.Fatalf("machine %s is dropped with its action under way", from.Machines[i].Name)
		}
		goesOn := after.Machines[at].Action != nil && after.Machines[at].Action.Key == standing.Action.Key
		if goesOn == abandoned[standing.Action.Key] {
			t.Fatalf("%s goes on: %t, and is cut off: %t", standing.Action.Key, goesOn, !goesOn)
		}
		if goesOn {
			if diff := cmp.Diff(standing.Action, after.Machines[at].Action); diff != "" {
				t.Fatalf("%s goes on as another: %s", standing.Action.Key, diff)
			}
		}
	}
	recorded := map[string]bool{}
	for _, r := range m.Result.records {
		recorded[r.key] = true
	}
	for key := range abandoned {
		if !recorded[key] {
			t.Fatalf("the history does not say that %s was cut off", key)
		}
	}
	if after.End != nil && after.End.Outcome == EndStuck {
		t.Fatal(fmt.Sprint("the run is stuck at once: ", after.End))
	}
	if before.Cancelled {
		for _, effect := range m.Result.Effects {
			at := slices.IndexFunc(to.Machines, func(m Machine) bool { return m.Name == effect.Machine })
			followed := slices.ContainsFunc(m.Result.Passages, func(p Passage) bool { return p.Machine == effect.Machine })
			if effect.Kind == Begin && !followed && !to.Machines[at].isInRetreat(effect.State) {
				t.Fatalf("%s begins after the cancel", effect.Key)
			}
		}
	}
}
