// Package workflow is the pure core of workflows: definitions of state machines, one
// function that says what follows from an event, and a search of everything that can
// follow. It does no I/O, knows no clock, and begins no action: it returns what to begin.
// A driver keeps the state, carries out the effects, and brings back what became of them.
// Package cli calls it to check and draw definitions, and the server to step runs by what
// people say and to explain what they wait for.
package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/rule"
)

// Definition of a workflow. What it says has been checked (Read).
type Definition struct {
	Name     string    `json:"name"`
	Inputs   []Input   `json:"inputs,omitempty"`
	Facts    []Fact    `json:"facts,omitempty"`
	Signals  []Signal  `json:"signals,omitempty"`
	Machines []Machine `json:"machines"`
	// ForPush: it runs inside a push (ReadForPush).
	ForPush bool `json:"for_push,omitempty"`

	// File it was read from and Line of its name, for findings.
	File   string `json:"-"`
	Line   int    `json:"-"`
	digest string
	// outputs are the types of what actions tell, by machine and name.
	outputs map[string]map[string]rule.Scalar
}

// Input is what whoever starts a run gives.
type Input struct {
	Name    string      `json:"name"`
	Type    rule.Scalar `json:"type"`
	Default *Value      `json:"default,omitempty"`
	Line    int         `json:"-"`
}

// Fact is a truth about an asset, looked up by the driver whenever it may have changed.
type Fact struct {
	Name string `json:"name"`
	// Asset that it is about, and When it is true: an expression over its report.
	Asset string `json:"asset"`
	When  string `json:"when"`
	Line  int    `json:"-"`
}

// Signal is a word that a person or a program gives a run once.
type Signal struct {
	Name string `json:"name"`
	Line int    `json:"-"`
}

// Machine is one of the state machines of a workflow.
type Machine struct {
	Name        string       `json:"name"`
	Initial     string       `json:"initial"`
	States      []State      `json:"states"`
	Transitions []Transition `json:"transitions"`
	Line        int          `json:"-"`
}

// Ending says what it means that a run ends while a machine is in a state.
type Ending string

// Endings. A run that ends while a machine is in a state without one is stuck.
const (
	NoEnding      Ending = ""
	EndsInSuccess Ending = "success"
	EndsInFailure Ending = "failure"
	// EndsNeutral has no say, as of a clean-up that was not needed.
	EndsNeutral Ending = "neutral"
)

// State of a machine.
type State struct {
	Name string `json:"name"`
	End  Ending `json:"end,omitempty"`
	// Retreat: transitions out of it are followed after a cancel too.
	Retreat bool `json:"retreat,omitempty"`
	// Accepts names what may be left in production where a run ends in this state, as after a
	// clean-up that failed.
	Accepts []string `json:"accepts,omitempty"`
	Action  *Action  `json:"action,omitempty"`
	Line    int      `json:"-"`
}

// Transition of a machine. It is enabled while the machine is in From, its action has one of
// the outcomes On (none: whatever its action does), and the guard holds.
type Transition struct {
	From string    `json:"from"`
	To   string    `json:"to"`
	On   []Outcome `json:"on,omitempty"`
	When string    `json:"when,omitempty"`
	Line int       `json:"-"`

	// guard of When; nil: always.
	guard *rule.Guard
	// readsCancel: it is followed after a cancel.
	readsCancel bool
}

// Outcome of an action.
type Outcome string

// Outcomes.
const (
	// OutcomeDone: it did what it is for; a wait is over.
	OutcomeDone   Outcome = "done"
	OutcomeFailed Outcome = "failed"
	// OutcomeExpired: its timeout passed first.
	OutcomeExpired Outcome = "expired"
	// OutcomeUnknown: it may have happened, and is not repeated.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeApproved and OutcomeRefused are what people say.
	OutcomeApproved Outcome = "approved"
	OutcomeRefused  Outcome = "refused"
)

// Runs says how often an action happens if the driver ends before it knows.
type Runs string

// How often.
const (
	// AtMostOnce: it is never repeated, and its outcome may be OutcomeUnknown.
	AtMostOnce Runs = "at-most-once"
	// AtLeastOnce: it is repeated until its outcome is known.
	AtLeastOnce Runs = "at-least-once"
)

// Action begins when its state is entered. Exactly one of the kinds is set.
type Action struct {
	Edit   *Edit   `json:"edit,omitempty"`
	Task   *Task   `json:"task,omitempty"`
	Ask    *Call   `json:"ask,omitempty"`
	Tell   *Call   `json:"tell,omitempty"`
	Person *Person `json:"person,omitempty"`
	Wait   *Wait   `json:"wait,omitempty"`

	// Runs is empty of people and waits, which have no effect outside.
	Runs    Runs          `json:"runs,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Outputs []Output      `json:"outputs,omitempty"`
	// Leaves names what it leaves in production, Undoes what it takes back.
	Leaves []string `json:"leaves,omitempty"`
	Undoes []string `json:"undoes,omitempty"`
	// saysLeaves: leaves or undoes is written, be it empty.
	saysLeaves bool
	Line       int `json:"-"`
}

// Output is what the answer of an action has when it is done.
type Output struct {
	Name string      `json:"name"`
	Type rule.Scalar `json:"type"`
	Line int         `json:"-"`
}

// Edit sets a field of a document, and waits until what follows is enforced. Texts of
// actions may have placeholders, ${inputs.NAME} and ${outputs.MACHINE.NAME}.
type Edit struct {
	Document string `json:"document"`
	Field    string `json:"field"`
	Value    string `json:"value"`
}

// Task sets a field that makes a task asset due, and waits until that is in sync.
type Task struct {
	Asset    string `json:"asset"`
	Document string `json:"document,omitempty"`
	Field    string `json:"field,omitempty"`
	Value    string `json:"value,omitempty"`
}

// Call over HTTP.
type Call struct {
	// Endpoint of the asset that a push calls, in place of the one of its thing.
	Endpoint string `json:"endpoint,omitempty"`
	URL      string `json:"url"`
	Method   string `json:"method,omitempty"`
	Body     string `json:"body,omitempty"`
}

// Person asks people.
type Person struct {
	Question string   `json:"question"`
	Roles    []string `json:"roles"`
	// Quorum of different people must approve; one who refuses is enough.
	Quorum int `json:"quorum"`
}

// Wait for a while, or until a time (RFC 3339, or a placeholder of a time).
type Wait struct {
	For   time.Duration `json:"for,omitempty"`
	Until string        `json:"until,omitempty"`
}

// kind of an action, as it is written.
func (a *Action) kind() string {
	switch {
	case a.Edit != nil:
		return "edit"
	case a.Task != nil:
		return "task"
	case a.Ask != nil:
		return "ask"
	case a.Tell != nil:
		return "tell"
	case a.Person != nil:
		return "person"
	}
	return "wait"
}

// changes reports whether an action may change something outside.
func (a *Action) changes() bool { return a.Edit != nil || a.Task != nil || a.Tell != nil }

// mayBeHeld reports whether an action has an effect that may begin later than its state is entered.
// One that only awaits a task has none of its own.
func (a *Action) mayBeHeld() bool {
	return a.Edit != nil || a.Task != nil && a.Task.Document != "" || a.Ask != nil || a.Tell != nil
}

// outcomes that an action can have.
func (a *Action) outcomes() []Outcome {
	var all []Outcome
	switch {
	case a.Wait != nil:
		all = []Outcome{OutcomeDone}
	case a.Person != nil:
		all = []Outcome{OutcomeApproved, OutcomeRefused}
	default:
		all = []Outcome{OutcomeDone, OutcomeFailed}
		if a.Runs == AtMostOnce {
			all = append(all, OutcomeUnknown)
		}
	}
	if a.Timeout > 0 {
		all = append(all, OutcomeExpired)
	}
	if !slices.Contains(all, OutcomeFailed) && a.needsOutputs() {
		all = append(all, OutcomeFailed)
	}
	return all
}

// needsOutputs reports whether an action cannot begin before another one told something.
func (a *Action) needsOutputs() bool {
	return slices.ContainsFunc(a.texts(), func(text *string) bool {
		return slices.ContainsFunc(placeholders(*text), func(name string) bool { return strings.HasPrefix(name, "outputs.") })
	})
}

// state of a machine by its name.
func (m *Machine) state(name string) *State {
	for i := range m.States {
		if m.States[i].Name == name {
			return &m.States[i]
		}
	}
	return nil
}

func (d *Definition) machine(name string) *Machine {
	for i := range d.Machines {
		if d.Machines[i].Name == name {
			return &d.Machines[i]
		}
	}
	return nil
}

// Digest of what a definition says. Comments and lines of the file do not count; the order
// of machines, states and transitions does. It is the version that a run keeps.
func (d *Definition) Digest() string { return d.digest }

func (d *Definition) computeDigest() string {
	text, err := json.Marshal(d)
	if err != nil { // Its values are texts and numbers.
		panic(err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
