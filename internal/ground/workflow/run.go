package workflow

import (
	"maps"
	"slices"
	"time"
)

// Run is the state of a run: all that Step goes by. It can be kept as JSON.
type Run struct {
	// Definition is the digest of the definition that it follows.
	Definition string           `json:"definition"`
	Inputs     map[string]Value `json:"inputs,omitempty"`
	Facts      map[string]bool  `json:"facts,omitempty"`
	Signals    []string         `json:"signals,omitempty"`
	// Machines are in the order of the definition.
	Machines  []Standing `json:"machines"`
	Cancelled bool       `json:"cancelled,omitempty"`
	// Now is the latest time that was given: a clock that is set back does not go back here.
	Now time.Time `json:"now"`
	// Leftovers are what actions left in production and none took back, sorted.
	Leftovers []string `json:"leftovers,omitempty"`
	// ActionCounts are those of machines that a migration dropped: where one comes back, its actions get keys
	// that none had before.
	ActionCounts map[string]int `json:"action_counts,omitempty"`
	End          *End           `json:"end,omitempty"`
}

// Standing of a machine in a run.
type Standing struct {
	State string `json:"state"`
	// Entries counts how often each state was entered.
	Entries map[string]int `json:"entries,omitempty"`
	// ActionCount numbers its actions.
	ActionCount int `json:"action_count,omitempty"`
	// Action is the action whose answer is not there yet.
	Action *PendingAction `json:"action,omitempty"`
	// Outcome of the action of its state, and why; empty: none, or it is awaited.
	Outcome Outcome `json:"outcome,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Outputs that its actions told last.
	Outputs map[string]Value `json:"outputs,omitempty"`
	// CutByCancel is the number of the action that a cancel cut off.
	CutByCancel int `json:"cut_by_cancel,omitempty"`
}

// PendingAction is an action under way.
type PendingAction struct {
	Key string `json:"key"`
	// Due is when its wait or its timeout is over; zero: never.
	Due time.Time `json:"due,omitzero"`
	// Begun: its effect may have begun outside, so what it leaves counts as left.
	Begun bool `json:"begun,omitempty"`
	// Approvals are the people who approved.
	Approvals []string `json:"approvals,omitempty"`
}

// EndOutcome is what became of a run.
type EndOutcome string

// Outcomes of runs.
const (
	EndSuccess EndOutcome = "success"
	// EndFailure: a machine is in a state that ends in failure.
	EndFailure EndOutcome = "failure"
	// EndStuck: a machine is in a state that is no end, and nothing can move it.
	EndStuck EndOutcome = "stuck"
	// EndCancelled: it was cancelled, and its retreat, if it has one, came to its end.
	EndCancelled EndOutcome = "cancelled"
)

// End of a run.
type End struct {
	Outcome EndOutcome `json:"outcome"`
	// Machines that make it a failure or stuck.
	Machines []string `json:"machines,omitempty"`
	// Spins: its machines moved without end and without an event, and were stopped.
	Spins bool `json:"spins,omitempty"`
}

func (r Run) clone() Run {
	r.Inputs, r.Facts = maps.Clone(r.Inputs), maps.Clone(r.Facts)
	r.Signals, r.Leftovers = slices.Clone(r.Signals), slices.Clone(r.Leftovers)
	r.ActionCounts = maps.Clone(r.ActionCounts)
	r.Machines = slices.Clone(r.Machines)
	for i := range r.Machines {
		m := &r.Machines[i]
		m.Entries, m.Outputs = maps.Clone(m.Entries), maps.Clone(m.Outputs)
		if m.Action != nil {
			awaited := *m.Action
			awaited.Approvals = slices.Clone(awaited.Approvals)
			m.Action = &awaited
		}
	}
	if r.End != nil {
		end := *r.End
		r.End = &end
	}
	return r
}

// Wakes returns when Step must be called although nothing happens; false: never.
func (r Run) Wakes() (time.Time, bool) {
	var earliest time.Time
	for _, m := range r.Machines {
		if a := m.Action; a != nil && !a.Due.IsZero() && (earliest.IsZero() || a.Due.Before(earliest)) {
			earliest = a.Due
		}
	}
	return earliest, !earliest.IsZero()
}

// EventKind is what happened.
type EventKind string

// Kinds of events.
const (
	// EventTick: time passed.
	EventTick EventKind = "tick"
	// EventBegin: the effect of an action is about to begin outside. A driver has it kept before the
	// first attempt, so that what nobody began is not called left, and what somebody may have begun is.
	EventBegin EventKind = "begin"
	// EventAnswer: an action has an outcome.
	EventAnswer EventKind = "answer"
	// EventVote: a person approves or refuses.
	EventVote EventKind = "vote"
	// EventSignal: a signal came.
	EventSignal EventKind = "signal"
	// EventFact: a fact is now Truth.
	EventFact EventKind = "fact"
	// EventCancel: somebody cancels the run.
	EventCancel EventKind = "cancel"
)

// Event is what a driver brings.
type Event struct {
	Kind EventKind `json:"kind"`
	// Key of the action that begins, is answered or voted on.
	Key     string           `json:"key,omitempty"`
	Outcome Outcome          `json:"outcome,omitempty"`
	Outputs map[string]Value `json:"outputs,omitempty"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
	// Name of the signal or fact.
	Name  string `json:"name,omitempty"`
	Truth bool   `json:"truth,omitempty"`
	// Person who votes, with the roles that the driver knows of, and the vote.
	Person   string   `json:"person,omitempty"`
	Roles    []string `json:"roles,omitempty"`
	Approves bool     `json:"approves,omitempty"`
}

// EffectKind is what a driver is to do.
type EffectKind string

// Kinds of effects.
const (
	// Begin an action, which is awaited from now on. Its key makes it one, however often a driver is
	// told. Its effect may come later, after an EventBegin.
	Begin EffectKind = "begin"
	// Abandon an action: no answer is awaited any more.
	Abandon EffectKind = "abandon"
)

// Effect is what a driver does after it has kept the state.
type Effect struct {
	Kind    EffectKind `json:"kind"`
	Key     string     `json:"key"`
	Machine string     `json:"machine"`
	State   string     `json:"state"`
	// Action to begin, with values for its placeholders.
	Action *Action `json:"action,omitempty"`
}

// Passage is a transition that was followed.
type Passage struct {
	Machine string `json:"machine"`
	From    string `json:"from"`
	To      string `json:"to"`

	machine, transition int
}

// IgnoredReason says why an event has no effect.
type IgnoredReason string

// Reasons.
const (
	RunIsOver        IgnoredReason = "run is over"
	OtherDefinition  IgnoredReason = "other definition"
	UnknownEvent     IgnoredReason = "unknown event"
	UnknownAction    IgnoredReason = "unknown action"
	AnsweredBefore   IgnoredReason = "answered before"
	CameLate         IgnoredReason = "came late"
	CameAfterCancel  IgnoredReason = "came after cancel"
	NoSuchOutcome    IgnoredReason = "no such outcome"
	DecidedByPeople  IgnoredReason = "decided by people"
	DecidedByTime    IgnoredReason = "decided by time"
	NotAskedOfPeople IgnoredReason = "not asked of people"
	RoleIsMissing    IgnoredReason = "role is missing"
	VotedBefore      IgnoredReason = "voted before"
	UnknownSignal    IgnoredReason = "unknown signal"
	SignalledBefore  IgnoredReason = "signalled before"
	UnknownFact      IgnoredReason = "unknown fact"
	FactIsSo         IgnoredReason = "fact is so already"
	CancelledBefore  IgnoredReason = "cancelled before"
)

// Ignored is the cause of an error: an event had no effect.
type Ignored struct{ Reason IgnoredReason }

func (i *Ignored) Error() string { return string(i.Reason) }

// Result of a step.
type Result struct {
	Run      Run       `json:"run"`
	Effects  []Effect  `json:"effects,omitempty"`
	Passages []Passage `json:"passages,omitempty"`
	// WhyIgnored says why the event changed nothing; empty: it counted.
	WhyIgnored IgnoredReason `json:"ignored,omitempty"`

	// starvedStates are the states, as MACHINE/STATE, whose action could not begin.
	starvedStates []string
	// records are what happened, in its order; a search has none.
	records []record
}
