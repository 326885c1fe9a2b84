package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
	"lehr.dev/sdk/client"
)

// watchPeriod is how often a run that is watched is looked at.
const watchPeriod = time.Second

// watchRun shows what happens in a run, from a row of its history on, until it has ended.
func (s *session) watchRun(ctx context.Context, c *client.Client, run *apipb.WorkflowRun, cursor uint64) error {
	told := ""
	for {
		if !s.printsMessages() {
			var err error
			if cursor, err = s.tellEvents(ctx, c, run, cursor); err != nil {
				return interruptedOr(ctx, err)
			}
			if waits := workflowtext.WaitsFor(run); run.Ended == nil && waits != told {
				told = waits
				fmt.Fprintf(s.Out, "%s  waits for: %s\n", s.now().UTC().Format(time.TimeOnly), plain(waits))
			}
		}
		if run.Ended != nil {
			return s.endRun(run)
		}
		select {
		case <-ctx.Done():
			return nil // Interrupted, as every watch is.
		case <-time.After(watchPeriod):
		}
		response, err := c.Workflows.GetRun(ctx, &apipb.GetRunRequest{Partition: run.Partition, Number: run.Number})
		if err != nil {
			return interruptedOr(ctx, err)
		}
		run = response.Run
	}
}

// interruptedOr is nil where a watch was interrupted.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// endRun tells how a run ended, and returns the exit code that is for it.
func (s *session) endRun(run *apipb.WorkflowRun) error {
	if s.printsMessages() {
		if err := s.printRunMessage(run); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.Out, "%s\n", plain(workflowtext.Ending(run)))
		for _, line := range nextSteps(run) {
			fmt.Fprintf(s.Out, "%s\n", plain(line))
		}
	}
	if run.Outcome == string(workflow.EndSuccess) {
		return nil
	}
	return exit{exitError}
}

// tellEvents prints a line for each row after one, and returns the last.
func (s *session) tellEvents(ctx context.Context, c *client.Client, run *apipb.WorkflowRun, cursor uint64) (uint64, error) {
	for {
		response, err := c.Workflows.ListRunEvents(ctx, &apipb.ListRunEventsRequest{Partition: run.Partition, Number: run.Number, After: cursor})
		if err != nil {
			return cursor, err
		}
		for _, e := range response.Events {
			fmt.Fprintf(s.Out, "%s  %s\n", e.At.AsTime().UTC().Format(time.TimeOnly), plain(workflowtext.MachineEvent(e)))
			cursor = e.Number
		}
		if response.Next == 0 {
			return cursor, nil
		}
	}
}

func (s *session) historyWorkflowCommand() *cobra.Command {
	limit := 200
	command := &cobra.Command{
		Use: "history RUN", Short: "List what happened in a run, the oldest first", Args: cobra.ExactArgs(1),
		Example: "  lehr workflow history promote#3",
		RunE: func(command *cobra.Command, args []string) error {
			if limit < 1 {
				return fault.New(fault.Invalid, "--limit is %d", limit).WithHint("give how many rows to list, from 1")
			}
			if _, _, err := runNumber(args[0]); err != nil {
				return err
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				run, err := getRun(command.Context(), c, partition, args[0])
				if err != nil {
					return err
				}
				result := listing{header: []string{"AT", "EVENT", "MACHINE", "BY", "TEXT"}}
				request := &apipb.ListRunEventsRequest{Partition: partition, Number: run.Number}
				result.more, err = pages(limit, func(most int32) (int, bool, error) {
					request.Limit = most
					response, err := c.Workflows.ListRunEvents(command.Context(), request)
					if err != nil {
						return 0, false, err
					}
					for _, e := range response.Events {
						result.add(e, at(e.At), e.Kind, e.Machine, actor(e.By), workflowtext.Event(e))
					}
					request.After = response.Next
					return len(response.Events), response.Next != 0, nil
				})
				if err != nil {
					return err
				}
				return s.printListing(result, "events")
			})
		},
	}
	command.Flags().IntVar(&limit, "limit", limit, "list at most this many")
	return command
}
