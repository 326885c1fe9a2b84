package workflow

import (
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// apply an event to the run, or say why it has no effect.
func (s *stepper) apply(event Event) IgnoredReason {
	run := &s.result.Run
	switch event.Kind {
	case EventTick:
		return ""
	case EventBegin:
		return s.applyBegin(event)
	case EventAnswer:
		return s.applyAnswer(event)
	case EventVote:
		return s.applyVote(event)
	case EventSignal:
		switch {
		case !slices.ContainsFunc(s.definition.Signals, func(signal Signal) bool { return signal.Name == event.Name }):
			return UnknownSignal
		case slices.Contains(run.Signals, event.Name):
			return SignalledBefore
		}
		run.Signals = append(run.Signals, event.Name)
		slices.Sort(run.Signals)
		return ""
	case EventFact:
		was, ok := run.Facts[event.Name]
		switch {
		case !ok:
			return UnknownFact
		case was == event.Truth:
			return FactIsSo
		}
		run.Facts[event.Name] = event.Truth
		return ""
	case EventCancel:
		return s.applyCancel()
	}
	return UnknownEvent
}

// noteOutcome of the action that an event answered or decided.
func (s *stepper) noteOutcome(event Event) {
	if event.Kind != EventAnswer && event.Kind != EventVote {
		return
	}
	name, _, _ := strings.Cut(event.Key, "/")
	machine := slices.IndexFunc(s.definition.Machines, func(m Machine) bool { return m.Name == name })
	if standing := s.result.Run.Machines[machine]; standing.Outcome != "" {
		s.note(record{kind: intent.WorkflowAnswered, machine: machine, key: event.Key, word: string(standing.Outcome), reason: standing.Reason})
	}
}

// applyCancel cuts off the actions of states that nothing leads out of any more.
func (s *stepper) applyCancel() IgnoredReason {
	if s.result.Run.Cancelled {
		return CancelledBefore
	}
	s.result.Run.Cancelled = true
	for i := range s.definition.Machines {
		if !s.definition.Machines[i].isInRetreat(s.result.Run.Machines[i].State) {
			s.abandon(i)
		}
	}
	return ""
}

// awaited finds the machine whose action has the key.
func (s *stepper) awaited(key string) (machine int, reason IgnoredReason) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return 0, UnknownAction
	}
	machine = slices.IndexFunc(s.definition.Machines, func(m Machine) bool { return m.Name == parts[0] })
	number, err := strconv.Atoi(parts[2])
	if machine < 0 || err != nil || number < 1 || s.definition.Machines[machine].state(parts[1]) == nil {
		return 0, UnknownAction
	}
	standing := &s.result.Run.Machines[machine]
	switch {
	case standing.Action != nil && standing.Action.Key == key:
		return machine, ""
	case number > standing.ActionCount:
		return 0, UnknownAction
	case s.result.Run.Cancelled && number == standing.CutByCancel:
		return 0, CameAfterCancel
	case number == standing.ActionCount && standing.State == parts[1] && standing.Outcome != "" && standing.Outcome != OutcomeExpired:
		return 0, AnsweredBefore
	}
	return 0, CameLate
}

// applyBegin marks the action as begun. A driver that does not know whether it did says so again.
func (s *stepper) applyBegin(event Event) IgnoredReason {
	machine, reason := s.awaited(event.Key)
	if reason == "" {
		s.markBegun(machine, s.actionOf(machine))
	}
	return reason
}

// actionOf the state that a machine is in.
func (s *stepper) actionOf(machine int) *Action {
	return s.definition.Machines[machine].state(s.result.Run.Machines[machine].State).Action
}

func (s *stepper) applyAnswer(event Event) IgnoredReason {
	machine, reason := s.awaited(event.Key)
	if reason != "" {
		return reason
	}
	standing := &s.result.Run.Machines[machine]
	action := s.definition.Machines[machine].state(standing.State).Action
	switch {
	case action.Person != nil:
		return DecidedByPeople
	case action.Wait != nil || event.Outcome == OutcomeExpired:
		return DecidedByTime
	case !slices.Contains(action.outcomes(), event.Outcome):
		return NoSuchOutcome
	}
	if event.Outcome != OutcomeFailed { // It happened, or may have, whatever was kept of its beginning.
		s.markBegun(machine, action)
	}
	standing.Action = nil
	standing.Outcome, standing.Reason = event.Outcome, event.Reason
	if event.Outcome != OutcomeDone {
		return ""
	}
	outputs, problem := action.checkOutputs(event.Outputs, s.observe != nil)
	if problem != "" {
		standing.Outcome, standing.Reason = OutcomeFailed, problem
		return ""
	}
	for name, value := range outputs {
		if standing.Outputs == nil {
			standing.Outputs = map[string]Value{}
		}
		standing.Outputs[name] = value
	}
	s.result.Run.Leftovers = slices.DeleteFunc(s.result.Run.Leftovers, func(left string) bool { return slices.Contains(action.Undoes, left) })
	return ""
}

// checkOutputs holds an answer to what the action declares. An answer that tells something
// else is a failure: guards would wait for what never comes. Values of a search stand for all.
func (a *Action) checkOutputs(given map[string]Value, searching bool) (outputs map[string]Value, problem string) {
	outputs = map[string]Value{}
	for _, output := range a.Outputs {
		value, ok := given[output.Name]
		if !ok {
			return nil, "its answer has no output " + output.Name
		}
		if searching {
			outputs[output.Name] = value
			continue
		}
		parsed, err := ParseValue(output.Type, value.Text)
		if err != nil {
			return nil, "output " + output.Name + ": " + err.Error()
		}
		outputs[output.Name] = parsed
	}
	return outputs, ""
}

func (s *stepper) applyVote(event Event) IgnoredReason {
	machine, reason := s.awaited(event.Key)
	if reason != "" {
		return reason
	}
	standing := &s.result.Run.Machines[machine]
	person := s.definition.Machines[machine].state(standing.State).Action.Person
	switch {
	case person == nil:
		return NotAskedOfPeople
	case event.Person == "" || !slices.ContainsFunc(event.Roles, func(role string) bool { return slices.Contains(person.Roles, role) }):
		return RoleIsMissing
	case slices.Contains(standing.Action.Approvals, event.Person) && event.Approves:
		return VotedBefore
	case !event.Approves:
		standing.Action, standing.Outcome, standing.Reason = nil, OutcomeRefused, event.Reason
		return ""
	}
	standing.Action.Approvals = append(standing.Action.Approvals, event.Person)
	if len(standing.Action.Approvals) >= person.Quorum {
		standing.Action, standing.Outcome, standing.Reason = nil, OutcomeApproved, event.Reason
	}
	return ""
}
