package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
	"lehr.dev/sdk/client"
)

func (s *session) workflowCommand() *cobra.Command {
	command := family("workflow", "Run workflows, say what they wait for, and check them before")
	command.Long = `A workflow takes production from one state to another. Each of its steps says what to do when
it fails. lehr.yaml lists workflows. These commands start runs, show what runs wait for, and answer
their questions. check and draw read files and need no server.`
	command.AddCommand(
		s.listWorkflowsCommand(), s.runWorkflowCommand(), s.statusWorkflowCommand(), s.voteWorkflowCommand(true), s.voteWorkflowCommand(false),
		s.signalWorkflowCommand(), s.cancelWorkflowCommand(), s.migrateWorkflowCommand(), s.retryWorkflowCommand(), s.historyWorkflowCommand(),
		s.checkWorkflowCommand(), s.drawWorkflowCommand(),
	)
	return command
}

func (s *session) checkWorkflowCommand() *cobra.Command {
	limit := workflow.DefaultLimit
	strict, forPush := false, false
	command := &cobra.Command{
		Use:   "check FILE…",
		Short: "Find errors in workflow definitions, with the steps that lead to them",
		Long: `Read workflow definitions, and follow every event from every state: answers, failures,
time-outs, people, signals, facts, a cancel. The command reports states that are never
reached, guards that never hold, transitions that race, cycles without progress, runs that
get stuck or never end, and what a failed run leaves in production. Each finding has the
shortest trace that leads there. Nothing is run, and no server is asked. The exit code is 1
when there is an error, and with --strict also when there is a warning.`,
		Example: "  lehr workflow check promote.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if limit < 1 {
				return fault.New(fault.Invalid, "--limit is %d", limit).WithHint("give the number of states to look at, from 1")
			}
			var checked []checkedWorkflow
			for _, file := range args {
				one, err := checkWorkflow(file, limit, forPush)
				if err != nil {
					return err
				}
				checked = append(checked, one)
			}
			if err := s.printWorkflows(checked); err != nil {
				return err
			}
			for _, one := range checked {
				if one.count(intent.Error) > 0 || strict && len(one.Findings) > 0 {
					return exit{exitError}
				}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&forPush, "for-push", false, "the files are definitions that lehr-workflow runs inside pushes")
	command.Flags().BoolVar(&strict, "strict", false, "exit code 1 for warnings too")
	command.Flags().IntVar(&limit, "limit", limit, "look at most at this many states of each workflow")
	return command
}

// checkedWorkflow is a file and what a check says of it.
type checkedWorkflow struct {
	File string `json:"file"`
	workflow.Report
	// Read: it could be read, so that it was explored.
	Read bool `json:"read"`
}

func (c checkedWorkflow) count(severity intent.Severity) int {
	n := 0
	for _, f := range c.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

func readWorkflow(file string, forPush bool) (*workflow.Definition, []workflow.Finding, error) {
	text, err := files.Read(file, files.MostGiven)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "reading the workflow %s: %w", file, err).WithHint("name a file that can be read")
	}
	read := workflow.Read
	if forPush {
		read = workflow.ReadForPush
	}
	definition, findings := read(file, text)
	return definition, findings, nil
}

func checkWorkflow(file string, limit int, forPush bool) (checkedWorkflow, error) {
	definition, findings, err := readWorkflow(file, forPush)
	if err != nil {
		return checkedWorkflow{}, err
	}
	checked := checkedWorkflow{File: file}
	if definition != nil {
		checked.Report, checked.Read = definition.Check(limit), true
	}
	checked.Findings = append(findings, checked.Findings...)
	if checked.Findings == nil {
		checked.Findings = []workflow.Finding{}
	}
	return checked, nil
}

func (s *session) printWorkflows(checked []checkedWorkflow) error {
	if s.json() {
		return printJSON(s.Out, map[string]any{"workflows": checked})
	}
	for _, one := range checked {
		for _, f := range one.Findings {
			s.printIntentFindings([]intent.Finding{f.Finding})
			s.printTrace(f.Trace)
		}
		explored := "it could not be read"
		if one.Read {
			explored = fmt.Sprintf("all %s and %s explored", count(one.States, "state"), count(one.Transitions, "transition"))
			if !one.Complete {
				explored = fmt.Sprintf("%s and %s explored, and there are more (limit %d)", count(one.States, "state"), count(one.Transitions, "transition"), one.Limit)
			}
		}
		fmt.Fprintf(s.Out, "Workflow %s: %s; %s, %s.\n", plain(nameOfWorkflow(one)), explored,
			count(one.count(intent.Error), "error"), count(one.count(intent.Warning), "warning"))
	}
	return nil
}

func nameOfWorkflow(c checkedWorkflow) string {
	if c.Name == "" {
		return c.File
	}
	return c.Name
}

// printTrace shows what happens, and which transitions follow.
func (s *session) printTrace(trace []workflow.Move) {
	for i, move := range trace {
		var taken []string
		for _, t := range move.Passages {
			taken = append(taken, t.Machine+" → "+t.To)
		}
		line := move.Event
		if len(taken) > 0 {
			line += ": " + strings.Join(taken, ", ")
		}
		fmt.Fprintf(s.Out, "    %d. %s\n", i+1, plain(line))
	}
}

func (s *session) drawWorkflowCommand() *cobra.Command {
	forPush := false
	command := &cobra.Command{
		Use:   "draw FILE|RUN",
		Short: "Draw the machines of a workflow or of a run, as text or as a picture",
		Long: `Draw the machines of a workflow: their states, what these do, and where they lead. With a run, such
as promote#3, the drawing is of the definition that it follows, and marks the state of each
machine. With -o svg it is a picture for a browser.`,
		Example: `  lehr workflow draw promote.yaml
  lehr workflow draw promote.yaml -o svg > promote.svg
  lehr workflow draw promote#3`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case namesRun(args[0]) && forPush:
				return fault.New(fault.Invalid, "--for-push is for a file, and %s is a run", args[0]).WithHint("leave --for-push out; a run of a push is drawn from its file")
			case namesRun(args[0]):
				return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
					return s.drawRun(command.Context(), c, partition, args[0])
				})
			}
			definition, findings, err := readWorkflow(args[0], forPush)
			if err != nil {
				return err
			}
			if definition == nil {
				for _, f := range findings {
					s.printIntentFindings([]intent.Finding{f.Finding})
				}
				return exit{exitError}
			}
			return s.drawDefinition(definition, nil)
		},
	}
	command.Flags().BoolVar(&forPush, "for-push", false, "the file is a definition that lehr-workflow runs inside pushes")
	command.Annotations = map[string]string{ownOutput: "svg"}
	return command
}

// drawRun draws the definition that a run follows, with the states in which its machines are.
func (s *session) drawRun(ctx context.Context, c *client.Client, partition, name string) error {
	run, err := getRun(ctx, c, partition, name)
	if err != nil {
		return err
	}
	definition, findings := workflow.Read(run.Workflow, []byte(run.Definition))
	if definition == nil {
		return fault.New(fault.Internal, "the definition of %s cannot be read: %v", workflowtext.RunName(run), findings)
	}
	states := map[string]string{}
	for _, m := range run.Machines {
		states[m.Name] = m.State
	}
	return s.drawDefinition(definition, states)
}

func (s *session) drawDefinition(definition *workflow.Definition, states map[string]string) error {
	switch {
	case s.json():
		return printJSON(s.Out, definition)
	case s.output == "svg":
		_, err := io.WriteString(s.Out, definition.DrawSVG(states))
		return err
	}
	for _, line := range strings.Split(strings.TrimRight(definition.Draw(states), "\n"), "\n") {
		fmt.Fprintln(s.Out, plain(line))
	}
	return nil
}
