// Package workflows runs workflows. The Driver is an actor under a partition's lease: it steps
// runs when a timer is due, when a fact changed, or when an action has an outcome, and carries
// actions out: it edits documents and waits until what follows is enforced, and calls addresses
// that the operator lists. A step is one transaction, by compare-and-set of the run's row, so
// another replica goes on where this one ended. What people do (votes, signals, a cancel) steps
// runs in package server. The Driver pushes nothing and sets no pin.
package workflows

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// Store is what a Driver reads and writes, as store.All says.
type Store interface {
	Changed(partition intent.PartitionID) <-chan struct{}
	Check(ctx context.Context, lease store.Lease) error
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error)
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) ([]intent.Candidate, error)
	WorkflowRun(ctx context.Context, partition intent.PartitionID, number uint64) (intent.WorkflowRun, error)
	WorkflowRuns(ctx context.Context, partition intent.PartitionID, filter store.WorkflowFilter) ([]intent.WorkflowRun, error)
	StepWorkflow(ctx context.Context, lease store.Lease, step store.WorkflowStep) (intent.WorkflowRun, error)
}

// Options of a Driver.
type Options struct {
	Partition intent.PartitionID
	Store     Store
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Call sends a request of a run; nil: nobody does, and runs that call wait.
	Call func(context.Context, Call) (Answer, error)
}

// Call over HTTP that a run makes.
type Call struct {
	Partition intent.PartitionID
	// Key names the call for its receiver: a call that is repeated has the same.
	Key               string
	URL, Method, Body string
}

// Answer to a call. After an error of kind Unavailable, with a status or without one, the call
// may be repeated.
type Answer struct {
	Status int
	Text   string
}

const (
	// leastPause is between two looks, however much changes.
	leastPause = 100 * time.Millisecond
	// again is the pause before a failed look is repeated, and between two looks at awaited
	// assets: the store announces no change of a report.
	again = time.Second
	// maxPause is between two looks at a run that fail.
	maxPause = 30 * time.Second
	// explainPause is the least time between two stored reasons of waiting actions: a reason may
	// change with every look.
	explainPause = 5 * time.Second
	// runPage is how many runs are read at once.
	runPage = 200
	// maxSteps of one run in one pass: what goes on longer lets others go first.
	maxSteps = 50
)

// Driver of one partition.
type Driver struct {
	Options
	lease store.Lease
	// touched is the greatest number of a change that was seen.
	touched uint64
	// runs that go on, by number.
	runs map[uint64]*openRun
	// definitions that runs follow, by digest.
	definitions map[string]*workflow.Definition
	// facts are compiled expressions, by their texts.
	facts       map[string]*rule.Notice
	calls       calls
	comparisons map[comparison][]intent.AssetID
}

// openRun is what a Driver remembers of a run that goes on. It reads the rest when it looks.
type openRun struct {
	wakes time.Time
	// active: it has actions outside or facts, so it is looked at again and again.
	active bool
	// failures of the last looks, and when the next one is due.
	failures int
	next     time.Time
	// logged is the error that was logged last.
	logged string
	// explained is the time at which the reason of a waiting action was stored last.
	explained time.Time
}

// New returns a Driver.
func New(o Options) *Driver {
	return &Driver{
		Options: o, runs: map[uint64]*openRun{}, definitions: map[string]*workflow.Definition{}, facts: map[string]*rule.Notice{}, comparisons: map[comparison][]intent.AssetID{},
		calls: calls{pending: map[callKey]*pendingCall{}, news: make(chan struct{}, 1)},
	}
}

// Run goes on until the context ends or the lease is lost.
func (d *Driver) Run(ctx context.Context, lease store.Lease) error {
	d.lease = lease
	defer d.endCalls(ctx)
	for ctx.Err() == nil {
		changed := d.Store.Changed(d.Partition)
		pause, err := d.pass(ctx)
		if ctx.Err() != nil {
			break
		}
		if fault.Is(err, fault.Conflict) {
			if err := d.Store.Check(ctx, lease); fault.Is(err, fault.Conflict) {
				return err
			}
			pause = 0
		} else if err != nil {
			d.Log.Warn("workflows cannot go on; trying again", "partition", d.Partition, "error", err)
			pause = again
		}
		if err := d.Runtime.Wait(ctx, leastPause, nil); err != nil {
			return err
		}
		if pause == 0 {
			continue
		}
		if err := d.wait(ctx, pause, changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wait until a time passed, something changed, or a call was answered. A pause below 0 has no
// end.
func (d *Driver) wait(ctx context.Context, pause time.Duration, changed <-chan struct{}) error {
	if len(d.calls.pending) == 0 {
		return d.Runtime.Wait(ctx, pause, changed)
	}
	// Calls are answered within seconds, and their news have a channel of their own.
	if pause < 0 || pause > again {
		pause = again
	}
	return d.Runtime.Wait(ctx, pause, d.calls.news)
}

// pass reads the runs that changed, and looks at those that are due. It returns how long to wait
// at most; below 0: until something changes.
func (d *Driver) pass(ctx context.Context) (pause time.Duration, err error) {
	if err := d.readChanged(ctx); err != nil {
		return 0, err
	}
	d.endAbandonedCalls(ctx)
	if len(d.runs) == 0 {
		return -1, nil
	}
	partition, err := d.Store.Partition(ctx, d.Partition)
	if err != nil {
		return 0, err
	}
	moment := &moment{partition: partition, now: d.Runtime.Now()}
	pause = -1
	for _, number := range slices.Sorted(maps.Keys(d.runs)) {
		open := d.runs[number]
		if !open.isDue(moment.now) {
			pause = shorter(pause, open.pause(moment.now))
			continue
		}
		err := d.look(ctx, moment, number, open)
		switch {
		case fault.Is(err, fault.Conflict):
			return 0, err
		case err != nil && ctx.Err() != nil:
			return 0, err
		case err != nil:
			open.failures++
			open.next = moment.now.Add(min(time.Duration(open.failures)*again, maxPause))
			if open.logged != err.Error() {
				d.Log.Warn("a run of a workflow cannot go on; trying again", "partition", d.Partition, "run", number, "error", err)
			}
			open.logged = err.Error()
		default:
			open.failures, open.logged = 0, ""
		}
		if _, ok := d.runs[number]; ok {
			pause = shorter(pause, open.pause(moment.now))
		}
	}
	return pause, nil
}

// readChanged reads what changed of runs since the last pass. The first pass reads those that go
// on.
func (d *Driver) readChanged(ctx context.Context) error {
	for {
		after := d.touched
		page, err := d.Store.WorkflowRuns(ctx, d.Partition, store.WorkflowFilter{Open: after == 0, Touched: &after, Limit: runPage})
		if err != nil {
			return err
		}
		for i := range page {
			d.touched = max(d.touched, page[i].Touched)
			if err := d.remember(&page[i]); err != nil {
				// The others go on; looking at this one says what is wrong with it.
				d.runs[page[i].Number] = &openRun{active: true}
			}
		}
		if len(page) < runPage {
			return nil
		}
	}
}

// remember a run as it is stored.
func (d *Driver) remember(run *intent.WorkflowRun) error {
	if !run.Ended.IsZero() {
		delete(d.runs, run.Number)
		return nil
	}
	open := d.runs[run.Number]
	if open == nil {
		open = &openRun{}
		d.runs[run.Number] = open
	}
	open.wakes, open.next = run.Wakes, time.Time{}
	open.active = false
	for _, stored := range run.Actions {
		action, err := workflow.ActionOf(stored)
		if err != nil {
			return err
		}
		open.active = open.active || action.Person == nil && action.Wait == nil
	}
	definition, err := d.definition(run)
	if err != nil {
		return err
	}
	open.active = open.active || len(definition.Facts) > 0
	return nil
}

// definition that a run follows.
func (d *Driver) definition(run *intent.WorkflowRun) (*workflow.Definition, error) {
	if known := d.definitions[run.Digest]; known != nil {
		return known, nil
	}
	definition, findings := workflow.Read(run.Workflow, []byte(run.Text))
	if definition == nil {
		return nil, fault.New(fault.Internal, "the definition of run %s#%d of %q is damaged: %v", run.Workflow, run.Number, run.Partition, findings)
	}
	d.definitions[run.Digest] = definition
	return definition, nil
}

// isPausing reports whether a pause of at most that length is not over. One that would take longer
// was begun by a clock that was set back since.
func isPausing(end, now time.Time, longest time.Duration) bool {
	return end.After(now) && end.Sub(now) <= longest
}

func (o *openRun) isDue(now time.Time) bool {
	if isPausing(o.next, now, maxPause) {
		return false
	}
	return o.active || !o.wakes.IsZero() && !o.wakes.After(now)
}

// pause until the run is due; below 0: it is not due by time.
func (o *openRun) pause(now time.Time) time.Duration {
	switch {
	case isPausing(o.next, now, maxPause):
		return o.next.Sub(now)
	case o.active:
		return again
	case o.wakes.IsZero():
		return -1
	}
	return max(o.wakes.Sub(now), time.Millisecond)
}

// shorter returns the shorter of two pauses. A pause below 0 has no end.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}
