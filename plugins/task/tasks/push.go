package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"lehr.dev/plugins/task/runkeeper"
	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

// Push decides again and, when the plan is the admitted one, begins the run. It stays for a
// while to see it end.
func (t *Tasks) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	l, err := t.look(push.Asset)
	if err != nil {
		return failed(ctx, fmt.Errorf("reading again what ran: %w", err), true)
	}
	d := l.difference()
	switch {
	case d.Outcome == serve.InSync:
		return serve.Outcome{Ending: serve.Pushed, Reason: "already in sync"}
	case d.Outcome != serve.Differs:
		return serve.Outcome{Ending: serve.Stale, Reason: d.Reason}
	case d.Plan.Digest() != push.Plan:
		return serve.Outcome{Ending: serve.Stale, Reason: "another run is due now: " + l.verdict.Reason}
	case d.Base != push.Base:
		if err := permits.Cover(ctx, d.Base); err != nil {
			return stopped(ctx, err)
		}
	}
	if l.isRemoved {
		return t.remove(ctx, l, push, permits)
	}
	exit, outcome, ok := t.begin(ctx, l, push, permits)
	if !ok {
		return outcome
	}
	t.wakes.set(l.identity, wake{folder: l.folder, isLive: true})
	return t.await(ctx, l, push, exit)
}

// begin reserves the run, has Lehr keep that it begins, and starts its keeper, in this order:
// a run that began is known, whatever is killed in between. ok: it has begun.
func (t *Tasks) begin(ctx context.Context, l look, push serve.Push, permits serve.Permits) (exit <-chan struct{}, outcome serve.Outcome, ok bool) {
	run := *l.verdict.Next
	run.ID, run.Began = string(push.ID), l.now
	if err := permits.Effect(ctx); err != nil {
		return nil, stopped(ctx, err), false
	}
	switch err := l.folder.Reserve(&run); {
	case errors.Is(err, runrecord.ErrTaken):
		return nil, serve.Outcome{Ending: serve.Stale, Reason: err.Error()}, false
	case err != nil:
		return nil, failed(ctx, err, true), false
	}
	if err := t.save(ctx, l, push, &run); err != nil {
		return nil, failed(ctx, err, true), false
	}
	if err := permits.Effect(ctx); err != nil {
		return nil, stopped(ctx, err), false
	}
	exit, err := runkeeper.Start(t.Program, l.spec(push, &run))
	if err != nil {
		run.End = &runrecord.End{Ending: runrecord.NotStarted, Reason: err.Error(), Ended: t.Now()}
		err = errors.Join(err, l.folder.Finish(run.Number, run.End), t.save(ctx, l, push, &run))
		return nil, failed(ctx, fmt.Errorf("run %d did not begin: %w", run.Number, err), true), false
	}
	return exit, serve.Outcome{}, true
}

// save has Lehr keep the run.
func (t *Tasks) save(ctx context.Context, l look, push serve.Push, run *runrecord.Run) error {
	memo, err := run.Memo()
	if err == nil {
		err = push.SaveMemo(ctx, l.key, memo)
	}
	if err != nil {
		return fmt.Errorf("having Lehr keep what became of run %d: %w", run.Number, err)
	}
	return nil
}

// spec is what the keeper of the run gets.
func (l look) spec(push serve.Push, run *runrecord.Run) runkeeper.Spec {
	set := map[string]string{}
	maps.Copy(set, l.task.Env)
	set["LEHR_ASSET"], set["LEHR_RUN"] = string(push.Asset.ID), run.ID
	if run.Day != "" {
		set["LEHR_DAY"] = run.Day
	}
	return runkeeper.Spec{
		Folder: l.folder, Number: run.Number, Command: l.task.Command, Input: l.task.Input, Directory: l.task.Directory, Set: set,
		Timeout: l.want.Timeout(), Grace: l.want.Grace(),
		Items: l.verdict.Items, AtOnce: int(l.task.AtOnce), Batch: l.want.Batch, Left: l.verdict.Left,
	}
}

// await stays with a run until it ends, or for Options.Await: the run goes on without it.
func (t *Tasks) await(ctx context.Context, l look, push serve.Push, exit <-chan struct{}) serve.Outcome {
	number := l.verdict.Next.Number
	push.Progress(fmt.Sprintf("run %d is under way", number))
	timer := time.NewTimer(t.Await)
	defer timer.Stop()
	select {
	case <-exit:
	case <-timer.C:
		return serve.Outcome{Ending: serve.Pushed, Reason: fmt.Sprintf("run %d goes on", number)}
	case <-ctx.Done():
		return serve.Outcome{Ending: serve.Stopped, Reason: fmt.Sprintf("%v; run %d goes on, and is found by the next look", context.Cause(ctx), number)}
	}
	record, err := l.folder.Load()
	if err != nil || record.Run == nil || record.Run.Number != number || record.Run.End == nil {
		return failed(ctx, errors.Join(fmt.Errorf("run %d was cut off: its keeper ended and noted no end", number), err), false)
	}
	// The machine has it too: without the memo, only this machine knows.
	if err := t.save(ctx, l, push, record.Run); err != nil {
		push.Progress(err.Error())
	}
	if record.Run.End.Ending == runrecord.Well {
		return serve.Outcome{Ending: serve.Pushed}
	}
	return serve.Outcome{Ending: serve.Failed, Reason: l.want.Words(record.Run, t.Now()), Retryable: l.want.MayRepeat(record.Run.End)}
}

// remove stops what runs, and forgets what ran.
func (t *Tasks) remove(ctx context.Context, l look, push serve.Push, permits serve.Permits) serve.Outcome {
	if err := permits.Effect(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := runkeeper.Stop(ctx, l.folder); err != nil {
		return failed(ctx, err, true)
	}
	if err := permits.Effect(ctx); err != nil {
		return stopped(ctx, err)
	}
	for _, memo := range push.Asset.Memos {
		if err := push.SaveMemo(ctx, memo.Key, nil); err != nil {
			return failed(ctx, fmt.Errorf("having Lehr forget what ran: %w", err), true)
		}
	}
	if err := l.folder.Remove(); err != nil {
		return failed(ctx, err, true)
	}
	return serve.Outcome{Ending: serve.Pushed}
}

func stopped(ctx context.Context, err error) serve.Outcome {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
}

// failed is how a push ended that went wrong: what did once its permit was withdrawn came of
// that.
func failed(ctx context.Context, err error, retryable bool) serve.Outcome {
	if ctx.Err() != nil {
		return stopped(ctx, err)
	}
	return serve.Outcome{Ending: serve.Failed, Reason: err.Error(), Retryable: retryable}
}
