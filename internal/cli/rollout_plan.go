package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func (s *session) rolloutPlanCommand() *cobra.Command {
	request := &apipb.PlanRolloutRequest{}
	var takes time.Duration
	command := &cobra.Command{
		Use:   "plan NAME",
		Short: "Show how a rollout would go: stages, assets, and the earliest times",
		Long: `Show which assets move together, in which stage, and when at the earliest. The times assume
that each asset is in sync after the time of --takes, and healthy from then on. For a run
under way, the rest of it is shown. Nothing is changed.`,
		Example: `  lehr rollout plan frontends
  lehr rollout plan frontends --emergency
  lehr rollout plan frontends --takes 5m`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				request.Partition, request.Rollout = partition, args[0]
				if command.Flags().Changed("takes") {
					request.Takes = durationpb.New(takes)
				}
				response, err := c.Rollouts.PlanRollout(command.Context(), request)
				switch {
				case err != nil:
					return err
				case s.json():
					return printMessage(s.Out, response)
				case s.output == "yaml":
					return printYAML(s, response)
				}
				s.printRolloutPlan(response)
				return nil
			})
		},
	}
	command.Flags().BoolVar(&request.Emergency, "emergency", false, "use the stages for emergencies")
	command.Flags().DurationVar(&takes, "takes", time.Minute, "how long an asset takes until it is in sync (default: as in earlier runs, or 1m)")
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

func (s *session) printRolloutPlan(p *apipb.PlanRolloutResponse) {
	name := plain(p.Rollout.Name)
	assets := count(int(p.Assets), "asset")
	if run := p.Rollout.Run; p.Rest && len(p.Steps)+len(p.Unwanted) == 0 {
		fmt.Fprintf(s.Out, "%s, run %d to %s, has let all of its %s go on: lehr rollout status %s\n", name, run.Run, plain(brings(run)), assets, name)
		return
	}
	switch run := p.Rollout.Run; {
	case p.All:
		fmt.Fprintf(s.Out, "%s has nothing new to bring. This is how a change of all its %s would go", name, assets)
	case p.Rest:
		fmt.Fprintf(s.Out, "%s, run %d to %s, has %s. What is left of it goes", name, run.Run, plain(brings(run)), assets)
	case p.Rollout.Document != "":
		fmt.Fprintf(s.Out, "%s sets %s of the document %s, when somebody starts it with a value. For all its %s that goes", name, plain(p.Rollout.Pointer), plain(p.Rollout.Document), assets)
	default:
		fmt.Fprintf(s.Out, "%s would bring head to %s. That goes", name, assets)
	}
	if len(p.Rollout.After) > 0 {
		fmt.Fprintf(s.Out, ", when %s went through with it,", plain(strings.Join(p.Rollout.After, " and ")))
	}
	judged := ""
	if len(p.Rollout.Validate) > 0 {
		judged = ", and each stage found good by " + plain(strings.Join(p.Rollout.Validate, " and "))
	}
	fmt.Fprintf(s.Out, " at the earliest so,\nif each is in sync %s after it is let go on, and healthy%s:\n\n", max(p.Takes.AsDuration().Round(time.Second), time.Second), judged)
	var rows [][]string
	never := false
	for _, step := range p.Steps {
		eta := "never, as it is now"
		if step.At != nil {
			delay := step.At.AsTime().Sub(s.now()).Round(time.Second)
			eta = step.At.AsTime().Format("Mon 15:04:05 UTC") + " (in " + short(delay) + ")"
			if delay <= 0 {
				eta = "now"
			}
		}
		if step.Later {
			eta = "later"
		}
		never = never || step.At == nil && !step.Later
		named := listed(step.Assets, mostWaited)
		if rest := int(step.Count) - len(step.Assets); rest > 0 && len(step.Assets) > mostWaited {
			named = listed(step.Assets[:mostWaited], mostWaited) + fmt.Sprintf(" and %d more", int(step.Count)-mostWaited)
		}
		if step.Approvals > 0 {
			named += fmt.Sprintf(": %d must approve the stage first", step.Approvals)
		}
		if step.Waits != "" {
			named += ": waits " + step.Waits
		}
		rows = append(rows, []string{eta, step.Stage, fmt.Sprint(step.Count), named})
	}
	table(s.Out, []string{"AT THE EARLIEST", "STAGE", "ASSETS", "WHICH"}, rows)
	if run := p.Rollout.Run; !p.All && !p.Rest && run.GetWaits() != "" {
		fmt.Fprintf(s.Out, "\nNothing begins by itself: %s\n", plain(run.Waits))
	}
	if len(p.Unwanted) > 0 {
		fmt.Fprintf(s.Out, "\nNo stage wants %s: they never go on. Give the rollout a stage with rest: true in lehr.yaml.\n", plain(listed(p.Unwanted, mostWaited)))
	}
	if never {
		fmt.Fprintln(s.Out, "\nNothing that is known of lets the last of these go on: what they wait for must be mended by somebody.")
	}
}
