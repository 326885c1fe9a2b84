package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Migration is what somebody says who moves a run to another definition.
type Migration struct {
	// States say where machines go, by machine: those that cannot stay where they are, or are not to.
	States map[string]string
	// Inputs that the other definition has, and that the run lacks.
	Inputs map[string]Value
}

// MachineChange is what a migration does to a machine.
type MachineChange string

// Changes of machines.
const (
	MachineStays MachineChange = "stays"
	MachineMoves MachineChange = "moves"
	MachineIsNew MachineChange = "new"
	// MachineIsDropped: the other definition does not have it.
	MachineIsDropped MachineChange = "dropped"
)

// MigratedMachine is what becomes of a machine.
type MigratedMachine struct {
	Name   string
	Change MachineChange
	// From is empty of a machine that is new, To of one that is dropped.
	From, To string
	// Kept is the key of an action under way that goes on, Cut of one that is cut off.
	Kept, Cut string
	// MayHaveHappened: what is cut off runs at most once, and nobody knows what became of it.
	MayHaveHappened bool
}

// Problem is a reason why a run cannot be migrated. It names what it is about.
type Problem struct {
	Machine, State, Input, Leftover string
	// Message and Hint are for people.
	Message, Hint string
}

// Migrated is what a migration comes to.
type Migrated struct {
	// Result is the run under its other definition, stepped as after any event. With problems it is
	// the run as it was.
	Result Result
	// Machines are in the order of the other definition; those that are dropped come last.
	Machines []MigratedMachine
	Problems []Problem
	// PastPeople are the machines that are moved elsewhere than to their state, their initial one or a
	// question, while the other definition asks people: so they may go past what people are asked.
	PastPeople []string
}

// migrator moves one run.
type migrator struct {
	origin, target *Definition
	request        Migration
	before         Run
	s              *stepper
	// entered are the machines that enter a state, by their places in the target.
	entered  []int
	migrated Migrated
}

// Migrate moves a run from this definition to another one. A machine stays in its state where the other
// definition has a state of that name with the same action, so that an action under way goes on: with
// its key, its votes and its timer. Others go where the migration says. Then the run is stepped as after
// any event. The time of the run must have been applied before (EventTick), or timers that are due fire under the
// other definition.
func (d *Definition) Migrate(run Run, target *Definition, request Migration, now time.Time) Migrated {
	switch {
	case run.Definition != d.Digest() || len(run.Machines) != len(d.Machines):
		return Migrated{Result: Result{Run: run, WhyIgnored: OtherDefinition}}
	case run.End != nil:
		return Migrated{Result: Result{Run: run, WhyIgnored: RunIsOver}}
	}
	g := &migrator{origin: d, target: target, request: request, before: run}
	g.s = &stepper{definition: target, judge: guardJudge{target}, result: Result{Run: run.clone()}}
	next := &g.s.result.Run
	if now = now.UTC(); now.After(next.Now) {
		next.Now = now
	}
	next.Definition = target.Digest()
	g.s.note(record{kind: intent.WorkflowMigrated, from: d.Digest(), to: target.Digest()})
	g.moveInputs()
	g.moveFacts()
	next.Signals = slices.DeleteFunc(next.Signals, func(name string) bool {
		return !slices.ContainsFunc(target.Signals, func(s Signal) bool { return s.Name == name })
	})
	g.moveMachines()
	g.checkLeftovers()
	if len(g.migrated.Problems) == 0 {
		g.stepOn()
	}
	if len(g.migrated.Problems) > 0 {
		g.migrated.Result = Result{Run: run}
		return g.migrated
	}
	g.migrated.Result = g.s.result
	return g.migrated
}

func (g *migrator) refuse(p Problem, hint, format string, values ...any) {
	p.Message, p.Hint = fmt.Sprintf(format, values...), hint
	g.migrated.Problems = append(g.migrated.Problems, p)
}

// moveInputs keeps what the run was started with: people may have approved it. Only what it lacks can be given.
func (g *migrator) moveInputs() {
	var names []string
	inputs := map[string]Value{}
	for _, input := range g.target.Inputs {
		names = append(names, input.Name)
		if value, ok := g.input(input); ok {
			inputs[input.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.request.Inputs)) {
		if !slices.Contains(names, name) {
			g.refuse(Problem{Input: name}, inputHint(name, names), "the other definition has no input %.100q", name)
		}
	}
	if len(inputs) == 0 {
		inputs = nil
	}
	g.s.result.Run.Inputs = inputs
}

// input of the target. Of one that is refused it returns what the run had, so that nothing else is refused for it.
func (g *migrator) input(input Input) (value Value, ok bool) {
	about := Problem{Input: input.Name}
	hint := fmt.Sprintf("give it a value: --input %s=VALUE", input.Name)
	had, isHad := g.before.Inputs[input.Name]
	kept, unreadable := ParseValue(input.Type, had.Text)
	given, isGiven := g.request.Inputs[input.Name]
	var problem error
	if isGiven {
		given, problem = ParseValue(input.Type, given.Text)
	}
	switch {
	case problem != nil:
		g.refuse(about, hint, "input %s: %s", input.Name, problem)
		return had, isHad
	case isHad && unreadable == nil && isGiven && given != kept:
		g.refuse(about, "leave --input "+input.Name+" out, or cancel the run and start another one",
			"the run has %s = %.100q, and a migration does not change what people may have approved", input.Name, had.Text)
		return had, true
	case isHad && unreadable == nil:
		return kept, true
	case isGiven:
		return given, true
	case isHad:
		g.refuse(about, hint, "input %s has type %s now, and the run has %.100q", input.Name, input.Type, had.Text)
		return had, true
	case input.Default != nil:
		return *input.Default, true
	}
	g.refuse(about, hint, "the other definition needs input %s, a %s, which the run does not have", input.Name, input.Type)
	return value, false
}

// moveFacts keeps what is known of the same questions. Others are false until a driver has looked.
func (g *migrator) moveFacts() {
	facts := map[string]bool{}
	for _, fact := range g.target.Facts {
		isSame := slices.ContainsFunc(g.origin.Facts, func(o Fact) bool { return o.Name == fact.Name && o.Asset == fact.Asset && o.When == fact.When })
		facts[fact.Name] = isSame && g.before.Facts[fact.Name]
	}
	if len(facts) == 0 && g.before.Facts == nil {
		facts = nil
	}
	g.s.result.Run.Facts = facts
}

// moveMachines says where each machine is under the target.
func (g *migrator) moveMachines() {
	next := &g.s.result.Run
	next.Machines = make([]Standing, len(g.target.Machines))
	values := g.keepOutputs()
	for i := range g.target.Machines {
		g.moveMachine(i, values)
	}
	for i := range g.origin.Machines {
		if m := &g.origin.Machines[i]; g.target.machine(m.Name) == nil {
			g.dropMachine(m.Name, g.before.Machines[i])
		}
	}
	var names []string
	for _, m := range g.target.Machines {
		names = append(names, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(g.request.States)) {
		if g.target.machine(name) == nil {
			g.refuse(Problem{Machine: name}, suggest(name, names), "the other definition has no machine %.100q, which --state names", name)
		}
	}
}

// keepOutputs puts the standing of each machine that both definitions have in its place, with the outputs that
// both declare alike, and returns the values of inputs and outputs under the target.
func (g *migrator) keepOutputs() map[string]Value {
	next := &g.s.result.Run
	for i, m := range g.target.Machines {
		at := g.indexOfOrigin(m.Name)
		if at < 0 {
			continue
		}
		standing := g.before.clone().Machines[at]
		for name, value := range standing.Outputs {
			if g.target.outputs[m.Name][name] != value.Type {
				delete(standing.Outputs, name)
			}
		}
		next.Machines[i] = standing
	}
	return next.values(g.target)
}

func (g *migrator) indexOfOrigin(machine string) int {
	return slices.IndexFunc(g.origin.Machines, func(m Machine) bool { return m.Name == machine })
}

func (g *migrator) moveMachine(i int, values map[string]Value) {
	m, standing := &g.target.Machines[i], &g.s.result.Run.Machines[i]
	goal, isMoved := g.request.States[m.Name]
	about := Problem{Machine: m.Name, State: goal}
	if isMoved && m.state(goal) == nil {
		g.refuse(about, suggest(goal, m.stateNames()), "the other definition has no state %.100q of machine %s, which --state names", goal, m.Name)
		return
	}
	change := MigratedMachine{Name: m.Name, From: standing.State, To: standing.State, Change: MachineStays}
	at := g.indexOfOrigin(m.Name)
	switch {
	case at < 0:
		change.Change, change.To = MachineIsNew, m.Initial
		if isMoved {
			change.To = goal
		}
		// An action never gets the key of an earlier one, be that of a machine that was dropped.
		standing.ActionCount = g.s.result.Run.ActionCounts[m.Name]
		delete(g.s.result.Run.ActionCounts, m.Name)
	case isMoved:
		change.Change, change.To = MachineMoves, goal
	case !g.stays(m, at, standing, values):
		return
	}
	if change.Change != MachineStays {
		if g.mayEnter(m, change); g.target.asks() && change.To != m.Initial && change.To != change.From && !m.state(change.To).asks() {
			g.migrated.PastPeople = append(g.migrated.PastPeople, m.Name)
		}
		g.s.note(record{kind: intent.WorkflowMigrated, name: m.Name, from: change.From, to: change.To})
		g.entered = append(g.entered, i)
	}
	if action := standing.Action; action != nil && change.Change == MachineStays && !g.leavesRetreat(m, at, standing.State) {
		change.Kept = action.Key
	} else if action != nil {
		change.Cut = action.Key
		change.MayHaveHappened = g.cut(i, g.origin.Machines[at].state(standing.State).Action)
	}
	// What is left of states that the other definition does not have.
	maps.DeleteFunc(standing.Entries, func(state string, _ int) bool { return m.state(state) == nil })
	g.migrated.Machines = append(g.migrated.Machines, change)
}

// leavesRetreat reports whether a run that is cancelled retreats no further from a state, as it did before.
// What a retreat began as its last step goes on.
func (g *migrator) leavesRetreat(m *Machine, at int, state string) bool {
	return g.before.Cancelled && g.origin.Machines[at].isInRetreat(state) && !m.isInRetreat(state)
}

// stays reports whether a machine can stay in its state, and refuses if it cannot.
func (g *migrator) stays(m *Machine, at int, standing *Standing, values map[string]Value) bool {
	about := Problem{Machine: m.Name, State: standing.State}
	state := m.state(standing.State)
	if state == nil {
		g.refuse(about, fmt.Sprintf("say where it goes: --state %s=STATE; %s", m.Name, suggest(standing.State, m.stateNames())),
			"machine %s is in %s, a state that the other definition does not have", m.Name, standing.State)
		return false
	}
	if isSameAction(g.origin.Machines[at].state(standing.State).Action, state.Action, g.before.values(g.origin), values) {
		return true
	}
	what, again := "whose action is another one in the other definition", "begins the new action"
	switch {
	case state.Action == nil:
		what, again = "which has no action in the other definition", "enters it anew"
	case standing.Action != nil:
		what = "whose action is under way, and is another one in the other definition"
	case g.origin.Machines[at].state(standing.State).Action == nil:
		what = "which has an action in the other definition that has not begun"
	}
	g.refuse(about, fmt.Sprintf("wait until the machine has left %s, or say where it goes: --state %s=%s %s", standing.State, m.Name, standing.State, again),
		"machine %s is in %s, %s", m.Name, standing.State, what)
	return false
}

// isSameAction compares actions as they are written and as they are filled.
func isSameAction(a, b *Action, before, after map[string]Value) bool {
	if a == nil || b == nil {
		return a == b
	}
	filled, _ := a.fill(before)
	other, _ := b.fill(after)
	return encodeAction(a) == encodeAction(b) && encodeAction(filled) == encodeAction(other)
}

func encodeAction(a *Action) string {
	text, err := json.Marshal(a)
	if err != nil { // Its values are texts and numbers.
		panic(err)
	}
	return string(text)
}

// mayEnter refuses a state that would act after a cancel and is no part of the retreat. A machine that is new waits in its
// initial state then.
func (g *migrator) mayEnter(m *Machine, change MigratedMachine) {
	if !g.before.Cancelled || m.state(change.To).Action == nil || m.isInRetreat(change.To) || change.To == m.Initial && change.Change == MachineIsNew {
		return
	}
	g.refuse(Problem{Machine: m.Name, State: change.To}, "move it to a state without an action, or to one with retreat: true",
		"the run is cancelled, and %s/%s is no part of the retreat, so its action must not begin", m.Name, change.To)
}

// cut off the action of a machine that moves. One that runs at most once and was begun is unknown.
func (g *migrator) cut(i int, action *Action) (mayHaveHappened bool) {
	key := g.s.result.Run.Machines[i].Action.Key
	mayHaveHappened = action.Runs == AtMostOnce && g.s.result.Run.Machines[i].Action.Begun
	if !mayHaveHappened {
		g.s.abandon(i)
		return false
	}
	g.s.cutOff(i)
	g.s.note(record{kind: intent.WorkflowAnswered, machine: i, key: key, word: string(OutcomeUnknown), reason: "the migration cut it off, and it may have happened"})
	return true
}

func (g *migrator) dropMachine(name string, standing Standing) {
	if standing.Action != nil {
		g.refuse(Problem{Machine: name, State: standing.State}, "wait until its action is over, or let the other definition keep the machine",
			"the other definition does not have machine %s, whose action in %s is under way", name, standing.State)
		return
	}
	next := &g.s.result.Run
	if standing.ActionCount > 0 {
		if next.ActionCounts == nil {
			next.ActionCounts = map[string]int{}
		}
		next.ActionCounts[name] = standing.ActionCount
	}
	g.s.note(record{kind: intent.WorkflowMigrated, name: name, from: standing.State})
	g.migrated.Machines = append(g.migrated.Machines, MigratedMachine{Name: name, Change: MachineIsDropped, From: standing.State})
}

// stepOn enters the states of machines that move or are new, and follows what is enabled.
func (g *migrator) stepOn() {
	run := &g.s.result.Run
	if len(run.ActionCounts) == 0 {
		run.ActionCounts = nil
	}
	for _, i := range g.entered {
		m, standing := &g.target.Machines[i], &run.Machines[i]
		to := g.migrated.Machines[slices.IndexFunc(g.migrated.Machines, func(c MigratedMachine) bool { return c.Name == m.Name })].To
		if run.Cancelled && !m.isInRetreat(to) {
			standing.State, standing.Outcome, standing.Reason = to, "", ""
			continue
		}
		g.s.enter(i, to)
	}
	g.s.settle()
	if end := run.End; end != nil && end.Outcome == EndStuck {
		for _, name := range end.Machines {
			at := slices.IndexFunc(g.target.Machines, func(m Machine) bool { return m.Name == name })
			g.refuse(Problem{Machine: name, State: run.Machines[at].State}, fmt.Sprintf("say where it goes: --state %s=STATE, or give the state a way on", name),
				"the run would end as stuck at once: machine %s would be in %s, and nothing that is awaited could move it", name, run.Machines[at].State)
		}
		if end.Spins {
			g.refuse(Problem{}, "lehr workflow check FILE finds cycles", "the run would end as stuck at once: its machines would move without end")
		}
	}
}

func (m *Machine) stateNames() (names []string) {
	for _, s := range m.States {
		names = append(names, s.Name)
	}
	return names
}

// isInRetreat reports whether something leads out of a state after a cancel.
func (m *Machine) isInRetreat(state string) bool {
	return slices.ContainsFunc(m.Transitions, func(t Transition) bool { return t.From == state && t.readsCancel })
}

func (s *State) asks() bool { return s.Action != nil && s.Action.Person != nil }

// asks reports whether a definition asks people something.
func (d *Definition) asks() bool {
	return slices.ContainsFunc(d.Machines, func(m Machine) bool {
		return slices.ContainsFunc(m.States, func(s State) bool { return s.asks() })
	})
}
