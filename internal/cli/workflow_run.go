package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
	"lehr.dev/sdk/client"
)

func (s *session) listWorkflowsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the workflows of the partition, with their inputs and signals", Args: cobra.NoArgs,
		Example: "  lehr workflow list",
		RunE: func(command *cobra.Command, _ []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Workflows.ListWorkflows(command.Context(), &apipb.ListWorkflowsRequest{Partition: partition})
				if err != nil {
					return err
				}
				result := listing{header: []string{"WORKFLOW", "INPUTS", "SIGNALS", "FILE"}}
				if s.wide() {
					result.header = append(result.header, "DIGEST")
				}
				for _, w := range response.Workflows {
					row := []string{w.Name, inputsText(w.Inputs), strings.Join(w.Signals, ", "), w.File}
					if s.wide() {
						row = append(row, w.Digest)
					}
					result.add(w, row...)
				}
				return s.printListing(result, "workflows")
			})
		},
	}
}

func inputsText(inputs []*apipb.WorkflowInput) string {
	var words []string
	for _, input := range inputs {
		word := input.Name + ": " + input.Type
		if input.Optional {
			word += " = " + strconv.Quote(input.Default)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func (s *session) runWorkflowCommand() *cobra.Command {
	var inputs []string
	var reason, request string
	var watch bool
	command := &cobra.Command{
		Use: "run NAME", Short: "Start a run of a workflow", Args: cobra.ExactArgs(1),
		Long: `Start a run of a workflow, and print its number. The run keeps the definition that lehr.yaml
has now. It goes on by itself, on the server: this command does not wait for it, unless --watch
is given. With --watch the exit code is 0 if the run ends in success, and 1 if it ends otherwise.`,
		Example: `  lehr workflow run promote --input version=1.2 --reason "the spring release"
  lehr workflow run promote --input version=1.2 --input urgent=true --reason "a fix" --watch`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			values, err := inputValues(inputs)
			if err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Workflows.StartRun(command.Context(), &apipb.StartRunRequest{
					Partition: partition, Workflow: args[0], Inputs: values, Reason: reason, Request: request,
				})
				if err != nil {
					return err
				}
				return s.startedRun(command.Context(), c, response.Run, "", watch)
			})
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&inputs, "input", nil, "NAME=VALUE of an input; may be repeated")
	flags.StringVar(&request, "request", "", "a name for this start: a start of the same name is done once")
	flags.BoolVar(&watch, "watch", false, "show what happens until the run ends")
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// inputValues reads NAME=VALUE.
func inputValues(texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fault.New(fault.Invalid, "--input %.100q is not of the form NAME=VALUE", text).WithHint("write --input version=1.2; lehr workflow list shows the inputs")
		}
		if _, ok := values[name]; ok {
			return nil, fault.New(fault.Invalid, "input %s is given twice", name).WithHint("give it once")
		}
		values[name] = value
	}
	return values, nil
}

// startedRun tells of a run that was started, and follows it if that is wanted.
func (s *session) startedRun(ctx context.Context, c *client.Client, run *apipb.WorkflowRun, note string, watch bool) error {
	switch {
	case s.printsMessages() && watch:
		return s.watchRun(ctx, c, run, 0)
	case s.printsMessages():
		return s.printRunMessage(run)
	}
	name := workflowtext.RunName(run)
	fmt.Fprintf(s.Out, "Started %s%s.\n", plain(name), plain(note))
	if watch {
		return s.watchRun(ctx, c, run, 0)
	}
	fmt.Fprintf(s.Out, "It goes on by itself. To follow it: lehr workflow status %s --watch\n", plain(name))
	return nil
}

func (s *session) retryWorkflowCommand() *cobra.Command {
	var reason string
	var watch bool
	command := &cobra.Command{
		Use: "retry RUN", Short: "Start a new run with the inputs of one that ended", Args: cobra.ExactArgs(1),
		Long: `Start a new run with the inputs of a run that ended. The new run begins from the start, and
follows the definition that lehr.yaml has now, which may differ from that of the earlier run.
RUN is promote#3, or its number alone.`,
		Example: `  lehr workflow retry promote#3 --reason "the disk is replaced"`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				earlier, err := getRun(command.Context(), c, partition, args[0])
				if err != nil {
					return err
				}
				if earlier.Ended == nil {
					return fault.New(fault.Conflict, "run %s goes on, so it cannot be retried", workflowtext.RunName(earlier)).
						WithHint("wait for its end, or cancel it: lehr workflow cancel %s --reason WHY", workflowtext.RunName(earlier))
				}
				response, err := c.Workflows.StartRun(command.Context(), &apipb.StartRunRequest{
					Partition: partition, Workflow: earlier.Workflow, Inputs: earlier.Inputs, Reason: reason,
				})
				if err != nil {
					return err
				}
				note := ", a new run with the inputs of " + workflowtext.RunName(earlier)
				if response.Run.Digest != earlier.Digest {
					note += ". Its definition is newer than that of " + workflowtext.RunName(earlier)
				}
				return s.startedRun(command.Context(), c, response.Run, note, watch)
			})
		},
	}
	command.Flags().BoolVar(&watch, "watch", false, "show what happens until the run ends")
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// runNumber reads RUN: promote#3, or 3. The name may be empty.
func runNumber(text string) (name string, number uint64, err error) {
	digits := text
	if before, after, ok := strings.Cut(text, "#"); ok {
		name, digits = before, after
	}
	number, err = strconv.ParseUint(digits, 10, 64)
	if err != nil || number == 0 {
		return name, 0, fault.New(fault.Invalid, "%.100q is not the name of a run", text).WithHint("write it as promote#3, or as 3; lehr workflow status lists the runs that go on")
	}
	return name, number, nil
}

// getRun by its name. A number that is of another workflow than was named is refused.
func getRun(ctx context.Context, c *client.Client, partition, text string) (*apipb.WorkflowRun, error) {
	name, number, err := runNumber(text)
	if err != nil {
		return nil, err
	}
	response, err := c.Workflows.GetRun(ctx, &apipb.GetRunRequest{Partition: partition, Number: number})
	if err != nil {
		return nil, err
	}
	if name != "" && response.Run.Workflow != name {
		return nil, fault.New(fault.Invalid, "run %d is a run of workflow %s, not of %s", number, response.Run.Workflow, name).WithHint("write %s, if that one is meant", workflowtext.RunName(response.Run))
	}
	return response.Run, nil
}

// onRun connects, finds the run, acts, and tells what became of it.
func (s *session) onRun(ctx context.Context, text string, act func(c *client.Client, run *apipb.WorkflowRun) (changed *apipb.WorkflowRun, words string, err error)) error {
	if _, _, err := runNumber(text); err != nil {
		return err
	}
	return s.onPartition(ctx, func(c *client.Client, partition string) error {
		run, err := getRun(ctx, c, partition, text)
		if err != nil {
			return err
		}
		changed, words, err := act(c, run)
		if err != nil {
			return err
		}
		if s.printsMessages() {
			return s.printRunMessage(changed)
		}
		fmt.Fprintf(s.Out, "%s\n", plain(words))
		if changed.Ended != nil {
			fmt.Fprintf(s.Out, "%s\n", plain(workflowtext.Ending(changed)))
		} else if waits := workflowtext.WaitsFor(changed); waits != "" {
			fmt.Fprintf(s.Out, "The run waits for: %s\n", plain(waits))
		}
		return nil
	})
}

func (s *session) signalWorkflowCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "signal RUN SIGNAL", Short: "Give a run a signal that its definition declares", Args: cobra.ExactArgs(2),
		Example: "  lehr workflow signal promote#3 go_on",
		RunE: func(command *cobra.Command, args []string) error {
			return s.onRun(command.Context(), args[0], func(c *client.Client, run *apipb.WorkflowRun) (*apipb.WorkflowRun, string, error) {
				response, err := c.Workflows.SignalRun(command.Context(), &apipb.SignalRunRequest{Partition: run.Partition, Number: run.Number, Signal: args[1], Reason: reason})
				return response.GetRun(), "Run " + workflowtext.RunName(run) + " has signal " + args[1] + ".", err
			})
		},
	}
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

func (s *session) cancelWorkflowCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "cancel RUN", Short: "Cancel a run, so that only its retreat goes on", Args: cobra.ExactArgs(1),
		Long: `Cancel a run. Afterwards it only follows transitions whose guard reads cancelled, or that lead out
of a state with retreat: true. It ends when that retreat is over, or at once if there is none.`,
		Example: `  lehr workflow cancel promote#3 --reason "the wrong version"`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onRun(command.Context(), args[0], func(c *client.Client, run *apipb.WorkflowRun) (*apipb.WorkflowRun, string, error) {
				response, err := c.Workflows.CancelRun(command.Context(), &apipb.CancelRunRequest{Partition: run.Partition, Number: run.Number, Reason: reason})
				return response.GetRun(), "Run " + workflowtext.RunName(run) + " is cancelled.", err
			})
		},
	}
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

func (s *session) voteWorkflowCommand(approve bool) *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "approve RUN [MACHINE]", Short: "Approve what a run asks", Args: cobra.RangeArgs(1, 2),
		Long: `Approve what a run asks. It takes one of the roles that the question names. MACHINE is the machine
that asks, where several do.`,
		Example: "  lehr workflow approve promote#3",
	}
	if !approve {
		command.Use, command.Short, command.Example = "reject RUN [MACHINE]", "Refuse what a run asks", `  lehr workflow reject promote#3 --reason "not today"`
		command.Long = `Refuse what a run asks. One refusal is enough. It takes one of the roles that the question names.
MACHINE is the machine that asks, where several do.`
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := reasoned(command, reason); err != nil && !approve {
			return err
		}
		return s.onRun(command.Context(), args[0], func(c *client.Client, run *apipb.WorkflowRun) (*apipb.WorkflowRun, string, error) {
			request := &apipb.VoteOnRunRequest{Partition: run.Partition, Number: run.Number, Approve: approve, Reason: reason}
			if len(args) > 1 {
				request.Machine = args[1]
			}
			response, err := c.Workflows.VoteOnRun(command.Context(), request)
			return response.GetRun(), voteWords(run, response), err
		})
	}
	reasonFlag(command, &reason)
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

func voteWords(run *apipb.WorkflowRun, response *apipb.VoteOnRunResponse) string {
	machine, _, _ := strings.Cut(response.GetKey(), "/")
	question := "The question of machine " + machine + " in run " + workflowtext.RunName(run)
	switch response.GetOutcome() {
	case "":
		return fmt.Sprintf("%s has %d of %d approvals.", question, response.GetApprovals(), response.GetQuorum())
	case string(workflow.OutcomeRefused):
		return question + " is refused."
	}
	return question + " is approved."
}
