package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
)

// Course is what runs of the watched workflow change: a document of two fields, alpha and then
// beta. Each run sets a value that no other run has, and with BackSuffix what takes it back.
type Course struct {
	Document string
	// Prefix and the name of a field are its asset.
	Prefix string
	// Soak is how long a run waits between alpha and beta.
	Soak time.Duration
}

// BackSuffix marks the value with which a run takes back what it set.
const BackSuffix = "-back"

// runQuorum is how many people must approve a run.
const runQuorum = 2

// workflowWatch is what is known of the runs: by the history of their document, by what people
// asked and were told, by the calls that arrived, and by the rows of runs.
type workflowWatch struct {
	revision int
	touched  uint64
	// sets counts how often a workflow set a value in a field.
	sets map[fieldValue]int
	// arrived tells since when production has, or first had, a value.
	arrived map[fieldValue]time.Time
	runs    map[string]*watchedRun
	// byNumber finds runs by the numbers that the store gave them.
	byNumber map[uint64]*watchedRun
	calls    map[string]*watchedCall
}

type fieldValue struct{ field, value string }

// watchedRun is a run by its value.
type watchedRun struct {
	value   string
	number  uint64
	careful bool
	votes   []*RunVote
	// signalled was asked for at least; signalAnswered and cancelAnswered count.
	signalled, signalAnswered bool
	cancelAsked               bool
	cancelAnswered            bool
	ended                     bool
}

// RunVote is what a person said to a run, and whether that was acknowledged.
type RunVote struct {
	by       string
	approve  bool
	answered bool
}

// watchedCall is all calls of one key.
type watchedCall struct {
	times int
	good  bool
}

func newWorkflowWatch() workflowWatch {
	return workflowWatch{
		sets: map[fieldValue]int{}, arrived: map[fieldValue]time.Time{}, runs: map[string]*watchedRun{}, byNumber: map[uint64]*watchedRun{}, calls: map[string]*watchedCall{},
	}
}

// RunAsked is called before a run with a value of its own is started.
func (m *Monitor) RunAsked(value string, careful bool) {
	m.workflows.runs[value] = &watchedRun{value: value, careful: careful}
}

// RunVoteAsked is called before somebody votes on a run, and RunVoteAnswered when it was
// acknowledged. A vote that was not acknowledged may count, or not.
func (m *Monitor) RunVoteAsked(number uint64, by string, approve bool) *RunVote {
	vote := &RunVote{by: by, approve: approve}
	if run := m.workflows.byNumber[number]; run != nil {
		run.votes = append(run.votes, vote)
	}
	return vote
}

// RunVoteAnswered notes that a vote counts.
func (m *Monitor) RunVoteAnswered(v *RunVote) { v.answered = true }

// RunSignalAsked is called before a run gets its signal, RunSignalAnswered when that was
// acknowledged.
func (m *Monitor) RunSignalAsked(number uint64) {
	if run := m.workflows.byNumber[number]; run != nil {
		run.signalled = true
	}
}

// RunSignalAnswered notes that a run has its signal.
func (m *Monitor) RunSignalAnswered(number uint64) {
	if run := m.workflows.byNumber[number]; run != nil {
		run.signalAnswered = true
	}
}

// RunCancelAsked is called before a run is cancelled, RunCancelAnswered when that was
// acknowledged.
func (m *Monitor) RunCancelAsked(number uint64) {
	if run := m.workflows.byNumber[number]; run != nil {
		run.cancelAsked = true
	}
}

// RunCancelAnswered notes that a run is cancelled.
func (m *Monitor) RunCancelAnswered(number uint64) {
	if run := m.workflows.byNumber[number]; run != nil {
		run.cancelAnswered = true
	}
}

// CallArrived is called when a receiver gets a call: one that runs at most once has a key that
// did not come before (S28).
func (m *Monitor) CallArrived(key string, atMostOnce bool) {
	call := m.workflows.calls[key]
	if call == nil {
		call = &watchedCall{}
		m.workflows.calls[key] = call
	}
	call.times++
	if atMostOnce {
		m.hold(call.times == 1, "S28", "the call %s, which runs at most once, arrived %d times", key, call.times)
	}
}

// CallWasGood is called before a receiver answers that it is done.
func (m *Monitor) CallWasGood(key string) { m.workflows.calls[key].good = true }

// isAnsweredWell reports whether some call of a run was answered so.
func (w *workflowWatch) isAnsweredWell(number uint64, machine string) bool {
	part := fmt.Sprintf("#%d/%s/", number, machine)
	for key, call := range w.calls {
		if call.good && strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// courseEffect notes since when production has a value.
func (m *Monitor) courseEffect(asset intent.AssetID) {
	course := m.options.Course
	if course == nil || !strings.HasPrefix(string(asset), course.Prefix) {
		return
	}
	now := fieldValue{strings.TrimPrefix(string(asset), course.Prefix), m.options.Has(asset)}
	if _, ok := m.workflows.arrived[now]; !ok {
		m.workflows.arrived[now] = m.options.Now()
	}
}

// followRuns reads the new rows of runs, and the new revisions of their document.
func (m *Monitor) followRuns() {
	course := m.options.Course
	if course == nil {
		return
	}
	w := &m.workflows
	var rows []intent.WorkflowRun
	m.unread("runs of workflows", m.database.each("SELECT record FROM workflow_run WHERE partition = $1 AND touched > $2 ORDER BY touched",
		[]any{string(m.options.Partition), int64(w.touched)}, func(read *sql.Rows) error {
			var text []byte
			var row intent.WorkflowRun
			if err := read.Scan(&text); err != nil {
				return err
			}
			err := json.Unmarshal(text, &row)
			rows = append(rows, row)
			return err
		}))
	var ended []intent.WorkflowRun
	for _, row := range rows {
		w.touched = max(w.touched, row.Touched)
		if m.runStepped(row) {
			ended = append(ended, row)
		}
	}
	m.unread("the course of workflows", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision > $3 ORDER BY revision",
		[]any{string(m.options.Partition), course.Document, int64(w.revision)}, func(read *sql.Rows) error {
			var author string
			var text []byte
			var changes []fieldChange
			if err := read.Scan(&w.revision, &author, &text); err != nil {
				return err
			}
			err := json.Unmarshal(text, &changes)
			if strings.HasPrefix(author, intent.WorkflowPrefix) {
				for _, c := range changes {
					var value string
					m.unread("a change of a workflow", json.Unmarshal(c.After, &value))
					m.runSet(strings.TrimPrefix(c.Path, "/"), value)
				}
			}
			return err
		}))
	for _, row := range ended {
		m.runEnded(row)
	}
}

// runStepped takes up a row of a run, and reports whether the run ended with it. What was
// acknowledged is in it (S28).
func (m *Monitor) runStepped(row intent.WorkflowRun) (ended bool) {
	state, err := workflow.StateOf(row)
	m.unread("the state of a run", err)
	value := state.Inputs["version"].Text
	run := m.workflows.runs[value]
	m.hold(run != nil, "S28", "run %d sets %q, which nobody asked for", row.Number, value)
	if run == nil || run.ended {
		return false
	}
	if run.number != 0 {
		m.hold(run.number == row.Number, "S28", "%q was started once, and has the runs %d and %d", value, run.number, row.Number)
	}
	run.number = row.Number
	m.workflows.byNumber[row.Number] = run
	if run.signalAnswered {
		m.hold(slices.Contains(state.Signals, "go_on"), "S28", "the signal of run %d was acknowledged, and is lost", row.Number)
	}
	if run.cancelAnswered {
		m.hold(state.Cancelled, "S28", "the cancel of run %d was acknowledged, and is lost", row.Number)
	}
	run.ended = !row.Ended.IsZero()
	return run.ended
}

// runSet judges that a workflow set a field: once, and by what holds then (S28), by the approval
// of enough people (S9), and under no stop (S18).
func (m *Monitor) runSet(field, value string) {
	w := &m.workflows
	w.sets[fieldValue{field, value}]++
	count := w.sets[fieldValue{field, value}]
	m.hold(count == 1, "S28", "%s was set to %s %d times", field, value, count)
	for _, scope := range []intent.PartitionID{"", m.options.Partition} {
		stop, ok := m.stops[scope]
		m.hold(!ok || stop.unwritten, "S18", "a workflow set %s to %s after %s, when the stop of %q was answered", field, value, stop.at, scope)
	}
	if strings.HasSuffix(value, BackSuffix) {
		return // Also of what a stop kept from being set.
	}
	run := w.runs[value]
	m.hold(run != nil, "S28", "a workflow set %s to %s, which nobody asked for", field, value)
	if run == nil {
		return
	}
	m.hold(!run.cancelAnswered, "S28", "%s was set to %s after the run was cancelled", field, value)
	if field == "beta" {
		m.mayGoOn(run)
	}
}

// mayGoOn: what the second step of a run rests on holds.
func (m *Monitor) mayGoOn(run *watchedRun) {
	w := &m.workflows
	since, ok := w.arrived[fieldValue{"alpha", run.value}]
	m.hold(ok, "S28", "beta was set to %s, which alpha never had in production", run.value)
	had := m.options.Now().Sub(since)
	m.hold(!ok || m.options.Lenient.ClockFaults || had >= m.options.Course.Soak, "S28", "beta was set to %s, which alpha had for %s of %s", run.value, had, m.options.Course.Soak)
	approve := map[string]bool{}
	for _, vote := range run.votes {
		if vote.approve {
			approve[vote.by] = true
		}
		m.hold(vote.approve || !vote.answered, "S9", "beta was set to %s, which %s refused", run.value, vote.by)
	}
	m.hold(len(approve) >= runQuorum, "S9", "beta was set to %s, which %d people approve", run.value, len(approve))
	m.hold(!run.careful || run.signalled, "S28", "beta was set to %s, and nobody gave the signal", run.value)
	m.hold(w.isAnsweredWell(run.number, "question"), "S28", "beta was set to %s, and who was asked has not said that it is well", run.value)
}

// runEnded judges how a run ended: what it left was taken back unless it succeeded, and what
// people said was heard (S28).
func (m *Monitor) runEnded(row intent.WorkflowRun) {
	w := &m.workflows
	run := w.byNumber[row.Number]
	state, err := workflow.StateOf(row)
	definition, _ := workflow.Read(row.Workflow, []byte(row.Text))
	m.unread("the state of a run", err)
	at := map[string]string{}
	if m.hold(definition != nil, "S28", "the definition of run %d cannot be read", row.Number); definition == nil {
		return
	}
	for i, machine := range definition.Machines {
		at[machine.Name] = state.Machines[i].State
	}
	success := row.Outcome == string(workflow.EndSuccess)
	m.hold(!success || !run.cancelAnswered, "S28", "run %d was cancelled, and ended in success", row.Number)
	for _, field := range []string{"alpha", "beta"} {
		forward, back := fieldValue{field, run.value}, fieldValue{field, run.value + BackSuffix}
		_, had := w.arrived[forward]
		m.hold(!success || had, "S28", "run %d ended in success, and %s never had %s in production", row.Number, field, run.value)
		left := w.sets[forward] > 0 && w.sets[back] == 0 && at[field] != "unclear"
		m.hold(success || !left, "S28", "run %d ended in %s, and nobody took back %s of %s", row.Number, row.Outcome, run.value, field)
		m.hold(at[field] != "undone" || w.sets[back] > 0, "S28", "run %d says that it took back %s of %s, and did not", row.Number, run.value, field)
	}
	approve, refused := map[string]bool{}, false
	for _, vote := range run.votes {
		if vote.answered && vote.approve {
			approve[vote.by] = true
		}
		refused = refused || !vote.approve
	}
	m.hold(at["approval"] != "refused" || refused || len(approve) < runQuorum, "S9", "run %d was refused, and %d people approved", row.Number, len(approve))
}
