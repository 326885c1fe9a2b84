package workflow

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/rule"
)

// open a node: try every event that can come.
func (s *search) open(at int) {
	if s.nodes[at].run.End != nil {
		return
	}
	s.current = at
	run := s.nodes[at].run
	for i := range s.definition.Machines {
		if run.Machines[i].Action != nil {
			s.answer(i)
		}
	}
	for _, signal := range s.definition.Signals {
		if s.usedNames["signals."+signal.Name] && !slices.Contains(run.Signals, signal.Name) {
			s.try("signal "+signal.Name, edgePause, nil, Event{Kind: EventSignal, Name: signal.Name})
		}
	}
	s.changeFacts()
	if !run.Cancelled && !s.definition.ForPush {
		s.try("cancel", edgeCancel, nil, Event{Kind: EventCancel})
	}
}

// try events at the current node, with every value of the variables that they set.
func (s *search) try(label string, kind edgeKind, free []int, events ...Event) {
	s.tryFrom(s.nodes[s.current].run, label, kind, free, events...)
}

func (s *search) tryFrom(run Run, label string, kind edgeKind, free []int, events ...Event) {
	free = append(slices.Clone(free), s.variablesWhere((*variable).isVolatile)...)
	slices.Sort(free)
	free = slices.Compact(free)
	for _, choice := range s.choices(free, s.nodes[s.current].choice) {
		if s.isExhausted() {
			return
		}
		s.spend(s.stepEffort)
		s.label = s.describe(label, free, choice)
		result := Result{Run: run}
		for _, event := range events {
			result = s.definition.step(result.Run, event, epoch, searchJudge{s, choice}, s.observe)
		}
		if result.WhyIgnored == "" {
			s.arrive(result, choice, kind)
		}
	}
}

// answer the action of a machine in every way.
func (s *search) answer(machine int) {
	run := s.nodes[s.current].run
	m := &s.definition.Machines[machine]
	action := m.state(run.Machines[machine].State).Action
	key := run.Machines[machine].Action.Key
	place := m.Name + "/" + run.Machines[machine].State
	for _, outcome := range action.outcomes() {
		label := fmt.Sprintf("%s %s", place, outcome)
		switch {
		case outcome == OutcomeExpired, action.Wait != nil && outcome == OutcomeDone:
			due := run.clone()
			due.Machines[machine].Action.Due = epoch
			s.tryFrom(due, label, edgePause, nil, Event{Kind: EventTick})
		case outcome == OutcomeRefused:
			s.try(label, edgePause, nil, vote(key, 1, action, false))
		case outcome == OutcomeApproved:
			var votes []Event
			for i := range action.Person.Quorum {
				votes = append(votes, vote(key, i+1, action, true))
			}
			s.try(label, edgePause, nil, votes...)
		case action.Person != nil || action.Wait != nil: // It could not begin, and is not awaited.
		default:
			s.tryAnswer(machine, action, key, label, outcome)
		}
	}
}

func vote(key string, number int, action *Action, approves bool) Event {
	return Event{Kind: EventVote, Key: key, Person: fmt.Sprintf("person %d", number), Roles: action.Person.Roles, Approves: approves}
}

func (s *search) tryAnswer(machine int, action *Action, key, label string, outcome Outcome) {
	event := Event{Kind: EventAnswer, Key: key, Outcome: outcome}
	var free []int
	if outcome == OutcomeDone {
		event.Outputs = map[string]Value{}
		var names []string
		for _, output := range action.Outputs {
			event.Outputs[output.Name] = valueOfSearch(output.Type)
			names = append(names, "outputs."+s.definition.Machines[machine].Name+"."+output.Name)
		}
		free = s.variablesWhere(func(v *variable) bool {
			return slices.ContainsFunc(v.reads, func(read string) bool { return slices.Contains(names, read) })
		})
	}
	s.try(label, edgeAnswer, free, event)
}

// changeFacts tries other truths of the facts that the run may look at now.
func (s *search) changeFacts() {
	run := &s.nodes[s.current].run
	var read []string
	for i, m := range s.definition.Machines {
		for _, t := range m.Transitions {
			if t.guard != nil && t.From == run.Machines[i].State {
				read = append(read, t.guard.Reads()...)
			}
		}
	}
	free := s.variablesWhere(func(v *variable) bool {
		return v.dependsOn("facts.") && slices.ContainsFunc(v.reads, func(name string) bool { return strings.HasPrefix(name, "facts.") && slices.Contains(read, name) })
	})
	if len(free) > 0 {
		s.try("facts change", edgePause, free, Event{Kind: EventTick})
	}
}

// quietMoves of a step are not remembered: few steps have more.
const quietMoves = 20

// repeats reports whether a long step was at this moment before. What a search does not tell
// apart has the same future, so such a step has no end.
func (s *search) repeats(step *stepper) bool {
	if step.moves <= quietMoves {
		s.moments = map[string]bool{}
		return false
	}
	run := s.normalize(step.result.Run)
	key := keyOf(&run, nil)
	known := s.moments[key]
	s.moments[key] = true
	return known
}

// observe what is enabled at a moment: which guards hold, and which transitions race.
func (s *search) observe(step *stepper, enabled []reference) (spins bool) {
	for _, r := range enabled {
		s.enabledTransitions[r] = true
	}
	for i, first := range enabled {
		for _, second := range enabled[i+1:] {
			if s.isExhausted() {
				return s.repeats(step)
			}
			s.spend(1)
			pair := [2]reference{first, second}
			if _, known := s.races[pair]; known {
				continue
			}
			s.spend(len(s.definition.Machines))
			if !step.race(first, second) {
				continue
			}
			var trace []Move
			if len(s.races) < maxTraces {
				trace = append(s.traceTo(s.current), Move{s.label, slices.Clone(step.result.Passages)})
			}
			s.races[pair] = race{trace, isOpaque(step.transition(first)) || isOpaque(step.transition(second))}
			s.order = append(s.order, pair)
		}
	}
	return s.repeats(step)
}

// race reports whether it matters which of two enabled transitions is followed: one of
// them disables the other. Two of one machine to the same state do not race.
func (s *stepper) race(first, second reference) bool {
	if first.machine == second.machine {
		return s.transition(first).To != s.transition(second).To
	}
	return s.disables(first, second) || s.disables(second, first)
}

func (s *stepper) disables(first, second reference) bool {
	trial := &stepper{definition: s.definition, judge: s.judge, result: Result{Run: s.result.Run.clone()}}
	trial.follow(first)
	return !trial.isEnabled(second)
}

// isOpaque reports whether a guard asks what a search tries both ways without knowing it.
func isOpaque(t *Transition) bool {
	found := false
	if t.guard != nil {
		t.guard.Formula().Leaves(func(leaf rule.Formula) { found = found || leaf.Kind == rule.Opaque })
	}
	return found
}
