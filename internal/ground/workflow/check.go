package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// Rules of findings of Check.
const (
	RuleUnreachable  = "unreachable"
	RuleNeverHolds   = "never-holds"
	RuleRace         = "race"
	RuleStuck        = "stuck"
	RuleCycle        = "cycle"
	RuleNeverEnds    = "never-ends"
	RuleCompensation = "compensation"
	RuleUnused       = "unused"
	RuleUnknown      = "unknown-output"
	RuleBound        = "bound"
)

// Report of a check: what was explored, and what was found.
type Report struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// States and Transitions that were looked at; a state is where all machines are, what is
	// awaited, and which values the data have that guards tell apart.
	States      int `json:"states"`
	Transitions int `json:"transitions"`
	Limit       int `json:"limit"`
	// Complete: the search saw every state that there is.
	Complete bool      `json:"complete"`
	Findings []Finding `json:"findings"`
}

// Bounds of a search. Where one is reached, the search ends.
type Bounds struct {
	// States to look at.
	States int
	// Effort bounds how often guards, and pairs of transitions that are enabled at once, are
	// judged; 0: any number. A million takes about a second at most. It ends a search at the
	// same state on every machine.
	Effort int
}

// Check explores everything that can follow from every event, up to a number of states, and
// says what is wrong, each with the shortest trace that gets there. Of a search that ends at
// its limit only what was seen counts: nothing is said to be impossible.
func (d *Definition) Check(limit int) Report { return d.CheckWithin(Bounds{States: limit}) }

// CheckWithin is Check with all bounds.
func (d *Definition) CheckWithin(bounds Bounds) Report {
	s := newSearch(d, bounds)
	s.explore()
	findings := d.checkUses()
	findings = append(findings, s.findEnds()...)
	findings = append(findings, s.findRaces()...)
	findings = append(findings, s.findRetries()...)
	findings = append(findings, s.findStarving()...)
	if s.whole {
		findings = append(findings, s.findDead()...)
		findings = append(findings, s.findEndless()...)
	} else {
		f := newFinding(d, RuleBound, intent.Warning, 1, "make the workflow smaller, let guards ask less of data, or look further by lehr workflow check --limit",
			"the search ended at %d states: what lies beyond is not checked", len(s.nodes))
		findings = append(findings, f)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Rule, b.Rule))
	})
	return Report{d.Name, d.digest, len(s.nodes), s.transitions, bounds.States, s.whole, findings}
}

// findDead tells of states that are never reached and transitions that are never enabled.
func (s *search) findDead() []Finding {
	var found []Finding
	for i, m := range s.definition.Machines {
		for _, state := range m.States {
			if !s.visitedStates[[2]string{m.Name, state.Name}] {
				found = append(found, newFinding(s.definition, RuleUnreachable, intent.Error, state.Line, "let a transition lead to it that can be followed, or take it out",
					"state %s/%s is never reached", m.Name, state.Name))
			}
		}
		for k := range m.Transitions {
			t := &m.Transitions[k]
			if s.enabledTransitions[reference{i, k}] || !s.visitedStates[[2]string{m.Name, t.From}] {
				continue
			}
			problem := "it is never enabled"
			if t.When != "" {
				problem = fmt.Sprintf("its guard never holds there: %.200s", t.When)
			}
			found = append(found, newFinding(s.definition, RuleNeverHolds, intent.Error, t.Line,
				"other machines are never in these states while this one is in "+t.From, "transition %s: %s", t.describe(m.Name), problem))
		}
	}
	return found
}

func (s *search) findRaces() []Finding {
	var found []Finding
	for _, pair := range s.order {
		first, second := s.definition.Machines[pair[0].machine], s.definition.Machines[pair[1].machine]
		t, u := first.Transitions[pair[0].transition], second.Transitions[pair[1].transition]
		severity := intent.Error
		if pair[0].machine != pair[1].machine || s.races[pair].opaque {
			severity = intent.Warning
		}
		f := newFinding(s.definition, RuleRace, severity, u.Line, "let their guards exclude each other: the first one in the file is followed",
			"%s and %s (line %d) can be enabled at once, and one keeps the other from being followed", u.describe(second.Name), t.describe(first.Name), t.Line)
		f.Trace = s.races[pair].trace
		found = append(found, f)
	}
	return found
}

// findStarving tells of actions that need an output which is not known when they begin.
func (s *search) findStarving() []Finding {
	var found []Finding
	for _, m := range s.definition.Machines {
		for _, state := range m.States {
			trace, starves := s.starvedStates[m.Name+"/"+state.Name]
			if !starves {
				continue
			}
			f := newFinding(s.definition, RuleUnknown, intent.Error, state.Action.Line, "let a guard wait until the machine that tells it has told it",
				"the action of %s/%s can begin before an output that it needs is known, and fails then", m.Name, state.Name)
			f.Trace = trace
			found = append(found, f)
		}
	}
	return found
}

// findEnds tells of ends in which something is stuck or left.
func (s *search) findEnds() []Finding {
	var found []Finding
	seen := map[string]bool{}
	add := func(at int, key string, f Finding) {
		if !seen[key] {
			seen[key] = true
			f.Trace = s.traceTo(at)
			found = append(found, f)
		}
	}
	for at := range s.nodes {
		run := &s.nodes[at].run
		switch {
		case run.End == nil:
			continue
		case run.End.Spins:
			key, f := s.describeSpin(at)
			add(at, key, f)
		case run.End.Outcome == EndStuck:
			for _, name := range run.End.Machines {
				key, f := s.describeStuck(run, name)
				add(at, key, f)
			}
		}
		if run.End.Outcome == EndSuccess {
			continue
		}
		for _, left := range run.Leftovers {
			if s.definition.accepts(run, left) {
				continue
			}
			add(at, "left "+left, newFinding(s.definition, RuleCompensation, intent.Error, s.lineOfLeft(left),
				"let a state that is reached on this way have an action with undoes: "+left+", or end in one with accepts: "+left, "a run that ends in %s leaves %s in production, and nothing takes it back", run.End.Outcome, left))
		}
	}
	return found
}

func (s *search) describeStuck(run *Run, name string) (key string, f Finding) {
	m := s.definition.machine(name)
	at := slices.IndexFunc(s.definition.Machines, func(other Machine) bool { return other.Name == name })
	standing := &run.Machines[at]
	state := m.state(standing.State)
	because := "no transition out of it can be enabled any more"
	hint := "add a transition, or say end: success, failure or neutral"
	if standing.Outcome != "" {
		because = fmt.Sprintf("its action is %s, and no transition that can be enabled is for that", standing.Outcome)
		hint = "add a transition with on: " + string(standing.Outcome)
	}
	if run.Cancelled {
		because += " after the cancel"
	}
	return fmt.Sprint("stuck ", name, state.Name, standing.Outcome, run.Cancelled),
		newFinding(s.definition, RuleStuck, intent.Error, state.Line, hint, "a run can get stuck in %s/%s: %s", name, state.Name, because)
}

func (s *search) describeSpin(at int) (key string, f Finding) {
	taken := s.nodes[at].move.Passages
	last := taken[len(taken)-1]
	// The trace shows a few rounds of the thousand.
	s.nodes[at].move.Passages = taken[:min(len(taken), 8)]
	t := s.definition.Machines[last.machine].Transitions[last.transition]
	return fmt.Sprint("spin ", last.machine, last.transition), newFinding(s.definition, RuleCycle, intent.Error, t.Line,
		"let the cycle wait for an action", "transitions follow each other without end and without an event, among them %s", t.describe(last.Machine))
}

// accepts reports whether a machine ends in a state where something may be left.
func (d *Definition) accepts(run *Run, left string) bool {
	for i, m := range d.Machines {
		if slices.Contains(m.state(run.Machines[i].State).Accepts, left) {
			return true
		}
	}
	return false
}

func (s *search) lineOfLeft(left string) int {
	for _, m := range s.definition.Machines {
		for _, state := range m.States {
			if state.Action != nil && slices.Contains(state.Action.Leaves, left) {
				return state.Action.Line
			}
		}
	}
	return 1
}

// findEndless tells of states from which no end can be reached, unless by a cancel.
func (s *search) findEndless() []Finding {
	ends := make([]bool, len(s.nodes))
	back := make([][]int, len(s.nodes))
	var queue []int
	for at := range s.nodes {
		if s.nodes[at].run.End != nil {
			ends[at] = true
			queue = append(queue, at)
		}
		for _, e := range s.nodes[at].edges {
			if e.kind != edgeCancel {
				back[e.to] = append(back[e.to], at)
			}
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, previous := range back[at] {
			if !ends[previous] {
				ends[previous] = true
				queue = append(queue, previous)
			}
		}
	}
	at := slices.Index(ends, false)
	if at < 0 {
		return nil
	}
	f := newFinding(s.definition, RuleNeverEnds, intent.Error, 1, "let a transition lead to a state with end:, out of which nothing leads for ever", "from here a run can never end, unless it is cancelled")
	if !ends[0] && !slices.ContainsFunc(s.nodes, func(n node) bool { return n.run.End != nil && !n.run.Cancelled }) {
		f.Message = "no run can ever end, unless it is cancelled"
	}
	f.Trace = s.traceTo(at)
	return []Finding{f}
}
