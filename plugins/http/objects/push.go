package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/restapi"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// Push plans again, and writes if the plan is the one that was admitted.
func (o Objects) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	difference, current := o.newLooks().difference(ctx, push.Asset)
	switch {
	case ctx.Err() != nil:
		return serve.Outcome{Ending: serve.Stopped, Reason: context.Cause(ctx).Error()}
	case difference.Outcome == serve.Unknown:
		return serve.Outcome{Ending: serve.Failed, Reason: difference.Reason, Retryable: true, RetryAfter: difference.RetryAfter}
	case difference.Outcome == serve.InSync:
		return serve.Outcome{Ending: serve.Pushed, Reason: "already in sync"}
	}
	if digest := difference.Plan.Digest(); digest != push.Plan {
		return serve.Outcome{Ending: serve.Stale, Reason: fmt.Sprintf("the plan is now %s (%s, %d fields), admitted was %s", digest.Short(), difference.Plan.Action, len(difference.Plan.Changes), push.Plan.Short())}
	}
	if difference.Base != push.Base {
		if err := permits.Cover(ctx, difference.Base); err != nil {
			return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
		}
	}
	sent := time.Time{}
	err := current.carry(ctx, push.ID, func(ctx context.Context) error {
		if err := permits.Effect(ctx); err != nil {
			return &noPermit{err}
		}
		sent = time.Now()
		return nil
	})
	if restapi.IsUncertain(err) {
		err = o.settle(ctx, push, current, sent, err)
	}
	return outcomeOf(ctx, err)
}

func (o Objects) newLooks() *looks {
	return &looks{list: o.Source.List(), apis: map[*endpoint.Endpoint]*restapi.API{}}
}

// noPermit is why a write was not begun.
type noPermit struct{ error }

// carry sends the one request that the plan asks for.
func (l *look) carry(ctx context.Context, id serve.PushID, begin func(context.Context) error) error {
	change := restapi.Change{Thing: l.subject.thing, Ours: l.ours, Found: l.found, Push: string(id), Begin: begin}
	switch l.plan.Action {
	case serve.ActionCreate:
		return l.api.Create(ctx, change)
	case serve.ActionDelete:
		return l.api.Delete(ctx, change)
	default:
		return l.api.Update(ctx, change)
	}
}

// settle finds out what came of a request whose end nobody knows. Where a second one would
// make a second thing, it first lets the time pass in which the first may take effect.
func (o Objects) settle(ctx context.Context, push serve.Push, l *look, sent time.Time, cause error) error {
	if l.plan.Action == serve.ActionCreate {
		rest := time.Until(sent.Add(l.subject.endpoint.Timeout()))
		if now, err := o.newLooks().look(ctx, push.Asset); !isInSync(now, err) {
			if err := wait(ctx, rest); err != nil {
				return err
			}
		}
	}
	now, err := o.newLooks().look(ctx, push.Asset)
	switch {
	case err != nil:
		return serve.Retryable(fmt.Errorf("%w; and whether it took effect cannot be read: %w", cause, err))
	case isInSync(now, nil):
		return nil
	case l.plan.Action == serve.ActionCreate && now.found.Exists:
		return fmt.Errorf("%w: %w; something is there now, otherwise than intended", serve.ErrStale, cause)
	}
	return serve.Retryable(fmt.Errorf("%w; %w", cause, errNotSeen))
}

func wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(max(length, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcomeOf turns the end of a write into an outcome.
func outcomeOf(ctx context.Context, err error) serve.Outcome {
	refusal, isRefusal := errors.AsType[*restapi.Refusal](err)
	pause, isBusy := serve.BusyPause(err)
	_, unpermitted := errors.AsType[*noPermit](err)
	switch {
	case err == nil:
		return serve.Outcome{Ending: serve.Pushed}
	case unpermitted || ctx.Err() != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
	case errors.Is(err, serve.ErrStale), errors.Is(err, secret.ErrRotated), isRefusal && refusal.Conflict:
		return serve.Outcome{Ending: serve.Stale, Reason: err.Error()}
	case isBusy:
		return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: true, RetryAfter: pause}
	}
	retryable := !isRefusal || refusal.Status >= 500
	if errors.Is(err, endpoint.ErrNotListed) {
		retryable = false
	}
	return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: retryable}
}
