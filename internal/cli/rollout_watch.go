package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// watchRollout shows a rollout until the run ends.
func (s *session) watchRollout(ctx context.Context, c *client.Client, request *apipb.WatchRolloutRequest) error {
	var redraw <-chan time.Time // Ages and what is left change by themselves.
	redraws := terminal(s.Out) && s.output == "table"
	if redraws {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		redraw = ticker.C
	}
	teller := progressTeller{session: s}
	last, refused, err := followRollout(ctx, c, request, redraw, func(r *apipb.Rollout) error {
		if !redraws {
			return teller.tell(r)
		}
		fmt.Fprint(s.Out, clearScreen)
		return s.printStatus(r)
	})
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return nil // Interrupted, as every watch is.
	case err != nil:
		return err
	case refused != nil && (s.output == "table" || s.output == "wide"):
		s.printRefused(refused)
	}
	return endedAs(last.Run, refused)
}

// printRefused tells of newest sources that are not served, which no run comes of.
func (s *session) printRefused(refused *apipb.Candidate) {
	fmt.Fprintf(s.Out, "The newest sources are %s, and not served, so no run is of them (candidate %s): lehr describe candidate tells why.\n", refused.State, plain(refused.Id))
}

// followRollout shows a rollout, at each change and at each redraw, until its run has ended.
// It returns the rollout as it was last, and the newest candidate where that is refused
// and so no run comes of it.
func followRollout(ctx context.Context, c *client.Client, request *apipb.WatchRolloutRequest, redraw <-chan time.Time, show func(*apipb.Rollout) error) (last *apipb.Rollout, refused *apipb.Candidate, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, finished := make(chan *apipb.Rollout), make(chan error, 1)
	go func() {
		finished <- c.WatchRollout(ctx, request, func(m *apipb.WatchRolloutResponse) error {
			select {
			case messages <- m.Rollout:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	watched := watchedRun{client: c, request: request}
	ticker := time.NewTicker(settleTime / 10)
	defer ticker.Stop()
	for {
		shows := true
		select {
		case last = <-messages:
		case <-redraw:
		case <-ticker.C:
			shows = false
		case err := <-finished:
			return last, nil, err
		}
		if last == nil {
			continue
		}
		if shows {
			if err := show(last); err != nil {
				return last, nil, err
			}
		}
		isOver, refused, err := watched.isOver(ctx, last)
		if isOver || err != nil {
			return last, refused, err
		}
	}
}

// settleTime is for how long nothing must be built, and no run begin, before a run counts
// as the newest that had ended when somebody began to watch: a change of the sources is
// read and built first.
const settleTime = 3 * time.Second

// watchedRun finds out when a run that is watched is over.
type watchedRun struct {
	client  *client.Client
	request *apipb.WatchRolloutRequest
	// started: it was looked at before.
	started bool
	// stale is the run that had ended before, until another begins.
	stale uint64
	// idle is since when nothing is built.
	idle time.Time
}

// isOver reports whether the run is over. With it it returns the newest candidate, where
// that is refused and no run is of it.
func (w *watchedRun) isOver(ctx context.Context, r *apipb.Rollout) (isDone bool, refused *apipb.Candidate, err error) {
	run := r.GetRun()
	if w.request.Run != 0 {
		return run != nil && !goesOn(run), nil, nil
	}
	finished := run != nil && hasEnded(run) && len(r.Pending) == 0
	if !w.started {
		w.started, w.idle = true, time.Now()
		if finished {
			w.stale = run.Run
		}
	}
	if !finished || run.Run != w.stale {
		return finished, nil, nil
	}
	response, err := w.client.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: w.request.Partition})
	if err != nil {
		return false, nil, err
	}
	if response.Partition.Building != nil {
		w.idle = time.Now()
	}
	return time.Since(w.idle) >= settleTime, response.Partition.BlockedBy, nil
}

// endedAs returns the exit code of a run that ended, and of a refused candidate that no
// run is of.
func endedAs(run *apipb.RolloutRun, refused *apipb.Candidate) error {
	if run.GetState() == string(intent.RolloutDone) && refused == nil {
		return nil
	}
	return exit{exitDiffers}
}

// progressTeller tells of a rollout in lines, each of what was not told before.
type progressTeller struct {
	*session
	run    uint64
	last   time.Time
	status string
	// events of the last moment that was told of.
	events int
}

func (t *progressTeller) tell(r *apipb.Rollout) error {
	if t.output != "table" && t.output != "wide" {
		return t.printLine(r, func() { _ = printYAML(t.session, r); fmt.Fprintln(t.Out, "---") })
	}
	run := r.GetRun()
	if run == nil {
		if t.status == "" {
			t.status = "none"
			fmt.Fprintf(t.Out, "%s  %s has no run yet\n", t.now().UTC().Format(time.TimeOnly), plain(r.Name))
		}
		return nil
	}
	if run.Run != t.run {
		t.run, t.last, t.events, t.status = run.Run, time.Time{}, 0, ""
		fmt.Fprintf(t.Out, "%s  %s, run %d, to %s\n", run.Began.AsTime().Format(time.TimeOnly), plain(r.Name), run.Run, plain(brings(run)))
	}
	for _, e := range run.Events {
		at := e.At.AsTime()
		if at.Before(t.last) {
			continue
		}
		if at.Equal(t.last) && t.events > 0 {
			t.events--
			continue
		}
		fmt.Fprintf(t.Out, "%s  %s by %s: %s\n", at.Format(time.TimeOnly), plain(e.Kind), plain(actor(e.By)), plain(e.Text))
	}
	if n := len(run.Events); n > 0 {
		t.last = run.Events[n-1].At.AsTime()
		t.events = len(slices.DeleteFunc(slices.Clone(run.Events), func(e *apipb.RolloutEvent) bool { return !e.At.AsTime().Equal(t.last) }))
	}
	var done, total int64
	for _, stage := range run.Stages {
		done, total = done+stage.Done, total+stage.Total
	}
	status := fmt.Sprintf("%s, %d of %d assets are done", run.State, done, total)
	if goesOn(run) && run.Waits != "" {
		status += "; " + steady(run)
	}
	if status != t.status {
		t.status = status
		fmt.Fprintf(t.Out, "%s  %s\n", t.now().UTC().Format(time.TimeOnly), plain(status))
	}
	return nil
}

// steady says for what a run waits, without what counts down.
func steady(run *apipb.RolloutRun) string {
	if len(run.WaitsFor) > 0 && run.Next != nil {
		return fmt.Sprintf("for %s to be healthy, until %s at the earliest", listed(run.WaitsFor, 1), run.Next.AsTime().Format(time.TimeOnly))
	}
	return run.Waits
}
