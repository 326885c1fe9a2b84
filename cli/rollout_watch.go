package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lehr.dev/client"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

// watchRollout shows a rollout until the run ends.
func (s *session) watchRollout(ctx context.Context, c *client.Client, request *apipb.WatchRolloutRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, ended := make(chan *apipb.Rollout), make(chan error, 1)
	go func() {
		ended <- c.WatchRollout(ctx, request, func(m *apipb.WatchRolloutResponse) error {
			select {
			case messages <- m.Rollout:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	var again <-chan time.Time // Ages and what is left change by themselves.
	redraws := terminal(s.Out) && s.output == "table"
	if redraws {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		again = ticker.C
	}
	told := told{session: s}
	var shown *apipb.Rollout
	for {
		select {
		case shown = <-messages:
		case <-again:
		case err := <-ended:
			if ctx.Err() != nil || errors.Is(err, context.Canceled) {
				return nil // Interrupted, as every watch is.
			}
			return err
		}
		if shown == nil {
			continue
		}
		switch {
		case redraws:
			fmt.Fprint(s.Out, clearScreen)
			if err := s.printStatus(shown); err != nil {
				return err
			}
		default:
			if err := told.tell(shown); err != nil {
				return err
			}
		}
		if run := shown.GetRun(); run != nil && (hasEnded(run) || request.Run != 0 && !goesOn(run)) {
			return endedAs(run)
		}
	}
}

// endedAs is the exit code of a run that ended.
func endedAs(run *apipb.RolloutRun) error {
	if run.State == string(intent.RolloutDone) {
		return nil
	}
	return exit{exitDiffers}
}

// told tells of a rollout in lines, each of what was not told before.
type told struct {
	*session
	run    uint64
	last   time.Time
	stands string
	// events of the last moment that was told of.
	events int
}

func (t *told) tell(r *apipb.Rollout) error {
	if t.output != "table" && t.output != "wide" {
		return t.printLine(r, func() { _ = printYAML(t.session, r); fmt.Fprintln(t.Out, "---") })
	}
	run := r.GetRun()
	if run == nil {
		if t.stands == "" {
			t.stands = "none"
			fmt.Fprintf(t.Out, "%s  %s has no run yet\n", t.now().UTC().Format(time.TimeOnly), plain(r.Name))
		}
		return nil
	}
	if run.Run != t.run {
		t.run, t.last, t.events, t.stands = run.Run, time.Time{}, 0, ""
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
	stands := fmt.Sprintf("%s, %d of %d assets are done", run.State, done, total)
	if goesOn(run) && run.Waits != "" {
		stands += "; " + steady(run)
	}
	if stands != t.stands {
		t.stands = stands
		fmt.Fprintf(t.Out, "%s  %s\n", t.now().UTC().Format(time.TimeOnly), plain(stands))
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
