package workflows

import (
	"context"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// moment is what is true for all runs of one pass.
type moment struct {
	partition store.Partition
	now       time.Time
	// candidates of the partition, the newest first; nil: they were not read yet.
	candidates []intent.Candidate
}

// visit is one look at a run.
type visit struct {
	*Driver
	*moment
	run        intent.WorkflowRun
	definition *workflow.Definition
	state      workflow.Run
}

// look at a run: it is stepped by what has happened, and its actions are carried on, until
// nothing more follows now.
func (d *Driver) look(ctx context.Context, m *moment, number uint64, open *openRun) error {
	run, err := d.Store.WorkflowRun(ctx, d.Partition, number)
	if fault.Is(err, fault.NotFound) {
		delete(d.runs, number)
		return nil
	}
	if err != nil {
		return err
	}
	v := &visit{Driver: d, moment: m, run: run}
	if v.definition, err = d.definition(&run); err != nil {
		return err
	}
	if v.state, err = workflow.StateOf(run); err != nil {
		return err
	}
	for range maxSteps {
		if !v.run.Ended.IsZero() {
			break
		}
		moved, err := v.goOn(ctx)
		if err != nil {
			return err
		}
		if !moved {
			if open.next = (time.Time{}); open.active {
				open.next = m.now.Add(again)
			}
			break
		}
	}
	return nil
}

// goOn makes one step at most, and reports whether it did.
func (v *visit) goOn(ctx context.Context) (moved bool, err error) {
	if event, ok, err := v.changedFact(ctx); err != nil || ok {
		return ok, v.step(ctx, event, err)
	}
	for _, key := range slices.Sorted(maps.Keys(v.run.Actions)) {
		event, stored, err := v.carryOn(ctx, key)
		if err != nil || stored {
			return stored, err
		}
		if event != nil {
			if err := v.step(ctx, *event, nil); err != nil {
				return false, err
			}
			delete(v.calls.pending, callKey{v.run.Number, key}) // Its answer is stored.
			return true, nil
		}
	}
	if due, ok := v.state.Wakes(); ok && !due.After(v.now) {
		return true, v.step(ctx, workflow.Event{Kind: workflow.EventTick}, nil)
	}
	return false, nil
}

// step the run by an event and store what follows. An error that comes with the event is returned.
func (v *visit) step(ctx context.Context, event workflow.Event, err error) error {
	if err != nil {
		return err
	}
	step, _, err := v.plan(event)
	if err != nil {
		return err
	}
	return v.store(ctx, step)
}

// plan what follows from an event. It reports whether the event counts: timers that are due come
// before it, and may have taken its action away.
func (v *visit) plan(event workflow.Event) (step store.WorkflowStep, counts bool, err error) {
	step.By, step.Run = v.holder(), v.run
	result := v.definition.Step(v.state, event, v.now)
	if err := workflow.UpdateRow(&step.Run, result, v.now); err != nil {
		return step, false, err
	}
	step.Events = workflow.Record(v.definition, v.state, event, result, step.By)
	return step, result.WhyIgnored == "", nil
}

// planBeginning of an action's effect: that it may have begun is stored before it does, or with it,
// beside how far the action has got. It reports whether the effect may begin.
func (v *visit) planBeginning(key string, progress intent.WorkflowAction) (step store.WorkflowStep, begins bool, err error) {
	step, begins, err = v.plan(workflow.Event{Kind: workflow.EventBegin, Key: key})
	if begins {
		step.Run.Actions[key] = progress
	}
	return step, begins, err
}

// store a step, and go on with the run as it is then.
func (v *visit) store(ctx context.Context, step store.WorkflowStep) error {
	v.Runtime.Point("workflow")
	stored, err := v.Store.StepWorkflow(ctx, v.lease, step)
	if err != nil {
		return err
	}
	v.run = stored
	if v.state, err = workflow.StateOf(stored); err != nil {
		return err
	}
	if !stored.Ended.IsZero() {
		v.Log.Info("a run of a workflow ended", "partition", v.Partition, "workflow", stored.Workflow, "run", stored.Number, "outcome", stored.Outcome)
	}
	return v.remember(&stored)
}

// keep how far an action has got, without a step of the run.
func (v *visit) keep(ctx context.Context, key string, action intent.WorkflowAction) error {
	next := v.run
	next.Actions = maps.Clone(v.run.Actions)
	next.Actions[key] = action
	return v.store(ctx, store.WorkflowStep{Run: next, By: v.holder()})
}

// changedFact is the first fact that is not as the run knows it. One whose asset has no report is
// false.
func (v *visit) changedFact(ctx context.Context) (event workflow.Event, ok bool, err error) {
	for _, fact := range v.definition.Facts {
		when, err := v.compiled(fact)
		if err != nil {
			return event, false, err
		}
		truth, err := v.isTrue(ctx, fact, when)
		if err != nil {
			return event, false, err
		}
		if truth != v.state.Facts[fact.Name] {
			return workflow.Event{Kind: workflow.EventFact, Name: fact.Name, Truth: truth}, true, nil
		}
	}
	return event, false, nil
}

// compiled expression of a fact.
func (v *visit) compiled(fact workflow.Fact) (*rule.Notice, error) {
	if known := v.facts[fact.When]; known != nil {
		return known, nil
	}
	when, err := rule.NoticeWhen(fact.When, rule.NoticeOfReport)
	if err == nil {
		v.facts[fact.When] = when
	}
	return when, err
}

func (v *visit) isTrue(ctx context.Context, fact workflow.Fact, when *rule.Notice) (bool, error) {
	report, err := v.Store.Report(ctx, v.Partition, intent.AssetID(fact.Asset))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	truth, err := when.Holds(rule.Noted{Report: rule.NotedReportOf(&report), Now: v.now})
	if fault.Is(err, fault.Invalid) {
		return false, nil // It reads what the report does not have.
	}
	return truth, err
}
