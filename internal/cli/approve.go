package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) approveCommand() *cobra.Command {
	var reason, plan, candidate string
	var duration time.Duration
	command := &cobra.Command{
		Use:   "approve [ASSET]",
		Short: "Approve an asset's plan once, or let a held candidate through",
		Long: `Approve the push that an asset's last report shows. The approval covers that
content and that plan, and is used once. Where lehr.yaml asks for several people,
the push waits until that many have approved; whoever made the change does not
count. With --candidate, let a candidate through that a guard holds.`,
		Example: `  lehr describe report web/a         # read the plan first
  lehr approve web/a --plan e2e6afd7 --reason "the table is empty"
  lehr approve --candidate 3b17c201 --reason "the service is retired"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if (name == "") == (candidate == "") {
				return fault.New(fault.Invalid, "approve either an ASSET or a --candidate").WithHint("lehr get reports --state waiting lists assets, lehr get candidates what guards hold")
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if candidate != "" {
					if err := reasoned(command, reason); err != nil {
						return err
					}
					return s.acknowledge(command.Context(), c, partition, candidate, reason)
				}
				plan, err := readPlan(command.Context(), c, partition, name, plan)
				if err != nil {
					return err
				}
				if err := reasoned(command, reason); err != nil {
					return err
				}
				response, err := c.Approvals.ApproveAsset(command.Context(), &apipb.ApproveAssetRequest{
					Partition: partition, Asset: name, Plan: plan, Reason: reason, Period: period(duration),
				})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				fmt.Fprintf(s.Out, "Approved once, ending %s: plan %s of %s\n", s.remaining(response.Approval.Until), brief(response.Approval.Plan), plain(name))
				if response.Again {
					fmt.Fprintln(s.Out, "You had approved this plan: it counts once, and holds until the end above.")
				}
				if approved, need := len(response.Consent.GetApproved()), int(response.Consent.GetNeed()); approved < need {
					fmt.Fprintf(s.Out, "%d of %d approved: %s\n", approved, need, consenting(response.Consent))
				}
				for _, rejection := range response.Rejections {
					fmt.Fprintf(s.Out, "But it is not pushed: %s rejected this plan: %s\n", plain(rejection.By.GetName()), plain(rejection.Reason))
				}
				s.printPlan(&apipb.Report{Plan: response.Plan}, "  ")
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&reason, "reason", "", "why, for the audit")
	flags.StringVar(&plan, "plan", "", "digest of the plan and content that you read, from lehr describe report (8 digits or more); the approval is refused if either has changed since (default: those of the last report, which are printed)")
	flags.StringVar(&candidate, "candidate", "", "let this held candidate through")
	flags.DurationVar(&duration, "for", 0, "how long the approval is valid (default 1h)")
	return command
}

// consenting says whose approvals count, and whose do not.
func consenting(c *apipb.Consent) string {
	text := plain(strings.Join(c.Approved, ", "))
	if text == "" {
		text = "nobody whose approval counts"
	}
	if len(c.Authors) > 0 {
		text += fmt.Sprintf("; not asked, for they made the change: %s", plain(strings.Join(c.Authors, ", ")))
	}
	return text
}

// readPlan is the plan that is named, else the one that the last report shows, which is
// then printed: what is said is said of that very plan and content.
func readPlan(ctx context.Context, c *client.Client, partition, asset, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	response, err := c.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: partition, Asset: asset})
	if err != nil {
		return "", err
	}
	if response.Report.PlanDigest == "" {
		return "", fault.New(fault.Conflict, "%s is %s, and no plan to change it is known", asset, response.Report.State).WithHint("lehr why %s says how it is", asset)
	}
	return response.Report.PlanDigest, nil
}

func (s *session) acknowledge(ctx context.Context, c *client.Client, partition, candidate, reason string) error {
	response, err := c.Candidates.AcknowledgeCandidate(ctx, &apipb.AcknowledgeCandidateRequest{
		Partition: partition, Digest: candidateDigest(candidate), Reason: reason,
	})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response.Candidate)
	}
	fmt.Fprintf(s.Out, "Candidate %s may be served now, exactly as it is.\n", plain(response.Candidate.Id))
	return nil
}
