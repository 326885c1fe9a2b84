package workflow

import (
	"slices"

	"lehr.dev/internal/ground/rule"
)

// finish ends a run in which nothing is enabled, and in which no answer, timer, signal,
// fact or person that is awaited could enable anything. Nobody waits for a cancel.
func (s *stepper) finish() {
	run := &s.result.Run
	if run.End != nil {
		return
	}
	for m := range s.definition.Machines {
		for t := range s.definition.Machines[m].Transitions {
			if s.mayEnable(reference{m, t}) {
				return
			}
		}
	}
	run.End = s.definition.judgeEnd(run)
	s.abandonAll()
}

// judgeEnd reads the end from the states of the machines.
func (d *Definition) judgeEnd(run *Run) *End {
	var stuck, failed []string
	for i, m := range d.Machines {
		state := m.state(run.Machines[i].State)
		// Of a run that is cancelled, only what is part of the retreat can go wrong.
		if run.Cancelled && !state.Retreat {
			continue
		}
		switch state.End {
		case NoEnding:
			stuck = append(stuck, m.Name)
		case EndsInFailure:
			failed = append(failed, m.Name)
		}
	}
	switch {
	case len(stuck) > 0:
		return &End{Outcome: EndStuck, Machines: stuck}
	case len(failed) > 0:
		return &End{Outcome: EndFailure, Machines: failed}
	case run.Cancelled:
		return &End{Outcome: EndCancelled}
	}
	return &End{Outcome: EndSuccess}
}

// guardJudge evaluates guards over the values of a run.
type guardJudge struct{ *Definition }

func (j guardJudge) verdict(run *Run, machine int, t *Transition, open bool) rule.Verdict {
	if t.guard == nil {
		return rule.Holds
	}
	values := map[string]any{cancelVariable: run.Cancelled, attemptsVariable: int64(run.Machines[machine].Entries[t.From])}
	for name, value := range run.values(j.Definition) {
		values[name] = value.native()
	}
	for name, truth := range run.Facts {
		values["facts."+name] = truth
	}
	for _, signal := range j.Signals {
		values["signals."+signal.Name] = slices.Contains(run.Signals, signal.Name)
	}
	for i, m := range j.Machines {
		values["machines."+m.Name] = run.Machines[i].State
	}
	var awaited []string
	if open {
		for _, name := range t.guard.Reads() {
			if j.isOpen(run, name) {
				awaited = append(awaited, name)
			}
		}
	}
	verdict, err := t.guard.Evaluate(values, awaited)
	if err != nil { // It reads what is not known, so it does not hold.
		return rule.Fails
	}
	return verdict
}

// values of inputs and outputs, by the names that guards and placeholders have for them.
func (r *Run) values(d *Definition) map[string]Value {
	all := map[string]Value{}
	for name, value := range r.Inputs {
		all["inputs."+name] = value
	}
	for i, m := range d.Machines {
		for name, value := range r.Machines[i].Outputs {
			all["outputs."+m.Name+"."+name] = value
		}
	}
	return all
}
