package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflowtext"
	"lehr.dev/sdk/client"
)

func (s *session) migrateWorkflowCommand() *cobra.Command {
	var inputs, states []string
	var reason string
	var dryRun bool
	command := &cobra.Command{
		Use: "migrate RUN", Short: "Move a run to the definition that lehr.yaml has now", Args: cobra.ExactArgs(1),
		Long: `Move a run that goes on to the definition of its workflow that lehr.yaml has now. Each machine stays
in its state where the new definition has a state of that name with the same action. An action that is
under way goes on then, with its votes and its timeout. Where a machine cannot stay, --state says
where it goes. An action that is under way there is cut off. New machines start in their
initial state. The command refuses what would lose something, and gives every reason. With
--dry-run it shows what would happen, and changes nothing. The exit code is then 1 if the run
cannot be moved so. RUN is promote#3, or its number alone.`,
		Example: `  lehr workflow migrate promote#3 --dry-run
  lehr workflow migrate promote#3 --reason "the new definition also runs tests"
  lehr workflow migrate promote#3 --state deploy=idle --input region=eu --reason "deploys by region now"`,
		RunE: func(command *cobra.Command, args []string) error {
			request := &apipb.MigrateRunRequest{Reason: reason, DryRun: dryRun}
			if err := reasoned(command, reason); err != nil && !dryRun {
				return err
			}
			var err error
			if request.Inputs, err = inputValues(inputs); err != nil {
				return err
			}
			if request.States, err = stateValues(states); err != nil {
				return err
			}
			if _, _, err := runNumber(args[0]); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				run, err := getRun(command.Context(), c, partition, args[0])
				if err != nil {
					return err
				}
				request.Partition, request.Number = run.Partition, run.Number
				response, err := c.Workflows.MigrateRun(command.Context(), request)
				if err != nil {
					return err
				}
				return s.printMigration(run, response, dryRun)
			})
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&states, "state", nil, "MACHINE=STATE that a machine goes to; may be repeated")
	flags.StringArrayVar(&inputs, "input", nil, "NAME=VALUE of an input that the run does not have; may be repeated")
	flags.BoolVar(&dryRun, "dry-run", false, "show what would happen, and change nothing")
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// stateValues reads MACHINE=STATE.
func stateValues(texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		machine, state, ok := strings.Cut(text, "=")
		if !ok || machine == "" || state == "" {
			return nil, fault.New(fault.Invalid, "--state %.100q is not of the form MACHINE=STATE", text).WithHint("write --state deploy=idle; lehr workflow status RUN shows the machines")
		}
		if _, ok := values[machine]; ok {
			return nil, fault.New(fault.Invalid, "machine %s is moved twice", machine).WithHint("give --state for it once")
		}
		values[machine] = state
	}
	return values, nil
}

// printMigration tells what became of each machine, what happened then, and what the run waits for.
func (s *session) printMigration(before *apipb.WorkflowRun, response *apipb.MigrateRunResponse, dryRun bool) error {
	switch {
	case s.printsMessages():
		if err := s.printRunMessage(response); err != nil || len(response.Problems) == 0 {
			return err
		}
		return exit{exitError}
	case len(response.Problems) > 0:
		return s.printProblems(before, response.Problems)
	}
	var b bytes.Buffer
	run, verb := response.Run, "follows now"
	if dryRun {
		verb = "would follow"
	}
	fmt.Fprintf(&b, "Run %s %s %s, in place of %s.\n", plain(workflowtext.RunName(before)), verb, plain(definitionWords(run)), plain(definitionWords(before)))
	for _, m := range response.Machines {
		fmt.Fprintf(&b, "  %s\n", plain(workflowtext.Migrated(m, before)))
	}
	if follows := followingEvents(response.Events); len(follows) > 0 {
		fmt.Fprintln(&b, "Then:")
		for _, e := range follows {
			fmt.Fprintf(&b, "  %s\n", plain(workflowtext.MachineEvent(e)))
		}
	}
	if run.Ended != nil {
		fmt.Fprintf(&b, "%s\n", plain(workflowtext.Ending(run)))
	} else if waits := workflowtext.WaitsFor(run); waits != "" {
		fmt.Fprintf(&b, "The run waits for: %s\n", plain(waits))
	}
	if dryRun {
		fmt.Fprintln(&b, "Nothing was changed.")
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// printProblems of a dry run.
func (s *session) printProblems(run *apipb.WorkflowRun, problems []*apipb.MigrationProblem) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Run %s cannot be moved to the definition that lehr.yaml has now:\n", plain(workflowtext.RunName(run)))
	for _, p := range problems {
		fmt.Fprintf(&b, "  %s\n    %s\n", plain(p.Message), plain(p.Hint))
	}
	fmt.Fprintln(&b, "Nothing was changed.")
	if _, err := s.Out.Write(b.Bytes()); err != nil {
		return err
	}
	return exit{exitError}
}

// definitionWords name the definition that a run follows.
func definitionWords(run *apipb.WorkflowRun) string {
	text := "definition " + workflowtext.ShortDigest(run.Digest)
	if run.Incarnation != "" {
		text += " of " + run.Incarnation
	}
	return text
}

// followingEvents are those that follow from a migration, without what the machines' lines say.
func followingEvents(events []*apipb.WorkflowEvent) []*apipb.WorkflowEvent {
	last := -1
	for i, e := range events {
		if e.Kind == string(intent.WorkflowMigrated) {
			last = i
		}
	}
	return slices.DeleteFunc(slices.Clone(events[last+1:]), func(e *apipb.WorkflowEvent) bool { return e.Kind == string(intent.WorkflowEnded) })
}
