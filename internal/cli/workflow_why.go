package cli

import (
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// maxRunsExplained of one workflow are shown by lehr why.
const maxRunsExplained = 5

// namesRun reports whether a text names a run, as promote#3. No asset, group, environment or
// partition has such a name.
func namesRun(text string) bool {
	_, _, err := runNumber(text)
	return strings.Contains(text, "#") && err == nil
}

// whyWorkflow shows what a run waits for: the run that is named, else the newest ones of the
// workflow that go on, or of all workflows where none is named, else its newest one. NotFound: there is none.
func (s *session) whyWorkflow(ctx context.Context, c *client.Client, partition, name string) error {
	if namesRun(name) {
		run, err := getRun(ctx, c, partition, name)
		if err != nil {
			return err
		}
		return s.printRun(run)
	}
	runs, more, err := newestRuns(ctx, c, partition, name)
	switch {
	case err != nil:
		return err
	case len(runs) == 0 && name == "":
		return fault.New(fault.NotFound, "no run of a workflow is known in partition %s", partition).
			WithHint("lehr workflow run starts one, and lehr workflow list shows the workflows")
	case len(runs) == 0:
		return fault.New(fault.NotFound, "no run of a workflow %.100q is known in partition %s", name, partition).
			WithHint("lehr workflow list shows the workflows, and lehr workflow status --all their runs")
	}
	if s.printsMessages() {
		return s.printRunMessage(&apipb.ListWorkflowRunsResponse{Runs: runs})
	}
	for i, run := range runs {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := s.printRun(run); err != nil {
			return err
		}
	}
	if more {
		all := "lehr workflow status"
		if name != "" {
			all += " --workflow " + plain(name)
		}
		fmt.Fprintf(s.Out, "\nMore runs go on: %s lists them.\n", all)
	}
	return nil
}

// newestRuns of a workflow that go on, or its newest one if none does; more: others go on, too.
func newestRuns(ctx context.Context, c *client.Client, partition, name string) (runs []*apipb.WorkflowRun, more bool, err error) {
	request := &apipb.ListWorkflowRunsRequest{Partition: partition, Workflow: name, OpenOnly: true, Limit: maxRunsExplained}
	response, err := c.Workflows.ListWorkflowRuns(ctx, request)
	if err == nil && len(response.Runs) == 0 {
		request.OpenOnly, request.Limit = false, 1
		response, err = c.Workflows.ListWorkflowRuns(ctx, request)
	}
	if err != nil {
		return nil, false, err
	}
	for _, listed := range response.Runs {
		run, err := c.Workflows.GetRun(ctx, &apipb.GetRunRequest{Partition: partition, Number: listed.Number})
		if err != nil {
			return nil, false, err
		}
		runs = append(runs, run.Run)
	}
	return runs, request.OpenOnly && response.Next != 0, nil
}
