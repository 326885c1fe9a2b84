package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/spell"
)

// maxMoves of one step. A definition that passes Check needs far fewer; the others end.
const maxMoves = 1000

// Start begins a run. Invalid: the inputs are not those that the definition declares.
func (d *Definition) Start(inputs map[string]Value, facts map[string]bool, now time.Time) (Result, error) {
	given, err := d.checkInputs(inputs)
	if err != nil {
		return Result{}, err
	}
	run := Run{Definition: d.Digest(), Inputs: given, Facts: map[string]bool{}, Now: now.UTC()}
	for _, fact := range d.Facts {
		run.Facts[fact.Name] = facts[fact.Name]
	}
	return d.start(run, guardJudge{d}, nil), nil
}

func (d *Definition) start(run Run, judge judge, observe observer) Result {
	s := &stepper{definition: d, judge: judge, observe: observe, result: Result{Run: run}}
	s.note(record{kind: intent.WorkflowStarted})
	s.result.Run.Machines = make([]Standing, len(d.Machines))
	for i := range d.Machines {
		s.enter(i, d.Machines[i].Initial)
	}
	s.settle()
	return s.result
}

func (d *Definition) checkInputs(inputs map[string]Value) (map[string]Value, error) {
	given := map[string]Value{}
	var names []string
	for _, input := range d.Inputs {
		names = append(names, input.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if !slices.Contains(names, name) {
			return nil, fault.New(fault.Invalid, "workflow %s has no input %.100q", d.Name, name).WithHint("%s", inputHint(name, names))
		}
	}
	for _, input := range d.Inputs {
		value, ok := inputs[input.Name]
		switch {
		case ok:
			parsed, err := ParseValue(input.Type, value.Text)
			if err != nil {
				return nil, fault.New(fault.Invalid, "input %s of workflow %s: %w", input.Name, d.Name, err)
			}
			given[input.Name] = parsed
		case input.Default != nil:
			given[input.Name] = *input.Default
		default:
			return nil, fault.New(fault.Invalid, "workflow %s needs input %s, a %s", d.Name, input.Name, input.Type).
				WithHint("%s", d.missingHint(input.Name))
		}
	}
	return given, nil
}

func (d *Definition) missingHint(input string) string {
	if d.ForPush {
		return fmt.Sprintf("give it a value: inputs: {%s: VALUE}", input)
	}
	return fmt.Sprintf("give it a value: lehr workflow run %s --input %s=VALUE", d.Name, input)
}

// inputHint says which inputs there are, and which one was probably meant.
func inputHint(name string, names []string) string {
	if len(names) == 0 {
		return "it takes no inputs"
	}
	hint := "it has " + strings.Join(names, ", ")
	if nearest := spell.Nearest(name, names); nearest != "" {
		hint = "did you mean " + nearest + "? " + hint
	}
	return hint
}

// Step says what follows from an event at a time. It is total: every event, in any order,
// has a result, and the same run, event and time have the same. Timers that are due by now
// come first, in their order.
func (d *Definition) Step(run Run, event Event, now time.Time) Result {
	if run.Definition != d.Digest() || len(run.Machines) != len(d.Machines) {
		return Result{Run: run, WhyIgnored: OtherDefinition}
	}
	return d.step(run, event, now, guardJudge{d}, nil)
}

func (d *Definition) step(run Run, event Event, now time.Time, judge judge, observe observer) Result {
	if run.End != nil {
		return Result{Run: run, WhyIgnored: RunIsOver}
	}
	s := &stepper{definition: d, judge: judge, observe: observe, result: Result{Run: run.clone()}}
	if now = now.UTC(); now.After(run.Now) {
		s.result.Run.Now = now
	}
	s.settle()
	if s.result.Run.End != nil { // Time alone ended it.
		if event.Kind != EventTick {
			s.result.WhyIgnored = RunIsOver
		}
		return s.result
	}
	recorded := len(s.result.records)
	s.note(record{kind: eventItself})
	if s.result.WhyIgnored = s.apply(event); s.result.WhyIgnored == "" {
		s.noteOutcome(event)
		s.settle()
	} else if s.observe == nil {
		s.result.records = s.result.records[:recorded]
	}
	return s.result
}

// judge says whether the guard of a transition holds; where open, whether it may come to
// hold by what is awaited (Undecided).
type judge interface {
	verdict(run *Run, machine int, t *Transition, open bool) rule.Verdict
}

// observer sees the transitions that are enabled at a moment, if there are any. It reports
// whether the same moment was there before in this step, so that they never end.
type observer func(s *stepper, enabled []reference) (spins bool)

// reference to a transition, by its place.
type reference struct{ machine, transition int }

type stepper struct {
	definition *Definition
	judge      judge
	observe    observer
	result     Result
	moves      int
}

func (s *stepper) transition(r reference) *Transition {
	return &s.definition.Machines[r.machine].Transitions[r.transition]
}

// settle follows transitions and timers that are due until there are none, or the run ends: of
// several that are enabled the first of the first machine, in the order of the definition. A timer
// fires after all that followed from the one before, as if its time had come later: how late a
// driver looks changes nothing.
func (s *stepper) settle() {
	for s.result.Run.End == nil {
		enabled := s.enabled()
		if len(enabled) == 0 {
			if s.finish(); s.result.Run.End != nil || !s.fireNext() {
				return
			}
		}
		s.moves++
		spins := len(enabled) > 0 && s.observe != nil && s.observe(s, enabled)
		if spins || s.moves > maxMoves {
			s.result.Run.End = &End{Outcome: EndStuck, Spins: true}
			s.abandonAll()
			return
		}
		if len(enabled) > 0 {
			s.follow(enabled[0])
		}
	}
}

// enabled transitions. Without an observer one is enough.
func (s *stepper) enabled() []reference {
	var found []reference
	for m := range s.definition.Machines {
		for t := range s.definition.Machines[m].Transitions {
			r := reference{m, t}
			if s.isEnabled(r) {
				found = append(found, r)
				if s.observe == nil {
					return found
				}
			}
		}
	}
	return found
}

func (s *stepper) isEnabled(r reference) bool {
	t, standing := s.transition(r), &s.result.Run.Machines[r.machine]
	switch {
	case t.From != standing.State, s.result.Run.Cancelled && !t.readsCancel,
		len(t.On) > 0 && !slices.Contains(t.On, standing.Outcome):
		return false
	}
	return s.judge.verdict(&s.result.Run, r.machine, t, false) == rule.Holds
}

// mayEnable reports whether something that is awaited could enable a transition.
func (s *stepper) mayEnable(r reference) bool {
	t, standing := s.transition(r), &s.result.Run.Machines[r.machine]
	switch {
	case t.From != standing.State, s.result.Run.Cancelled && !t.readsCancel:
		return false
	case len(t.On) > 0 && standing.Action == nil && !slices.Contains(t.On, standing.Outcome):
		return false
	}
	verdict := s.judge.verdict(&s.result.Run, r.machine, t, true)
	return verdict == rule.Holds || verdict == rule.Undecided
}

// fireNext ends the wait or the action that is due first.
func (s *stepper) fireNext() bool {
	next := -1
	for i, m := range s.result.Run.Machines {
		a := m.Action
		if a == nil || a.Due.IsZero() || a.Due.After(s.result.Run.Now) {
			continue
		}
		if next < 0 || a.Due.Before(s.result.Run.Machines[next].Action.Due) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	standing := &s.result.Run.Machines[next]
	if s.definition.Machines[next].state(standing.State).Action.Wait != nil {
		key := standing.Action.Key
		standing.Outcome, standing.Action = OutcomeDone, nil
		s.note(record{kind: intent.WorkflowAnswered, machine: next, key: key, word: string(OutcomeDone)})
		return true
	}
	key := standing.Action.Key
	s.cutOff(next)
	standing.Outcome, standing.Reason = OutcomeExpired, "its timeout passed"
	s.note(record{kind: intent.WorkflowAnswered, machine: next, key: key, word: string(OutcomeExpired), reason: standing.Reason})
	return true
}

// follow a transition.
func (s *stepper) follow(r reference) {
	t := s.transition(r)
	s.result.Passages = append(s.result.Passages, Passage{s.definition.Machines[r.machine].Name, t.From, t.To, r.machine, r.transition})
	s.abandon(r.machine)
	s.note(record{kind: intent.WorkflowMoved, machine: r.machine, from: t.From, to: t.To})
	s.enter(r.machine, t.To)
}

// abandon the action of a machine that is under way.
func (s *stepper) abandon(machine int) {
	if action := s.result.Run.Machines[machine].Action; action != nil {
		s.cutOff(machine)
		s.note(record{kind: intent.WorkflowAbandoned, machine: machine, key: action.Key})
	}
}

// cutOff an action: no answer is awaited any more.
func (s *stepper) cutOff(machine int) {
	standing := &s.result.Run.Machines[machine]
	s.result.Effects = append(s.result.Effects, Effect{Kind: Abandon, Key: standing.Action.Key, Machine: s.definition.Machines[machine].Name, State: standing.State})
	standing.Action = nil
	if s.result.Run.Cancelled {
		standing.CutByCancel = standing.ActionCount
	}
}

func (s *stepper) abandonAll() {
	for i := range s.result.Run.Machines {
		s.abandon(i)
	}
}

// enter a state, and begin its action.
func (s *stepper) enter(machine int, name string) {
	standing := &s.result.Run.Machines[machine]
	standing.State, standing.Outcome, standing.Reason = name, "", ""
	if standing.Entries == nil {
		standing.Entries = map[string]int{}
	}
	standing.Entries[name]++
	if action := s.definition.Machines[machine].state(name).Action; action != nil {
		s.begin(machine, action)
	}
}

func (s *stepper) begin(machine int, action *Action) {
	run := &s.result.Run
	standing := &run.Machines[machine]
	standing.ActionCount++
	filled, missing := action.fill(run.values(s.definition))
	if missing != "" {
		standing.Outcome, standing.Reason = OutcomeFailed, missing+" is not known yet"
		s.result.starvedStates = append(s.result.starvedStates, s.definition.Machines[machine].Name+"/"+standing.State)
		s.note(record{kind: intent.WorkflowAnswered, machine: machine, word: string(OutcomeFailed), reason: standing.Reason})
		return
	}
	key := fmt.Sprintf("%s/%s/%d", s.definition.Machines[machine].Name, standing.State, standing.ActionCount)
	standing.Action = &PendingAction{Key: key, Due: filled.due(run.Now)}
	if s.beginsAtOnce(action) {
		s.markBegun(machine, action)
	}
	s.result.Effects = append(s.result.Effects, Effect{Kind: Begin, Key: key, Machine: s.definition.Machines[machine].Name, State: standing.State, Action: filled})
	if s.observe == nil {
		s.note(record{kind: intent.WorkflowBegan, machine: machine, key: key, word: filled.Kind(), reason: filled.Words()})
	}
}

// beginsAtOnce reports whether the effect of an action begins when its state is entered. A search
// takes that for all of them, and so calls left what may be left. A push makes a call as soon as the
// state is kept. A driver of the partition's runs may have to wait, as while there is a stop, and
// brings an EventBegin.
func (s *stepper) beginsAtOnce(action *Action) bool {
	return s.observe != nil || s.definition.ForPush || !action.mayBeHeld()
}

// markBegun counts what an action leaves from now on as left.
func (s *stepper) markBegun(machine int, action *Action) {
	run := &s.result.Run
	run.Machines[machine].Action.Begun = true
	for _, left := range action.Leaves {
		if at, found := slices.BinarySearch(run.Leftovers, left); !found {
			run.Leftovers = slices.Insert(run.Leftovers, at, left)
		}
	}
}

// fill returns a copy of an action with values in its texts.
func (a *Action) fill(values map[string]Value) (filled *Action, missing string) {
	filled = a.clone()
	for _, text := range filled.texts() {
		var absent string
		if *text, absent = fill(*text, values); absent != "" {
			missing = absent
		}
	}
	return filled, missing
}

func (a *Action) clone() *Action {
	c := *a
	c.Edit, c.Task, c.Ask, c.Tell = copyOf(a.Edit), copyOf(a.Task), copyOf(a.Ask), copyOf(a.Tell)
	c.Person, c.Wait = copyOf(a.Person), copyOf(a.Wait)
	return &c
}

func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	c := *value
	return &c
}

// due is when the wait or the timeout of an action is over that begins now.
func (a *Action) due(now time.Time) time.Time {
	switch {
	case a.Wait != nil && a.Wait.For > 0:
		return now.Add(a.Wait.For)
	case a.Wait != nil:
		until, err := time.Parse(time.RFC3339, a.Wait.Until)
		if err != nil { // The value of a search, which ends waits when it wants.
			return now.Add(time.Hour)
		}
		return until.UTC()
	case a.Timeout > 0:
		return now.Add(a.Timeout)
	}
	return time.Time{}
}
