package notify

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/store"
)

// RunEventKind says what happened in a run of a workflow.
type RunEventKind string

// What notifications tell of runs.
const (
	RunStarted   RunEventKind = "started"
	RunAsks      RunEventKind = "asks" // people are asked from now on
	RunCancelled RunEventKind = "cancelled"
	RunEnded     RunEventKind = "ended"
)

// personAction is the kind of an action that asks people.
const personAction = "person"

// RunEvent is what happened in a run of a workflow, in a message.
type RunEvent struct {
	Event    RunEventKind `json:"event"`
	Workflow string       `json:"workflow"`
	Run      uint64       `json:"run"`
	// Machine that asks people, and Key of its question; empty: the event is of the run.
	Machine string `json:"machine,omitempty"`
	Key     string `json:"key,omitempty"`
	// Outcome of a run that ended.
	Outcome string    `json:"outcome,omitempty"`
	By      string    `json:"by"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
}

// WorkflowCursor is how far runs of workflows were read.
type WorkflowCursor struct {
	// Touched is that of the run that was changed last, of those that were read.
	Touched uint64 `json:"touched"`
	// Rows is the last row that was read of the history of each run that goes on.
	Rows map[uint64]uint64 `json:"rows"`
}

// runEventOf a row of a run's history; false: notifications do not tell of such rows.
func runEventOf(run intent.WorkflowRun, row intent.WorkflowEvent) (event RunEvent, ok bool) {
	event = RunEvent{Workflow: run.Workflow, Run: run.Number, By: row.By.Name, Reason: oneLine(row.Reason, mostSaid), At: row.At}
	switch row.Kind {
	case intent.WorkflowStarted:
		event.Event = RunStarted
	case intent.WorkflowBegan:
		if row.Word != personAction {
			return event, false
		}
		event.Event, event.Machine, event.Key = RunAsks, row.Machine, row.Key
	case intent.WorkflowCancelled:
		event.Event = RunCancelled
	case intent.WorkflowEnded:
		event.Event, event.Outcome = RunEnded, row.Word
	default:
		return event, false
	}
	return event, true
}

// words about the event, for people.
func (e RunEvent) words() string {
	name := e.Workflow + "#" + strconv.FormatUint(e.Run, 10)
	switch e.Event {
	case RunStarted:
		return fmt.Sprintf("%s is started by %s: %s", name, e.By, e.Reason)
	case RunAsks:
		return fmt.Sprintf("%s, %s: %s", name, e.Machine, e.Reason)
	case RunCancelled:
		return fmt.Sprintf("%s is cancelled by %s: %s", name, e.By, e.Reason)
	}
	text := fmt.Sprintf("%s ended: %s", name, e.Outcome)
	if e.Reason != "" {
		text += ", " + e.Reason
	}
	return text
}

// tellRun tells of something that happened in a run. A message has the same id whenever the same
// row is shown.
func (e *engine) tellRun(event RunEvent, row uint64, now time.Time) {
	noted := &intentpb.NotedWorkflow{
		Event: string(event.Event), Workflow: event.Workflow, Run: int64(event.Run), Machine: event.Machine, Key: event.Key, Outcome: event.Outcome,
		By: event.By, Reason: event.Reason, At: moment(event.At),
	}
	for _, c := range e.rules {
		if !c.OfWorkflow {
			continue
		}
		text, holds := e.sayOnce(c, rule.Noted{Workflow: noted, Now: now}, event.words())
		if !holds {
			continue
		}
		id := intent.Sum("lehr.notice.workflow.v1", []byte(e.partition), []byte(c.Name), fmt.Appendf(nil, "%d/%d", event.Run, row))
		m := Message{
			ID: id.Short(), Partition: e.partition, Name: c.Name, Status: "happened", Cause: string(event.Event), Since: event.At, At: now,
			Title: fmt.Sprintf("[%s] %s: %s", e.partition, c.Name, text), Workflow: &event,
		}
		switch {
		case e.links == nil:
		case event.Event == RunAsks:
			m.Link = e.links.Question(e.partition, event.Run, event.Machine, event.Key)
		default:
			m.Link = e.links.WorkflowRun(e.partition, event.Run)
		}
		e.post(c, m, now)
	}
}

// ofWorkflow: one of the notifications is of workflows.
func ofWorkflow(rules []*compiled) bool {
	return slices.ContainsFunc(rules, func(c *compiled) bool { return c.OfWorkflow })
}

// readWorkflows shows rows of runs, on from where it was; from the newest on, once a notification is
// of them. What it shows is stored with how far it came, before anything is sent.
func (n *Notifier) readWorkflows(ctx context.Context) error {
	s := n.engine.State
	if !ofWorkflow(n.engine.rules) {
		n.dirty = n.dirty || s.Workflows != nil
		s.Workflows = nil
		return nil
	}
	isFirst := s.Workflows == nil
	cursor := WorkflowCursor{Rows: map[uint64]uint64{}}
	if !isFirst {
		cursor = *s.Workflows
	}
	for {
		runs, err := n.Store.WorkflowRuns(ctx, n.Partition, store.WorkflowFilter{Touched: &cursor.Touched, Limit: page})
		if err != nil {
			return err
		}
		for i := range runs {
			if err := n.readRun(ctx, &cursor, runs[i], isFirst); err != nil {
				return err
			}
			cursor.Touched, n.dirty = runs[i].Touched, true
		}
		if len(runs) < page {
			break
		}
	}
	n.owing = n.owing || isFirst // Stored at once, so that a restart misses nothing that comes after.
	s.Workflows = &cursor
	return nil
}

// readRun shows the new rows of a run, or only takes up how many there are.
func (n *Notifier) readRun(ctx context.Context, cursor *WorkflowCursor, run intent.WorkflowRun, silently bool) error {
	if silently {
		if !run.Ended.IsZero() {
			return nil
		}
		newest, err := n.Store.WorkflowEvents(ctx, n.Partition, run.Number, store.WorkflowEventFilter{NewestFirst: true, Limit: 1})
		if err == nil && len(newest) > 0 {
			cursor.Rows[run.Number] = newest[0].Number
		}
		return err
	}
	last, err := eachRow(ctx, n.Store, run, cursor.Rows[run.Number], func(row intent.WorkflowEvent) bool {
		if event, ok := runEventOf(run, row); ok {
			n.engine.tellRun(event, row.Number, n.Runtime.Now())
			n.owing = true
		}
		return true
	})
	if err != nil {
		return err
	}
	if cursor.Rows[run.Number] = last; !run.Ended.IsZero() {
		delete(cursor.Rows, run.Number)
	}
	return nil
}

// eachRow visits the rows of a run's history after one, until visit returns false, and returns the
// last that it visited.
func eachRow(ctx context.Context, s Reader, run intent.WorkflowRun, cursor uint64, visit func(intent.WorkflowEvent) bool) (last uint64, err error) {
	for {
		rows, err := s.WorkflowEvents(ctx, run.Partition, run.Number, store.WorkflowEventFilter{After: cursor, Limit: page})
		if err != nil {
			return cursor, err
		}
		for i := range rows {
			cursor = rows[i].Number
			if !visit(rows[i]) {
				return cursor, nil
			}
		}
		if len(rows) < page {
			return cursor, nil
		}
	}
}

// rehearseWorkflows shows the rows of runs since a time, the newest run first, and drains what is
// told after each run until that is enough. Whole: nothing is left out.
func rehearseWorkflows(ctx context.Context, s Reader, e *engine, start time.Time, drain func() (enough bool)) (whole bool, err error) {
	if !ofWorkflow(e.rules) {
		return true, nil
	}
	filter := store.WorkflowFilter{Limit: page}
	for shown := 0; ; {
		runs, err := s.WorkflowRuns(ctx, e.partition, filter)
		if err != nil {
			return false, err
		}
		for i := range runs {
			run := runs[i]
			if filter.Before = run.Number; !run.Ended.IsZero() && run.Ended.Before(start) {
				continue
			}
			_, err := eachRow(ctx, s, run, 0, func(row intent.WorkflowEvent) bool {
				if event, ok := runEventOf(run, row); ok && !row.At.Before(start) {
					e.tellRun(event, row.Number, row.At)
				}
				shown++
				return shown < mostRehearsed
			})
			if err != nil {
				return false, err
			}
			if drain() || shown >= mostRehearsed {
				return false, nil
			}
		}
		if len(runs) < page {
			return true, nil
		}
	}
}
