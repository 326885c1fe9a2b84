package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) rejectCommand() *cobra.Command {
	var reason, plan, person string
	var withdraw bool
	var duration time.Duration
	command := &cobra.Command{
		Use:   "reject ASSET",
		Short: "Reject an asset's plan, even if others approve it, or withdraw that",
		Long: `Reject the push that an asset's last report shows, with that content and that plan.
It is not pushed, even if others approve it, until the plan or the content changes,
or until the rejection is withdrawn by the person who gave it or by an operator.`,
		Example: `  lehr reject web/a --plan e2e6afd7 --reason "the table is not empty"
  lehr reject web/a --withdraw                    # mine
  lehr reject web/a --withdraw --of bob --reason "bob is away, and it is empty now"`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch flags := command.Flags(); {
			case !withdraw && person != "":
				return fault.New(fault.Invalid, "--of says whose rejection to take back").WithHint("add --withdraw")
			case withdraw && (flags.Changed("plan") || flags.Changed("for")):
				return fault.New(fault.Invalid, "--withdraw takes all of a person's rejections of the asset back").WithHint("leave --plan and --for out")
			}
			if !withdraw || person != "" {
				if err := reasoned(command, reason); err != nil {
					return err
				}
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if withdraw {
					return s.withdraw(command.Context(), c, partition, args[0], person, reason)
				}
				plan, err := readPlan(command.Context(), c, partition, args[0], plan)
				if err != nil {
					return err
				}
				response, err := c.Approvals.RejectAsset(command.Context(), &apipb.RejectAssetRequest{
					Partition: partition, Asset: args[0], Plan: plan, Reason: reason, Period: period(duration),
				})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				fmt.Fprintf(s.Out, "Rejected%s: plan %s of %s. To take that back: lehr reject %s --withdraw\n",
					untilText(duration), brief(response.Rejection.Plan), plain(args[0]), plain(args[0]))
				s.printPlan(&apipb.Report{Plan: response.Plan}, "  ")
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&reason, "reason", "", "why, for whoever finds it rejected")
	flags.StringVar(&plan, "plan", "", "refuse unless this is the plan's digest (8 digits or more)")
	flags.DurationVar(&duration, "for", 0, "end the rejection after this (default: never)")
	flags.BoolVar(&withdraw, "withdraw", false, "withdraw rejections of the asset")
	flags.StringVar(&person, "of", "", "with --withdraw: withdraw those of this person instead of yours")
	return command
}

func (s *session) withdraw(ctx context.Context, c *client.Client, partition, asset, person, reason string) (err error) {
	ownerText := "your"
	if person == "" {
		_, err = c.Approvals.WithdrawRejection(ctx, &apipb.WithdrawRejectionRequest{Partition: partition, Asset: asset, Reason: reason})
	} else {
		ownerText = plain(person) + "'s"
		_, err = c.Approvals.OverruleRejection(ctx, &apipb.OverruleRejectionRequest{Partition: partition, Asset: asset, Of: person, Reason: reason})
	}
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, &apipb.WithdrawRejectionResponse{})
	}
	fmt.Fprintf(s.Out, "%s is no longer blocked by %s rejection.\n", plain(asset), ownerText)
	return nil
}

func (s *session) overrideCommand() *cobra.Command {
	var reason, check, content string
	var duration time.Duration
	command := &cobra.Command{
		Use:   "override ASSET",
		Short: "Let one dependency check pass for an asset's content, for a limited time",
		Long: `Let one check pass for the content of an asset's last report, until the override
ends. The check is order, capacity or version, where the partition's lehr.yaml allows
overrides. All other checks still apply. A stop, a hold, a missing approval, a budget
or another push under way can never be overridden.`,
		Example: `  lehr override web/a --check order --reason "db is in sync, its plugin cannot see it" --for 30m
  lehr get overrides`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if check == "" {
				return fault.New(fault.Invalid, "which check?").WithHint("add --check order, capacity or version; lehr why %s names what is in the way", args[0])
			}
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if content == "" {
					response, err := c.Reports.GetReport(command.Context(), &apipb.GetReportRequest{Partition: partition, Asset: args[0]})
					if err != nil {
						return err
					}
					content = response.Report.Effective
				}
				response, err := c.Approvals.OverrideCheck(command.Context(), &apipb.OverrideCheckRequest{
					Partition: partition, Asset: args[0], Check: check, Reason: reason, Period: period(duration), Content: content,
				})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response.Override)
				}
				o := response.Override
				fmt.Fprintf(s.Out, "Overridden, ending %s: check %s of %s as it is now (content %s)\n", s.remaining(o.Until), plain(o.Check), plain(o.Asset), brief(o.Effective))
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&content, "content", "", "digest of the content that you looked at, from lehr describe report (8 digits or more); refused if it has changed since (default: that of the last report)")
	flags.StringVar(&check, "check", "", "the check: order, capacity or version")
	flags.StringVar(&reason, "reason", "", "why, for whoever asks later")
	flags.DurationVar(&duration, "for", 0, "end the override after this (default 1h)")
	return command
}
