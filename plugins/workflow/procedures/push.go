package procedures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lehr.dev/internal/ground/workflow"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/workflow/flowdrive"
	"lehr.dev/plugins/workflow/flowrecord"
	"lehr.dev/sdk/serve"
)

// Push decides again and, when the plan is the admitted one, runs the definition to its end, or goes
// on with a run that was interrupted. It lasts as long as the run: so a place of a budget is taken
// for as long as the thing is not as it should be.
func (p *Procedures) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	s, err := p.subject(push.Asset)
	if err != nil {
		return failedOutcome(ctx, err, true)
	}
	if run, ok := p.openRunOf(s.key); ok {
		return serve.Outcome{Ending: serve.Stale, Reason: fmt.Sprintf("run %d is under way in another push", run.number)}
	}
	l, err := p.look(ctx, s)
	if err != nil {
		return failedOutcome(ctx, err, true)
	}
	d := l.difference()
	switch {
	case d.Outcome == serve.InSync:
		return serve.Outcome{Ending: serve.Pushed, Reason: "already in sync"}
	case d.Outcome != serve.Differs:
		return serve.Outcome{Ending: serve.Stale, Reason: d.Reason}
	case d.Plan.Digest() != push.Plan:
		return serve.Outcome{Ending: serve.Stale, Reason: "something else is to be done now: " + l.verdict.Reason}
	case d.Base != push.Base:
		if err := permits.Cover(ctx, d.Base); err != nil {
			return stoppedOutcome(ctx, err)
		}
	}
	record, err := l.openRecord(push, p.environment.Now())
	if err != nil {
		return failedOutcome(ctx, err, false)
	}
	if !p.claim(l.key, record.Number) {
		return serve.Outcome{Ending: serve.Stale, Reason: "a run is under way in another push"}
	}
	defer p.release(l.key)
	return p.run(ctx, l, record, push, permits)
}

// openRecord begins a run, or takes up the one that was interrupted.
func (l look) openRecord(push serve.Push, now time.Time) (*flowrecord.Record, error) {
	if l.verdict.Kind == flowrecord.GoOn {
		push.Progress(fmt.Sprintf("run %d goes on: %s", l.record.Number, l.record.Place(l.definition)))
		return l.record.Clone(), nil
	}
	record, err := flowrecord.New(l.record, l.definition, l.want, string(push.ID), l.inputs, now)
	if err == nil {
		push.Progress(fmt.Sprintf("run %d of %s begins: %s", record.Number, l.definition.Name, l.verdict.Reason))
	}
	return record, err
}

// run a definition, and say what became of it.
func (p *Procedures) run(ctx context.Context, l look, record *flowrecord.Record, push serve.Push, permits serve.Permits) serve.Outcome {
	driver := flowdrive.Driver{
		Definition: l.definition, Record: record, Now: p.environment.Now, SleepUntil: p.environment.SleepUntil, Tell: push.Progress,
		Save: func(ctx context.Context, record *flowrecord.Record) error {
			memo, err := record.Memo()
			if err == nil {
				err = push.SaveMemo(ctx, l.key, memo)
			}
			if err != nil {
				return fmt.Errorf("having Lehr keep how far run %d is: %w", record.Number, err)
			}
			return nil
		},
		Permit: permits.Effect,
		Call:   l.call,
	}
	if err := driver.Run(ctx); err != nil {
		return failedOutcome(ctx, err, true)
	}
	if end := record.State.End; end.Outcome != workflow.EndSuccess {
		return serve.Outcome{Ending: serve.Failed, Reason: record.EndWords()}
	}
	now, err := p.look(ctx, l.subject)
	switch {
	case err != nil:
		return failedOutcome(ctx, fmt.Errorf("%s; and %w", record.EndWords(), err), true)
	case !now.matches(now.wanted):
		return serve.Outcome{Ending: serve.Failed, Reason: fmt.Sprintf("%s; but production is not as wanted: %s", record.EndWords(), now.firstDifference())}
	}
	return serve.Outcome{Ending: serve.Pushed, Reason: record.EndWords()}
}

// firstDifference names the first value that is not as wanted.
func (l look) firstDifference() string {
	for _, e := range l.wanted {
		if l.differs(e) {
			return fmt.Sprintf("it has %q at %s, not %q", shorten(l.have[e.place]), e.place, shorten(e.value))
		}
	}
	return "nothing"
}

// call makes a call of a run.
func (l look) call(ctx context.Context, call flowdrive.Call) (flowdrive.Answer, error) {
	request := endpoint.Call{Method: call.Method, Headers: headers(call.Key), Secrets: l.asset.SecretRequest(), Begin: call.Begin}
	target, base := l.api, l.payload.Path
	if call.Endpoint != "" {
		var err error
		base = "" // It is not the thing's own.
		if target, err = l.apis.Find(call.Endpoint, string(l.asset.Incarnation.Partition)); err != nil {
			return flowdrive.Answer{}, &flowdrive.Refused{Err: err}
		}
	}
	if err := address(&request, base, call.Path); err != nil {
		return flowdrive.Answer{}, &flowdrive.Refused{Err: err}
	}
	if call.Body != "" {
		request.Body = []byte(call.Body)
	}
	answer, err := target.Do(ctx, request)
	_, unanswered := errors.AsType[*endpoint.NoAnswerError](err)
	_, isBusy := serve.BusyPause(err)
	switch {
	case err == nil:
		return flowdrive.Answer{Status: answer.Status, Text: string(answer.Body), Words: wordsOf(answer)}, nil
	case errors.Is(err, endpoint.ErrNotListed):
		return flowdrive.Answer{}, &flowdrive.Refused{Err: err}
	case unanswered || isBusy || ctx.Err() != nil:
		return flowdrive.Answer{}, err
	}
	return flowdrive.Answer{}, &flowdrive.NotSent{Err: err}
}

func stoppedOutcome(ctx context.Context, err error) serve.Outcome {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
}

// failedOutcome is that of a push that went wrong: what did once its permit was withdrawn came of that.
func failedOutcome(ctx context.Context, err error, retryable bool) serve.Outcome {
	if ctx.Err() != nil {
		return stoppedOutcome(ctx, err)
	}
	outcome := serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: retryable}
	outcome.RetryAfter, _ = serve.BusyPause(err)
	return outcome
}
