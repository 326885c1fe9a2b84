// Package flowrecord is what Lehr keeps of the runs of a procedure, as a memo, and what follows from
// it and from what production has: whether a run is due, goes on, or may not be repeated. It is
// pure. Packages flowdrive and procedures call it.
package flowrecord

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/workflow"
	"lehr.dev/sdk/serve"
)

const (
	// maxBytes of a memo, which Lehr keeps at most.
	maxBytes = 16 << 10
	// maxTrace is how many lines of a run's trace are kept: the last ones.
	maxTrace = 40
	// maxLine is the longest line of a trace.
	maxLine = 300
)

// Record of the newest run.
type Record struct {
	Number int `json:"number"`
	// ID is the push that began the run: unique for ever, so that no other run has its keys.
	ID string `json:"id"`
	// Workflow is the name of the definition, and Content the digest of all that the run is for.
	Workflow string `json:"workflow"`
	Content  string `json:"content"`
	// Rerun is the id of the rerun that it was begun for.
	Rerun string       `json:"rerun,omitempty"`
	Began time.Time    `json:"began"`
	State workflow.Run `json:"state"`
	// Actions that are awaited, by their keys.
	Actions map[string]*Action `json:"actions,omitempty"`
	Trace   []string           `json:"trace,omitempty"`
}

// Action that is awaited, and how far it has got.
type Action struct {
	// Action with values for its placeholders.
	Action *workflow.Action `json:"action"`
	// IsSent: it was about to be sent, or was. One that runs at most once is not sent again.
	IsSent bool `json:"sent,omitempty"`
	// Attempts that failed, why the last one did, and when the next is made.
	Attempts int       `json:"attempts,omitempty"`
	Failure  string    `json:"failure,omitempty"`
	Next     time.Time `json:"next,omitzero"`
}

// New is the record of a run that begins.
func New(previous *Record, definition *workflow.Definition, want Want, push string, inputs map[string]workflow.Value, now time.Time) (*Record, error) {
	result, err := definition.Start(inputs, nil, now)
	if err != nil {
		return nil, err
	}
	r := &Record{Number: 1, ID: push, Workflow: definition.Name, Content: want.Content, Rerun: want.Rerun, Began: now.UTC()}
	if previous != nil {
		r.Number = previous.Number + 1
		// One that was removed from intent was given all the same.
		if r.Rerun == "" {
			r.Rerun = previous.Rerun
		}
	}
	r.Apply(definition, result)
	return r, nil
}

// Apply the result of a step, and return the lines of what happened.
func (r *Record) Apply(definition *workflow.Definition, result workflow.Result) []string {
	r.State = result.Run
	beginnings := map[string]*workflow.Action{}
	for _, effect := range result.Effects {
		if effect.Kind == workflow.Begin {
			beginnings[effect.Key] = effect.Action
		}
	}
	awaited := map[string]*Action{}
	for _, machine := range r.State.Machines {
		if machine.Action == nil {
			continue
		}
		key := machine.Action.Key
		if action, ok := beginnings[key]; ok {
			awaited[key] = &Action{Action: action}
		} else if earlier := r.Actions[key]; earlier != nil {
			awaited[key] = earlier
		}
	}
	r.Actions = awaited
	lines := definition.Trace(result)
	r.trace(lines...)
	return lines
}

func (r *Record) trace(lines ...string) {
	for _, line := range lines {
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
		r.Trace = append(r.Trace, line)
	}
	r.Trace = slices.Clone(r.Trace[max(0, len(r.Trace)-maxTrace):])
}

// HasEnded reports whether the run is over.
func (r *Record) HasEnded() bool { return r != nil && r.State.End != nil }

// Place says where the machines of a run are that are not at an end: "upgrade at rebooting".
func (r *Record) Place(definition *workflow.Definition) string {
	var places []string
	for i, standing := range r.State.Machines {
		if definition != nil && definition.Digest() == r.State.Definition && i < len(definition.Machines) {
			places = append(places, definition.Machines[i].Name+" at "+standing.State)
		} else {
			places = append(places, standing.State)
		}
	}
	return strings.Join(places, ", ")
}

// InDoubt lists the actions that may have happened and are not repeated.
func (r *Record) InDoubt() []string {
	var keys []string
	for key, action := range r.Actions {
		if action.IsSent && action.Action.Runs == workflow.AtMostOnce {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Memo encodes a record. Of a trace that does not fit, the first lines are left out. An error says
// that the state itself does not.
func (r *Record) Memo() ([]byte, error) {
	kept := *r
	for {
		text, err := json.Marshal(&kept)
		if err != nil {
			return nil, fmt.Errorf("encoding run %d: %w", r.Number, err)
		}
		if len(text) <= maxBytes {
			return text, nil
		}
		if len(kept.Trace) == 0 {
			return nil, fmt.Errorf("the state of run %d has %d bytes, at most %d are kept: let its actions tell shorter outputs and bodies", r.Number, len(text), maxBytes)
		}
		kept.Trace = kept.Trace[1:]
	}
}

// FromMemos finds the record of a thing; nil: there is none.
func FromMemos(memos []serve.Memo, key serve.ResourceKey) (*Record, error) {
	for _, memo := range memos {
		if memo.Key != key {
			continue
		}
		r := &Record{}
		if err := json.Unmarshal(memo.Bytes, r); err != nil || r.Number < 1 || r.ID == "" {
			return nil, fmt.Errorf("what Lehr keeps of the runs of %s cannot be read: it is of a newer lehr-workflow, or damaged (%v)", key, err)
		}
		return r, nil
	}
	return nil, nil
}

// Clone of a record, of which nothing is shared that Apply changes.
func (r *Record) Clone() *Record {
	c := *r
	c.Trace = slices.Clone(r.Trace)
	c.Actions = map[string]*Action{}
	for key, action := range r.Actions {
		one := *action
		c.Actions[key] = &one
	}
	return &c
}
