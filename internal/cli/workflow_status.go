package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
	"lehr.dev/sdk/client"
)

func (s *session) statusWorkflowCommand() *cobra.Command {
	var watch, all bool
	var name string
	limit := 100
	command := &cobra.Command{
		Use: "status [RUN]", Short: "Show the runs that go on, or what one run waits for and why", Args: cobra.MaximumNArgs(1),
		Long: `Without RUN, list the runs that go on. With RUN, show each machine of the run: its state, what
it waits for, which transitions lead on, and what each of them lacks. RUN is promote#3, or its number alone.
With --watch, show what happens until the run ends. The exit code is then 0 if it ends in
success, and 1 if it ends otherwise.`,
		Example: `  lehr workflow status
  lehr workflow status promote#3
  lehr workflow status promote#3 --watch`,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				if watch {
					return fault.New(fault.Invalid, "--watch needs a run").WithHint("name one, as in lehr workflow status promote#3 --watch; lehr workflow status lists them")
				}
				return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
					return s.listRuns(command.Context(), c, &apipb.ListWorkflowRunsRequest{Partition: partition, Workflow: name, OpenOnly: !all}, limit)
				})
			}
			if _, _, err := runNumber(args[0]); err != nil {
				return err
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				run, err := getRun(command.Context(), c, partition, args[0])
				switch {
				case err != nil:
					return err
				case watch:
					return s.watchRun(command.Context(), c, run, 0)
				}
				return s.printRun(run)
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&watch, "watch", false, "show what happens until the run ends")
	flags.BoolVar(&all, "all", false, "also list runs that ended")
	flags.StringVar(&name, "workflow", "", "only list runs of this workflow")
	flags.IntVar(&limit, "limit", limit, "list at most this many")
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// listRuns prints a table of runs.
func (s *session) listRuns(ctx context.Context, c *client.Client, request *apipb.ListWorkflowRunsRequest, limit int) error {
	result := listing{header: []string{"RUN", "STATE", "STARTED", "BY", "WAITS FOR", "REASON"}}
	var err error
	result.more, err = pages(limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Workflows.ListWorkflowRuns(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, run := range response.Runs {
			waits := workflowtext.WaitsFor(run)
			if run.Ended != nil {
				waits = ""
			}
			result.add(run, workflowtext.RunName(run), workflowtext.State(run), s.age(run.Started), actor(run.By), shorten(waits, 70), shorten(run.Reason, 40))
		}
		request.Before = response.Next
		return len(response.Runs), response.Next != 0, nil
	})
	switch {
	case err != nil:
		return err
	case s.output == "yaml":
		return printYAML(s, &apipb.ListWorkflowRunsResponse{Runs: runsOf(result)})
	}
	names := "runs"
	if request.OpenOnly {
		names = "runs that go on"
	}
	return s.printListing(result, names)
}

func runsOf(result listing) (runs []*apipb.WorkflowRun) {
	for _, message := range result.messages {
		if run, ok := message.(*apipb.WorkflowRun); ok {
			runs = append(runs, run)
		}
	}
	return runs
}

// printsMessages: programs read the output.
func (s *session) printsMessages() bool { return s.json() || s.output == "yaml" }

// printRunMessage prints a run for programs.
func (s *session) printRunMessage(message proto.Message) error {
	if s.json() {
		return printMessage(s.Out, message)
	}
	return printYAML(s, message)
}

// printRun shows a run: how it stands, and of each machine what it waits for.
func (s *session) printRun(run *apipb.WorkflowRun) error {
	if s.printsMessages() {
		return s.printRunMessage(run)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s; started %s by %s: %s\n", plain(workflowtext.RunName(run)), workflowtext.State(run), s.ago(run.Started), plain(actor(run.By)), plain(run.Reason))
	fields(&b, s.runFields(run)...)
	for _, m := range run.Machines {
		fmt.Fprintln(&b)
		s.printMachine(&b, run, m)
	}
	for _, line := range nextSteps(run) {
		fmt.Fprintf(&b, "\n%s", plain(line))
	}
	if len(nextSteps(run)) > 0 {
		fmt.Fprintln(&b)
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// runFields are those of the run as a whole.
func (s *session) runFields(run *apipb.WorkflowRun) []string {
	var inputs, facts []string
	for _, name := range slices.Sorted(maps.Keys(run.Inputs)) {
		inputs = append(inputs, name+" = "+run.Inputs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(run.Facts)) {
		facts = append(facts, fmt.Sprintf("%s is %t", name, run.Facts[name]))
	}
	end, definition := "", []string(nil)
	if run.Ended != nil {
		end = workflowtext.Ending(run) + " It ended " + s.ago(run.Ended) + "."
	}
	if m := run.Migration; m != nil {
		definition = append(definition, fmt.Sprintf("of %s, taken up %s by %s: %s", run.Incarnation, s.ago(m.At), actor(m.By), m.Reason))
	}
	if !run.DefinitionIsNewest {
		definition = append(definition, "lehr.yaml has another definition of it now; this run keeps its own")
	}
	return []string{
		"End", end, "Inputs", strings.Join(inputs, ", "), "Facts", strings.Join(facts, ", "), "Signals", strings.Join(run.Signals, ", "),
		"Left", strings.Join(run.Leftovers, ", "), "Definition", strings.Join(definition, "; "),
	}
}

func (s *session) printMachine(b *bytes.Buffer, run *apipb.WorkflowRun, m *apipb.WorkflowMachine) {
	line := m.Name + ": " + m.State
	if m.Since != nil {
		line += ", since " + s.age(m.Since)
	}
	if m.Outcome != "" {
		line += "; its action is " + m.Outcome
		if m.Reason != "" {
			line += ": " + m.Reason
		}
	}
	fmt.Fprintln(b, plain(line))
	if m.Action != nil {
		for _, line := range s.actionLines(m.Action) {
			fmt.Fprintf(b, "  %s\n", plain(line))
		}
	}
	if run.Ended != nil {
		return
	}
	for _, t := range m.Transitions {
		fmt.Fprintf(b, "  → %s\n", plain(t.To+": "+workflowtext.Transition(t, m)))
	}
}

// actionLines say what an action does or awaits, and how far it has got.
func (s *session) actionLines(a *apipb.WorkflowAction) []string {
	first := a.Text
	if a.Due != nil {
		verb := "expires"
		if a.Kind == "wait" {
			verb = "is over"
		}
		first += "; " + verb + " " + s.remaining(a.Due)
	}
	lines := []string{first}
	if approvals := workflowtext.Approvals(a); approvals != "" {
		lines = append(lines, approvals)
	}
	if a.Waiting != "" {
		lines = append(lines, "waits: "+a.Waiting)
	}
	if a.Attempts > 0 {
		line := count(int(a.Attempts), "attempt") + " failed, the last one: " + cmp.Or(a.Failure, "no reason is known")
		if a.Next != nil {
			line += "; tries again " + s.remaining(a.Next)
		}
		lines = append(lines, line)
	}
	return lines
}

// nextSteps are the commands that people can give now.
func nextSteps(run *apipb.WorkflowRun) []string {
	if run.Ended != nil {
		if run.Outcome != string(workflow.EndSuccess) {
			return []string{"To start it again with the same inputs: lehr workflow retry " + workflowtext.RunName(run) + " --reason WHY"}
		}
		return nil
	}
	var lines []string
	for _, m := range run.Machines {
		if m.Action.GetKind() == "person" {
			lines = append(lines, fmt.Sprintf("To answer %s: lehr workflow approve %s %s, or reject", m.Name, workflowtext.RunName(run), m.Name))
		}
	}
	for _, signal := range workflowtext.LackedSignals(run) {
		lines = append(lines, fmt.Sprintf("To give signal %s: lehr workflow signal %s %s", signal, workflowtext.RunName(run), signal))
	}
	if !run.DefinitionIsNewest {
		lines = append(lines, "To see whether it can take up the other definition: lehr workflow migrate "+workflowtext.RunName(run)+" --dry-run")
	}
	return lines
}
