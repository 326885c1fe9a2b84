package kubeobject

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

// Push plans again, and writes if the plan is the one that was admitted.
func (o *Objects) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	l, err := o.lookForPush(ctx, push.Asset)
	switch {
	case ctx.Err() != nil:
		return serve.Outcome{Ending: serve.Stopped, Reason: context.Cause(ctx).Error()}
	case err != nil:
		pause, _ := kubeapi.BusyFor(err)
		return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: true, RetryAfter: pause}
	case l.pending != nil:
		return serve.Outcome{Ending: serve.Stale, Reason: "a change is pending by now: " + l.pending.Reason}
	case l.plan.Action == "":
		return serve.Outcome{Ending: serve.Pushed, Reason: "already in sync"}
	case l.observed:
		return serve.Outcome{Ending: serve.Failed, Reason: fmt.Sprintf("the cluster %s is listed with observe: nothing is written there", l.payload.Cluster)}
	}
	if digest := l.plan.Digest(); digest != push.Plan {
		return serve.Outcome{Ending: serve.Stale, Reason: fmt.Sprintf("the plan is now %s (%s, %d fields), admitted was %s", digest.Short(), l.plan.Action, len(l.plan.Changes), push.Plan.Short())}
	}
	if l.refusal != nil {
		return serve.Outcome{Ending: serve.Failed, Reason: l.refusal.Error()}
	}
	if l.unreadyCallee != "" {
		return serve.Outcome{Ending: serve.Failed, Reason: l.unreadyCallee, Retryable: true, RetryAfter: calleeRetry}
	}
	if base := l.base(); base != push.Base {
		if err := permits.Cover(ctx, base); err != nil {
			return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
		}
	}
	outcome := outcomeOf(ctx, l.carry(ctx, permits))
	if outcome.Ending == serve.Pushed {
		o.rememberCreation(l)
	}
	return outcome
}

// lookForPush asks the server for all, whatever is known.
func (o *Objects) lookForPush(ctx context.Context, asset serve.Intent) (*look, error) {
	s, err := readSubject(ctx, asset)
	if err != nil {
		return nil, err
	}
	c, err := o.connect(string(asset.Incarnation.Partition), s.payload.Cluster)
	if err != nil {
		return nil, err
	}
	return o.look(ctx, c, s, isPushed)
}

// noPermit is why a write was not begun.
type noPermit struct{ error }

func begin(ctx context.Context, permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return &noPermit{err}
	}
	return nil
}

// carry does what the plan says. Whatever it writes, the server compares with what was read.
func (l *look) carry(ctx context.Context, permit serve.Permit) error {
	switch {
	case l.plan.Action == serve.ActionDelete:
		if err := begin(ctx, permit); err != nil {
			return err
		}
		return l.place.Delete(ctx, l.live, metav1.DeletePropagationForeground)
	case l.replaces:
		return l.replace(ctx, permit)
	case !l.place.Served:
		return serve.Retryable(errors.New(l.note))
	}
	if l.live != nil && objectdiff.HasAdopted(l.live, l.managers()) {
		if err := l.takeOver(ctx, permit); err != nil {
			return err
		}
	}
	if err := begin(ctx, permit); err != nil {
		return err
	}
	var err error
	l.written, err = l.place.Apply(ctx, l.sending, l.live)
	return err
}

// takeOver makes the entries of managers that count as us Lehr's own, which changes no field,
// so that the apply removes what intent no longer names. What the server then predicts is to
// be the plan still.
func (l *look) takeOver(ctx context.Context, permit serve.Permit) error {
	entries, err := objectdiff.TakenOver(l.live, l.managers())
	if err != nil {
		return err
	}
	if err := begin(ctx, permit); err != nil {
		return err
	}
	if l.live, err = l.place.SetManagers(ctx, l.live, entries); err != nil {
		return err
	}
	admitted := l.plan.Digest()
	l.plan, l.unmanaged, l.replaces = serve.Plan{}, nil, false
	if l.alone != "" {
		err = l.planAlone(ctx)
	} else {
		err = l.planChange(ctx)
	}
	if err != nil {
		return err
	}
	if l.plan.Digest() != admitted {
		return fmt.Errorf("%w: with the entries of other managers taken over, the plan is another", serve.ErrStale)
	}
	return nil
}

// replace deletes the object and, if that has ended at once, makes it anew. Else the next
// look says what the deletion waits for, and then that the object is to be created. The
// pods of a StatefulSet stay meanwhile: the new one takes them over.
func (l *look) replace(ctx context.Context, permit serve.Permit) error {
	if err := begin(ctx, permit); err != nil {
		return err
	}
	how := metav1.DeletePropagationBackground
	if l.payload.Kind == "StatefulSet" {
		how = metav1.DeletePropagationOrphan
	}
	if err := l.place.Delete(ctx, l.live, how); err != nil {
		return err
	}
	if left, err := l.place.Get(ctx, l.payload.Name); err != nil || left != nil {
		return err
	}
	if err := begin(ctx, permit); err != nil {
		return err
	}
	_, err := l.place.Apply(ctx, l.wanted, nil)
	return err
}

// outcomeOf turns the end of a write into an outcome.
func outcomeOf(ctx context.Context, err error) serve.Outcome {
	_, unpermitted := errors.AsType[*noPermit](err)
	pause, busy := kubeapi.BusyFor(err)
	switch {
	case err == nil:
		return serve.Outcome{Ending: serve.Pushed}
	case unpermitted || ctx.Err() != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
	case kubeapi.MissingNamespace(err):
		return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: true}
	case kubeapi.IsMoved(err), errors.Is(err, serve.ErrStale):
		return serve.Outcome{Ending: serve.Stale, Reason: err.Error()}
	case busy:
		return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: true, RetryAfter: pause}
	}
	return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: !kubeapi.IsRefused(err)}
}
