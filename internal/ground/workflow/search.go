package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/rule"
)

// DefaultLimit of states that a search looks at.
const DefaultLimit = 20_000

// maxChoices of values that are tried at one event. More are left out, and the search says
// that it did not see everything.
const maxChoices = 512

// maxTraces of races are kept. Of more races only the places are told.
const maxTraces = 200

// epoch is the time of a search. It passes only where the search ends a wait.
var epoch = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)

// Move is an event of a trace, and the transitions that follow from it.
type Move struct {
	Event    string    `json:"event"`
	Passages []Passage `json:"passages,omitempty"`
}

// edgeKind says what an event of a search takes.
type edgeKind int

const (
	// edgeAnswer follows as soon as an action is answered, be it at once.
	edgeAnswer edgeKind = iota
	// edgePause needs time, a person, a signal or a fact.
	edgePause
	edgeCancel
)

type edge struct {
	to   int
	kind edgeKind
	move Move
}

// node is a state of the run with the chosen data, and how it was reached first.
type node struct {
	run    Run
	choice []int
	parent int
	move   Move
	edges  []edge
}

// search follows every event from every state, with the same Step as a real run has. Data
// are represented by values that tell the guards' questions apart.
type search struct {
	definition *Definition
	bounds     Bounds
	// effort that was spent, and what one step takes beside its guards.
	effort     int
	stepEffort int
	variables  []variable
	places     map[string]int
	// usedNames are the names that guards and actions read.
	usedNames map[string]bool
	// mostEntries is the greatest count of entries that a guard tells apart, by place.
	mostEntries map[string]int

	nodes       []node
	index       map[string]int
	transitions int
	whole       bool

	// current is the node that is opened, label the event.
	current int
	label   string
	// moments of the step that is tried, if it is long.
	moments map[string]bool

	visitedStates      map[[2]string]bool
	enabledTransitions map[reference]bool
	races              map[[2]reference]race
	order              [][2]reference
	// starvedStates are actions that could not begin, with the trace.
	starvedStates map[string][]Move
}

type race struct {
	trace  []Move
	opaque bool
}

func newSearch(d *Definition, bounds Bounds) *search {
	s := &search{
		definition: d, bounds: bounds, variables: d.gatherVariables(), places: map[string]int{}, usedNames: d.namesUsed(), mostEntries: map[string]int{}, index: map[string]int{}, whole: true,
		visitedStates: map[[2]string]bool{}, enabledTransitions: map[reference]bool{}, races: map[[2]reference]race{}, starvedStates: map[string][]Move{},
	}
	for i, v := range s.variables {
		s.places[v.name] = i
	}
	for _, m := range d.Machines {
		s.stepEffort += 1 + len(m.Transitions)
		s.visitedStates[[2]string{m.Name, m.Initial}] = true
		for _, t := range m.Transitions {
			s.countEntries(m.Name, &t)
		}
	}
	return s
}

// countEntries finds how far attempts must be counted.
func (s *search) countEntries(machine string, t *Transition) {
	if t.guard == nil {
		return
	}
	place := machine + "/" + t.From
	t.guard.Formula().Leaves(func(leaf rule.Formula) {
		if leaf.Name != attemptsVariable {
			return
		}
		n, _ := strconv.Atoi(leaf.Literal)
		s.mostEntries[place] = max(s.mostEntries[place], n+1, int(leaf.Bound))
	})
}

// explore everything, in the order of the number of events, so that first traces are short.
func (s *search) explore() {
	s.begin()
	for at := 0; at < len(s.nodes) && !s.isExhausted(); at++ {
		s.open(at)
	}
}

// spend effort.
func (s *search) spend(effort int) { s.effort += effort }

// isExhausted reports whether the search has to end, since it took all the effort that it may.
func (s *search) isExhausted() bool {
	if s.bounds.Effort == 0 || s.effort < s.bounds.Effort {
		return false
	}
	s.whole = false
	return true
}

// begin with every choice of inputs and facts.
func (s *search) begin() {
	s.current = -1
	base := make([]int, len(s.variables))
	free := s.variablesWhere(func(v *variable) bool { return !v.dependsOn("outputs.") })
	for _, choice := range s.choices(free, base) {
		run := Run{Definition: s.definition.digest, Inputs: map[string]Value{}, Facts: map[string]bool{}, Now: epoch}
		for _, input := range s.definition.Inputs {
			run.Inputs[input.Name] = valueOfSearch(input.Type)
		}
		if s.isExhausted() {
			return
		}
		s.label = s.describe("start", free, choice)
		result := s.definition.start(run, searchJudge{s, choice}, s.observe)
		s.arrive(result, choice, edgePause)
	}
}

func (s *search) variablesWhere(has func(v *variable) bool) []int {
	var found []int
	for i := range s.variables {
		if has(&s.variables[i]) {
			found = append(found, i)
		}
	}
	return found
}

// choices are all values of some variables, the others as they are.
func (s *search) choices(free, base []int) [][]int {
	all := [][]int{slices.Clone(base)}
	for _, at := range free {
		var next [][]int
		for _, choice := range all {
			for value := range s.variables[at].domain {
				one := slices.Clone(choice)
				one[at] = value
				next = append(next, one)
			}
		}
		if len(next) > maxChoices {
			s.whole, next = false, next[:maxChoices]
		}
		all = next
	}
	return all
}

// describe an event, with the values that it brings.
func (s *search) describe(label string, free, choice []int) string {
	var words []string
	for _, at := range free {
		words = append(words, s.variables[at].describe(s.variables[at].domain[choice[at]]))
	}
	if len(words) == 0 {
		return label
	}
	return label + ", " + strings.Join(words, ", ")
}

// arrive at a state, which may be known.
func (s *search) arrive(result Result, choice []int, kind edgeKind) {
	for _, taken := range result.Passages {
		s.visitedStates[[2]string{taken.Machine, taken.To}] = true
	}
	s.findStarved(&result)
	run := s.normalize(result.Run)
	key := keyOf(&run, choice)
	move := Move{s.label, result.Passages}
	at, known := s.index[key]
	if !known && len(s.nodes) >= s.bounds.States {
		s.whole = false
		return
	}
	if !known {
		at = len(s.nodes)
		s.index[key] = at
		s.nodes = append(s.nodes, node{run: run, choice: choice, parent: s.current, move: move})
	}
	s.transitions++
	if s.current >= 0 {
		node := &s.nodes[s.current]
		node.edges = append(node.edges, edge{at, kind, move})
	}
}

// findStarved notes actions that could not begin, since an output is not known.
func (s *search) findStarved(result *Result) {
	for _, place := range result.starvedStates {
		if _, known := s.starvedStates[place]; !known {
			s.starvedStates[place] = append(s.traceTo(s.current), Move{s.label, result.Passages})
		}
	}
}

// normalize a run: numbers that only grow and times say nothing about what can follow.
func (s *search) normalize(run Run) Run {
	run = run.clone()
	run.Now = epoch
	for i := range run.Machines {
		m := &run.Machines[i]
		m.CutByCancel, m.Reason = 0, ""
		m.ActionCount = min(m.ActionCount, 1)
		if m.Action != nil {
			m.Action.Key = fmt.Sprintf("%s/%s/1", s.definition.Machines[i].Name, m.State)
			if !m.Action.Due.IsZero() {
				m.Action.Due = epoch.Add(time.Hour)
			}
		}
		for state, n := range m.Entries {
			most := s.mostEntries[s.definition.Machines[i].Name+"/"+state]
			if m.Entries[state] = min(n, most); most == 0 {
				delete(m.Entries, state)
			}
		}
	}
	return run
}

// keyOf a state that was normalized.
func keyOf(run *Run, choice []int) string {
	var b strings.Builder
	for _, m := range run.Machines {
		fmt.Fprintf(&b, "%s %t %s", m.State, m.Action != nil, m.Outcome)
		writeSorted(&b, m.Entries)
		writeSorted(&b, m.Outputs)
		b.WriteByte(';')
	}
	fmt.Fprint(&b, run.Signals, run.Leftovers, run.Cancelled, run.End != nil, choice)
	return b.String()
}

func writeSorted[V any](b *strings.Builder, values map[string]V) {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprint(b, " ", name, values[name])
	}
}

// traceTo a node from the start.
func (s *search) traceTo(at int) []Move {
	var trace []Move
	for ; at >= 0; at = s.nodes[at].parent {
		trace = append(trace, s.nodes[at].move)
	}
	slices.Reverse(trace)
	return trace
}
