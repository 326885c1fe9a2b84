package workflows

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/workflow"
)

const (
	// maxCalls are under way at a time in a partition; others wait.
	maxCalls = 8
	// callTimeout bounds one attempt.
	callTimeout = 30 * time.Second
	// maxAttemptPause is between two attempts of a call that is repeated.
	maxAttemptPause = 5 * time.Minute
)

// callKey names a call of a run.
type callKey struct {
	run uint64
	key string
}

// calls that this process makes.
type calls struct {
	pending map[callKey]*pendingCall
	group   loop.Group
	// news is readable when a call has ended.
	news chan struct{}
}

// pendingCall is one under way. Ended is closed when answer and err are there.
type pendingCall struct {
	cancel context.CancelFunc
	ended  chan struct{}
	answer Answer
	err    error
}

// carryOnCall begins a call, or takes its answer. That it begins is stored first: one that runs
// at most once and that nobody knows the answer of is not made again.
func (v *visit) carryOnCall(ctx context.Context, key string, progress intent.WorkflowAction, action *workflow.Action) (event *workflow.Event, stored bool, err error) {
	id := callKey{v.run.Number, key}
	if pending, ok := v.calls.pending[id]; ok {
		select {
		case <-pending.ended:
		default:
			return nil, false, nil
		}
		if progress.Failure == "" {
			return v.settleCall(ctx, id, pending, progress, action)
		}
		delete(v.calls.pending, id) // That it failed was stored, and the store's answer was lost.
	}
	if !progress.Begun.IsZero() && progress.Failure == "" && action.Runs == workflow.AtMostOnce {
		return answer(key, workflow.OutcomeUnknown, "Lehr ended while the call was under way"), false, nil
	}
	if isPausing(progress.Next, v.now, maxAttemptPause) {
		return nil, false, nil
	}
	switch {
	case v.Call == nil:
		stored, err := v.storeReason(ctx, key, progress, "nobody makes calls here")
		return nil, stored, err
	case v.partition.Stop != nil:
		stored, err := v.storeReason(ctx, key, progress, "%s stopped the partition: %s", v.partition.Stop.Owner.Name, v.partition.Stop.Reason)
		return nil, stored, err
	case len(v.calls.pending) >= maxCalls:
		return nil, false, nil
	}
	progress.Begun, progress.Failure, progress.Waiting = v.now, "", ""
	step, begins, err := v.planBeginning(key, progress)
	if err != nil {
		return nil, false, err
	}
	if err := v.store(ctx, step); err != nil {
		return nil, false, err
	}
	if begins {
		v.beginCall(ctx, id, action)
	}
	return nil, true, nil
}

// beginCall in the background.
func (v *visit) beginCall(ctx context.Context, id callKey, action *workflow.Action) {
	request, method := action.Ask, http.MethodGet
	if action.Tell != nil {
		request, method = action.Tell, http.MethodPost
	}
	if request.Method != "" {
		method = request.Method
	}
	call := Call{
		Partition: v.Partition, Key: fmt.Sprintf("%s/%s#%d/%s", v.Partition, v.run.Workflow, v.run.Number, id.key),
		URL: request.URL, Method: method, Body: request.Body,
	}
	calling, cancel := loop.WithTimeout(ctx, v.Runtime, callTimeout)
	pending := &pendingCall{cancel: cancel, ended: make(chan struct{})}
	v.calls.pending[id] = pending
	driver := v.Driver
	v.calls.group.Go(v.Runtime, "call of a workflow", func() {
		defer cancel()
		pending.answer, pending.err = driver.Call(calling, call)
		close(pending.ended)
		select {
		case driver.calls.news <- struct{}{}:
		default:
		}
	})
}

// settleCall takes the answer of a call that has ended. The answer is kept until it is stored: if another
// step wins, or the store fails, it is taken again.
func (v *visit) settleCall(ctx context.Context, id callKey, pending *pendingCall, progress intent.WorkflowAction, action *workflow.Action) (event *workflow.Event, stored bool, err error) {
	if err := pending.err; err != nil {
		denied := fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid)
		switch {
		case denied && pending.answer.Status == 0:
			return answer(id.key, workflow.OutcomeFailed, "%v", err), false, nil
		case action.Runs == workflow.AtMostOnce:
			return answer(id.key, workflow.OutcomeUnknown, "%v", err), false, nil
		}
		progress.Attempts++
		progress.Failure = err.Error()
		progress.Next = v.now.Add(min(time.Duration(1<<min(progress.Attempts, 16))*time.Second, maxAttemptPause))
		if err := v.keep(ctx, id.key, progress); err != nil {
			return nil, false, err
		}
		delete(v.calls.pending, id)
		return nil, true, nil
	}
	status := pending.answer.Status
	if status < 200 || status >= 300 {
		return answer(id.key, workflow.OutcomeFailed, "it answered with status %d", status), false, nil
	}
	outputs, problem := workflow.ReadOutputs(action, pending.answer.Text)
	if problem != "" {
		return answer(id.key, workflow.OutcomeFailed, "%s", problem), false, nil
	}
	done := answer(id.key, workflow.OutcomeDone, "it answered with status %d", status)
	done.Outputs = outputs
	return done, false, nil
}

// endAbandonedCalls of runs that ended, or that do not await the answer any more.
func (d *Driver) endAbandonedCalls(ctx context.Context) {
	for id, pending := range d.calls.pending {
		run, err := d.Store.WorkflowRun(ctx, d.Partition, id.run)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return
		}
		if _, ok := run.Actions[id.key]; ok && run.Ended.IsZero() {
			continue
		}
		pending.cancel()
		delete(d.calls.pending, id)
	}
}

// endCalls cancels all and waits for them.
func (d *Driver) endCalls(ctx context.Context) {
	for _, pending := range d.calls.pending {
		pending.cancel()
	}
	_ = d.calls.group.Wait(context.WithoutCancel(ctx), d.Runtime)
}
