package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) rolloutStatusCommand() *cobra.Command {
	var run uint64
	var watch bool
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Show a rollout's stages, verdicts, events and what it waits for",
		Long: `Show the newest run of a rollout, or the one of --run. With --watch, show it again at each
change until it ends; where the output is not a terminal, print a line for each change. The
exit code is then 0 if the run is done, and 2 if it ended otherwise. If the run had already
ended, --watch waits for 3 s in which no newer run begins and nothing is built.`,
		Example: `  lehr rollout status frontends
  lehr rollout status frontends --run 3 -o yaml
  lehr rollout status frontends --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if watch {
				return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
					return s.watchRollout(command.Context(), c, &apipb.WatchRolloutRequest{Partition: partition, Rollout: args[0], Run: run})
				})
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Rollouts.GetRollout(command.Context(), &apipb.GetRolloutRequest{Partition: partition, Rollout: args[0], Run: run})
				if err != nil {
					return err
				}
				return s.printStatus(response.Rollout)
			})
		},
	}
	command.Flags().Uint64Var(&run, "run", 0, "the number of a run (default: the newest)")
	command.Flags().BoolVar(&watch, "watch", false, "show it again at each change, until it ends")
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// printStatus prints a rollout for people or programs.
func (s *session) printStatus(r *apipb.Rollout) error {
	switch s.output {
	case "json":
		return printMessage(s.Out, r)
	case "yaml":
		return printYAML(s, r)
	}
	var b bytes.Buffer
	board := board{session: s, out: &b, drawn: terminal(s.Out)}
	board.rollout(r)
	_, err := s.Out.Write(b.Bytes())
	return err
}

// printYAML prints a message as YAML, in the order of its fields.
func printYAML(s *session, m proto.Message) error {
	text, err := messageJSON(m)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(plainJSON(string(text))), &node); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	var unquote func(*yaml.Node)
	unquote = func(n *yaml.Node) {
		n.Style = 0
		for _, child := range n.Content {
			unquote(child)
		}
	}
	unquote(&node)
	encoder := yaml.NewEncoder(s.Out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&node), encoder.Close()); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	return nil
}

// board prints a run in a terminal.
type board struct {
	*session
	out *bytes.Buffer
	// drawn: more than ASCII can be drawn.
	drawn bool
}

func (b board) line(format string, arguments ...any) { fmt.Fprintf(b.out, format+"\n", arguments...) }

func (b board) rollout(r *apipb.Rollout) {
	run := r.GetRun()
	if run == nil {
		b.line("%s has no run yet. Stages: %s", plain(r.Name), plain(strings.Join(r.Stages, ", ")))
		b.next(r)
	} else {
		b.line("%s, run %d: %s", plain(r.Name), run.Run, plain(b.story(run)))
		b.waits(r)
		b.stages(run)
		b.verdicts(run)
		b.edits(run)
		b.proposals(run)
	}
	if !r.Governs {
		b.line("\nThe policy has it no more. It keeps %s by a pin: lehr rollout release %s --reason WHY", count(int(r.Pins), "asset"), plain(r.Name))
	}
	for i, order := range r.Pending {
		if i == 0 {
			b.line("\nAsked, and done within a second:")
		}
		stage := ""
		if order.Stage != "" {
			stage = " stage " + order.Stage
		}
		b.line("  %s%s, by %s %s: %s", order.Kind, plain(stage), plain(order.By.GetName()), b.ago(order.At), plain(order.Reason))
	}
	b.events(run)
}

// next says how a run begins.
func (b board) next(r *apipb.Rollout) {
	switch {
	case !r.Governs:
	case r.Document != "":
		b.line("It begins with: lehr rollout start %s --to VALUE --reason WHY", plain(r.Name))
	case r.Newer == "held":
		b.line("It begins with: lehr rollout start %s --reason WHY", plain(r.Name))
	default:
		b.line("It begins when head has something new for its assets.")
	}
}

// story of a run in one line.
func (b board) story(run *apipb.RolloutRun) string {
	text := run.State
	if run.Emergency {
		text += ", by the stages for emergencies"
	}
	if run.Promoted {
		text += ", promoted"
	}
	text += ", to " + brings(run)
	if changeText := change(run); changeText != "" {
		text += " (" + shorten(changeText, 100) + ")"
	}
	if run.From != "" {
		text += " from " + run.From
	}
	text += "; began " + b.ago(run.Began)
	if run.By.GetName() != "" {
		text += " by " + actor(run.By)
	}
	if run.Reason != "" {
		text += ": " + run.Reason
	}
	if run.Ended != nil {
		text += "; ended " + b.ago(run.Ended)
	}
	return text
}

// waits says what it waits for, and what a person can do.
func (b board) waits(r *apipb.Rollout) {
	run := r.Run
	if run.Bad != "" {
		b.line("Bad: %s", plain(run.Bad))
	}
	if run.Back != "" {
		b.line("Back to %s%s", plain(run.Back), reverts(run))
	}
	if run.State == string(intent.RolloutPaused) {
		pausedBy := ""
		if e := lastEvent(run, intent.OrderPause); e != nil {
			pausedBy = fmt.Sprintf(" by %s %s: %s", plain(actor(e.By)), b.ago(e.At), plain(e.Text))
		}
		b.line("Paused%s\n  → lehr rollout resume %s --reason WHY lets it go on", pausedBy, plain(r.Name))
		return
	}
	if run.Waits == "" {
		return
	}
	until := ""
	if run.Next != nil && openState(run.State) {
		until = "; until " + b.whenever(run.Next.AsTime()) + " at the earliest"
	}
	b.line("%s%s", plain(sentence(run.Waits)), until)
	if len(run.WaitsFor) > 0 && openState(run.State) {
		b.line("  → lehr why %s", plain(run.WaitsFor[0]))
	}
}

// sentence is what a run waits for, with a verb and a capital.
func sentence(waits string) string {
	switch first, rest, _ := strings.Cut(waits, " "); first {
	case "for":
		return "Waits for " + rest
	case "stage":
		return "Stage " + rest
	}
	return waits
}

func reverts(run *apipb.RolloutRun) string {
	if len(run.Reverts) == 0 {
		return ""
	}
	return ", which undoes more than this run changed of " + plain(listed(run.Reverts, mostWaited))
}

// actor of an event, which may be the rollout.
func actor(a *apipb.Actor) string {
	if strings.HasPrefix(a.GetName(), intent.RolloutPrefix) || strings.HasPrefix(a.GetName(), intent.WorkflowPrefix) {
		return "itself"
	}
	return a.GetName()
}

func lastEvent(run *apipb.RolloutRun, kind intent.OrderKind) *apipb.RolloutEvent {
	for _, event := range slices.Backward(run.Events) {
		if event.Kind == string(kind) {
			return event
		}
	}
	return nil
}
