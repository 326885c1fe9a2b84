package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func (s *session) rolloutVoteCommand(approve bool) *cobra.Command {
	var reason string
	var run uint64
	verb, short, example := "approve", "Approve that a run goes on to a stage", `  lehr rollout approve frontends --reason "the canary looks good"
  lehr rollout approve frontends europe --run 3 --reason "tried it"`
	if !approve {
		verb, short, example = "reject", "Reject that a run goes on to a stage", `  lehr rollout reject frontends europe --reason "orders are slow"`
	}
	command := &cobra.Command{
		Use: verb + " NAME [STAGE]", Short: short, Example: example, Args: cobra.RangeArgs(1, 2),
		Long: `Say whether the newest run may go on to a stage that asks people, by approval: in lehr.yaml.
Without STAGE: the one that asks now. You need one of the roles that the stage names. Each
person's last vote counts, and only in this run. While one person rejects it, it does not begin.`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				request := &apipb.VoteOnStageRequest{Partition: partition, Rollout: args[0], Run: run, Approve: approve, Reason: reason}
				if len(args) > 1 {
					request.Stage = args[1]
				}
				response, err := c.Rollouts.VoteOnStage(command.Context(), request)
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response.Order)
				}
				done := map[bool]string{true: "approved", false: "rejected"}[approve]
				fmt.Fprintf(s.Out, "You %s stage %s of rollout %s, run %d. It counts within a second: lehr rollout status %s\n",
					done, plain(response.Order.Stage), plain(args[0]), response.Order.Run, plain(args[0]))
				if needs := approvalNeeds(response); approve && needs > 1 {
					fmt.Fprintf(s.Out, "The stage needs %d people; each of them counts once.\n", needs)
				}
				return nil
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it")
	command.Flags().Uint64Var(&run, "run", 0, "refuse if this is not the newest run (default: the newest)")
	return command
}

// approvalNeeds is how many people must approve the stage of a vote.
func approvalNeeds(response *apipb.VoteOnStageResponse) int32 {
	for _, stage := range response.Rollout.GetRun().GetStages() {
		if stage.Name == response.Order.Stage {
			return stage.Approval.GetNeeds()
		}
	}
	return 0
}

// approval prints what people say of a stage that asks them.
func (b board) approval(stage *apipb.RolloutStage, width int) {
	a := stage.Approval
	if a == nil {
		return
	}
	if a.State != "rejected" {
		b.line("  %-*s  approval by people: %d of %d (%s)", width, "", a.Approved, a.Needs, a.State)
	}
	for _, v := range a.Votes {
		done := map[bool]string{true: "approved", false: "rejected"}[v.Approve]
		b.line("  %-*s  %s by %s %s: %s", width, "", done, plain(v.By.GetName()), b.ago(v.At), plain(v.Reason))
	}
}
