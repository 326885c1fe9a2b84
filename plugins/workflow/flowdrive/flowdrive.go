// Package flowdrive runs a definition inside a push: it steps the run, has its state kept before and
// after each effect, and makes the calls, each under a permit. It begins nothing that is not kept.
// Package procedures calls it, with the wires to Lehr and to the API.
//
// A run makes one call at a time. What another one tells when this process has ended is never
// guessed: a call that runs at most once, and that was about to be sent, is unknown.
package flowdrive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lehr.dev/internal/ground/workflow"
	"lehr.dev/plugins/workflow/flowrecord"
	"lehr.dev/sdk/serve"
)

// maxPause is between two attempts of a call.
const maxPause = 5 * time.Minute

// Call over HTTP.
type Call struct {
	// Key is the same when a call is repeated.
	Key string
	// Endpoint of the asset; empty: the one of its thing. Path has the query too.
	Endpoint, Path, Method, Body string
	// Begin is asked just before the call is sent; an error keeps it from being sent.
	Begin func(ctx context.Context) error
}

// Answer of a call.
type Answer struct {
	Status int
	// Text of the answer; Words are what is shown of it, without secrets.
	Text, Words string
}

// Refused is an error of a call that was not sent, and never will be: it is not allowed.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// NotSent is an error of a call that did not get there: it may be made again, however often it runs.
type NotSent struct{ Err error }

func (n *NotSent) Error() string { return n.Err.Error() }
func (n *NotSent) Unwrap() error { return n.Err }

// Driver of one run. Any other error of Call says that nobody knows what came of it.
type Driver struct {
	Definition *workflow.Definition
	Record     *flowrecord.Record
	// Save returns once the record is durable. Permit returns nil when an effect may begin now.
	// An error of either ends the push.
	Save   func(ctx context.Context, record *flowrecord.Record) error
	Permit func(ctx context.Context) error
	Call   func(ctx context.Context, call Call) (Answer, error)
	// Tell people what happened.
	Tell func(text string)
	Now  func() time.Time
	// SleepUntil returns at a time, or when the push ends, with an error.
	SleepUntil func(ctx context.Context, at time.Time) error
}

// Run to the end of the run, which is then in the record, or until an error ends the push. Then the
// next push goes on.
func (d *Driver) Run(ctx context.Context) error {
	// To begin a run is an effect too: it is seen.
	if err := d.Permit(ctx); err != nil {
		return err
	}
	if err := d.Save(ctx, d.Record); err != nil {
		return err
	}
	for !d.Record.HasEnded() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		now := d.Now()
		if wakes, ok := d.Record.State.Wakes(); ok && !wakes.After(now) {
			if err := d.step(ctx, workflow.Event{Kind: workflow.EventTick}); err != nil {
				return err
			}
			continue
		}
		key, next := d.nextCall(now)
		var err error
		if key != "" {
			err = d.makeCall(ctx, key)
		} else {
			err = d.awaitNext(ctx, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextCall is the call that is to be made now, of the first machine; else when there is one to be
// repeated.
func (d *Driver) nextCall(now time.Time) (key string, next time.Time) {
	for _, machine := range d.Record.State.Machines {
		if machine.Action == nil {
			continue
		}
		action := d.Record.Actions[machine.Action.Key]
		switch {
		case action == nil || action.Action.Wait != nil:
		case !action.Next.After(now):
			return machine.Action.Key, time.Time{}
		case next.IsZero() || action.Next.Before(next):
			next = action.Next
		}
	}
	return "", next
}

// awaitNext sleeps until a timer is due, or until a call is to be repeated.
func (d *Driver) awaitNext(ctx context.Context, next time.Time) error {
	wakes, ok := d.Record.State.Wakes()
	if ok && (next.IsZero() || wakes.Before(next)) {
		next = wakes
	}
	if next.IsZero() {
		return fmt.Errorf("run %d awaits nothing and is not over: a defect of lehr-workflow", d.Record.Number)
	}
	return d.SleepUntil(ctx, next)
}

// step the run by an event, and have it kept before anything follows from it.
func (d *Driver) step(ctx context.Context, event workflow.Event) error {
	result := d.Definition.Step(d.Record.State, event, d.Now())
	if result.WhyIgnored == workflow.OtherDefinition {
		return fmt.Errorf("run %d follows another definition: a defect of lehr-workflow", d.Record.Number)
	}
	lines := d.Record.Apply(d.Definition, result)
	if err := d.Save(ctx, d.Record); err != nil {
		return err
	}
	for _, line := range lines {
		d.Tell(line)
	}
	return nil
}

func (d *Driver) answer(ctx context.Context, key string, outcome workflow.Outcome, outputs map[string]workflow.Value, format string, arguments ...any) error {
	return d.step(ctx, workflow.Event{Kind: workflow.EventAnswer, Key: key, Outcome: outcome, Outputs: outputs, Reason: fmt.Sprintf(format, arguments...)})
}

// makeCall makes a call, and takes its answer.
func (d *Driver) makeCall(ctx context.Context, key string) error {
	action := d.Record.Actions[key]
	once := action.Action.Runs == workflow.AtMostOnce
	if once && action.IsSent {
		return d.answer(ctx, key, workflow.OutcomeUnknown, nil, "the push before this one ended while the call was under way")
	}
	isSent := false
	call := callOf(action.Action)
	call.Key = d.Record.ID + "/" + key
	call.Begin = func(ctx context.Context) error {
		if err := d.Permit(ctx); err != nil {
			return &pushOver{err}
		}
		if once {
			action.IsSent = true
			if err := d.Save(ctx, d.Record); err != nil {
				return &pushOver{err}
			}
			// To have it kept takes a while, in which the permit may be taken back.
			if err := d.Permit(ctx); err != nil {
				return &pushOver{err}
			}
		}
		isSent = true
		return nil
	}
	calling, cancel := d.withTimeout(ctx, key)
	defer cancel()
	answer, err := d.Call(calling, call)
	if cause, ok := errors.AsType[*pushOver](err); ok {
		return cause.error
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*Refused](err); ok && !isSent {
		return d.answer(ctx, key, workflow.OutcomeFailed, nil, "%v", refused.Err)
	}
	_, notSent := errors.AsType[*NotSent](err)
	switch {
	case err == nil && (answer.Status == http.StatusTooManyRequests || answer.Status >= 500):
		err = fmt.Errorf("it answered with status %d%s", answer.Status, answer.words())
	case err == nil:
		return d.takeAnswer(ctx, key, action.Action, answer)
	}
	if once && isSent && !notSent {
		return d.answer(ctx, key, workflow.OutcomeUnknown, nil, "%v", err)
	}
	return d.postpone(ctx, key, err)
}

// pushOver is why a call was not sent: the push has ended.
type pushOver struct{ error }

// withTimeout returns a context that ends with the timeout of the action.
func (d *Driver) withTimeout(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	for _, machine := range d.Record.State.Machines {
		if machine.Action != nil && machine.Action.Key == key && !machine.Action.Due.IsZero() {
			left := machine.Action.Due.Sub(d.Now())
			return context.WithTimeoutCause(ctx, left, errors.New("the timeout of the action passed"))
		}
	}
	return context.WithCancel(ctx)
}

// takeAnswer steps the run by the answer of a call.
func (d *Driver) takeAnswer(ctx context.Context, key string, action *workflow.Action, answer Answer) error {
	if answer.Status < 200 || answer.Status >= 300 {
		return d.answer(ctx, key, workflow.OutcomeFailed, nil, "it answered with status %d%s", answer.Status, answer.words())
	}
	outputs, problem := workflow.ReadOutputs(action, answer.Text)
	if problem != "" {
		return d.answer(ctx, key, workflow.OutcomeFailed, nil, "%s", problem)
	}
	return d.answer(ctx, key, workflow.OutcomeDone, outputs, "")
}

func (a Answer) words() string {
	if a.Words == "" {
		return ""
	}
	return ": " + a.Words
}

// postpone a call: it is made again after a pause, which grows.
func (d *Driver) postpone(ctx context.Context, key string, cause error) error {
	action := d.Record.Actions[key]
	action.IsSent = false
	action.Attempts++
	action.Failure = cause.Error()
	pause := min(time.Duration(1<<min(action.Attempts, 16))*time.Second, maxPause)
	if asked, ok := serve.BusyPause(cause); ok {
		pause = max(pause, asked)
	}
	action.Next = d.Now().Add(pause)
	d.Tell(fmt.Sprintf("%s: attempt %d failed, the next is at %s: %v", key, action.Attempts, action.Next.UTC().Format(time.TimeOnly), cause))
	return d.Save(ctx, d.Record)
}

// callOf an action.
func callOf(action *workflow.Action) Call {
	from := action.Ask
	if from == nil {
		from = action.Tell
	}
	return Call{Endpoint: from.Endpoint, Path: from.URL, Method: from.Method, Body: from.Body}
}
