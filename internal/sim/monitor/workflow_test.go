package monitor

import (
	"encoding/json"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
)

// workflowPlay plays runs before a monitor.
type workflowPlay struct {
	*Monitor
	now time.Time
	has string
}

// watchedDefinition is as small as what the monitor reads of a definition: the names of machines.
const watchedDefinition = `workflow: v1
name: release
inputs: {version: string}
machines:
  alpha:
    initial: set
    states: {set: {end: success}, undone: {end: failure}}
    transitions: [{from: set, to: undone, when: cancelled}]
  beta:
    initial: set
    states: {set: {end: success}, undone: {end: failure}}
    transitions: [{from: set, to: undone, when: cancelled}]
  approval:
    initial: given
    states: {given: {end: neutral}, refused: {end: failure}}
    transitions: [{from: given, to: refused, when: cancelled}]
`

// newWorkflowPlay begins with run 1, which sets v1 and needs a signal.
func newWorkflowPlay() *workflowPlay {
	p := &workflowPlay{now: time.Date(2026, 11, 27, 10, 5, 0, 0, time.UTC)}
	p.Monitor = New(Options{
		Now: func() time.Time { return p.now }, Has: func(intent.AssetID) string { return p.has },
		Course: &Course{Document: "course", Prefix: "course-", Soak: time.Minute},
	})
	p.RunAsked("v1", true)
	p.runStepped(p.row("", false))
	return p
}

// row of run 1, as it is stored.
func (p *workflowPlay) row(outcome string, cancelled bool, at ...string) intent.WorkflowRun {
	run := workflow.Run{Inputs: map[string]workflow.Value{"version": {Text: "v1"}}, Cancelled: cancelled, Signals: []string{"go_on"}}
	for i, state := range []string{"set", "set", "given"} {
		if i < len(at) {
			state = at[i]
		}
		run.Machines = append(run.Machines, workflow.Standing{State: state})
	}
	state, _ := json.Marshal(run)
	row := intent.WorkflowRun{Number: 1, Workflow: "release", Text: watchedDefinition, State: state, Outcome: outcome}
	if outcome != "" {
		row.Ended = p.now
	}
	return row
}

func (p *workflowPlay) end(row intent.WorkflowRun) {
	p.runStepped(row)
	p.runEnded(row)
}

// arrives in production.
func (p *workflowPlay) arrives(field, value string) {
	p.has = value
	p.courseEffect(intent.AssetID("course-" + field))
}

func (p *workflowPlay) vote(by string, approve bool) {
	p.RunVoteAnswered(p.RunVoteAsked(1, by, approve))
}

// ready brings the run to where beta may be set.
func (p *workflowPlay) ready() {
	p.runSet("alpha", "v1")
	p.arrives("alpha", "v1")
	p.now = p.now.Add(2 * time.Minute)
	p.CallArrived("shop/release#1/question/asking/1", false)
	p.CallWasGood("shop/release#1/question/asking/1")
	p.vote("ann", true)
	p.vote("bob", true)
	p.RunSignalAsked(1)
}

func TestRunsAreWatched(t *testing.T) {
	tests := []struct {
		name string
		play func(p *workflowPlay)
		want string // the property that is told; empty: none
	}{
		{"as it should be", func(p *workflowPlay) {
			p.ready()
			p.runSet("beta", "v1")
			p.arrives("beta", "v1")
			p.end(p.row("success", false))
		}, ""},
		{"half taken back", func(p *workflowPlay) {
			p.runSet("alpha", "v1")
			p.RunCancelAsked(1)
			p.RunCancelAnswered(1)
			p.runSet("alpha", "v1-back")
			p.end(p.row("cancelled", true, "undone", "undone"))
		}, "S28"}, // Beta says that it was taken back, and was not.
		{"set twice", func(p *workflowPlay) {
			p.runSet("alpha", "v1")
			p.runSet("alpha", "v1")
		}, "S28"},
		{"never in production", func(p *workflowPlay) {
			p.ready()
			p.workflows.arrived = map[fieldValue]time.Time{}
			p.runSet("beta", "v1")
		}, "S28"},
		{"too soon", func(p *workflowPlay) {
			p.ready()
			p.now = p.now.Add(-90 * time.Second)
			p.runSet("beta", "v1")
		}, "S28"},
		{"nobody answered well", func(p *workflowPlay) {
			p.ready()
			p.workflows.calls = map[string]*watchedCall{}
			p.runSet("beta", "v1")
		}, "S28"},
		{"one person approves twice", func(p *workflowPlay) {
			p.ready()
			p.workflows.runs["v1"].votes = nil
			p.vote("ann", true)
			p.vote("ann", true)
			p.runSet("beta", "v1")
		}, "S9"},
		{"somebody refused", func(p *workflowPlay) {
			p.ready()
			p.vote("carol", false)
			p.runSet("beta", "v1")
		}, "S9"},
		{"no signal", func(p *workflowPlay) {
			p.ready()
			p.workflows.runs["v1"].signalled = false
			p.runSet("beta", "v1")
		}, "S28"},
		{"cancelled before", func(p *workflowPlay) {
			p.ready()
			p.RunCancelAsked(1)
			p.RunCancelAnswered(1)
			p.runSet("beta", "v1")
		}, "S28"},
		{"under a stop", func(p *workflowPlay) {
			p.stops[""] = answeredStop{at: p.now}
			p.runSet("alpha", "v1")
		}, "S18"},
		{"a value of nobody", func(p *workflowPlay) { p.runSet("alpha", "v9") }, "S28"},
		{"nothing is taken back", func(p *workflowPlay) {
			p.runSet("alpha", "v1")
			p.end(p.row("failure", false))
		}, "S28"},
		{"a success that never was", func(p *workflowPlay) {
			p.ready()
			p.runSet("beta", "v1")
			p.end(p.row("success", false))
		}, "S28"},
		{"a cancel is lost", func(p *workflowPlay) {
			p.RunCancelAsked(1)
			p.RunCancelAnswered(1)
			p.runStepped(p.row("", false))
		}, "S28"},
		{"votes are lost", func(p *workflowPlay) {
			p.vote("ann", true)
			p.vote("bob", true)
			p.end(p.row("failure", false, "set", "set", "refused"))
		}, "S9"},
		{"called again", func(p *workflowPlay) {
			p.CallArrived("shop/release#1/word/telling/1", true)
			p.CallArrived("shop/release#1/word/telling/1", true)
		}, "S28"},
		{"started twice", func(p *workflowPlay) {
			again := p.row("", false)
			again.Number = 2
			p.runStepped(again)
		}, "S28"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newWorkflowPlay()
			test.play(p)
			found := p.Violations()
			switch {
			case test.want == "" && len(found) > 0:
				t.Errorf("it tells %v", found)
			case test.want != "" && (len(found) == 0 || found[0].Property != test.want):
				t.Errorf("it tells %v, want %s", found, test.want)
			}
		})
	}
}
