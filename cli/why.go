package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/client"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
)

func (s *session) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why ASSET",
		Short: "Say why an asset is as it is, down to the root cause",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Reports.Why(command.Context(), &apipb.WhyRequest{Partition: partition, Asset: args[0]})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printWhy(response)
				return nil
			})
		},
	}
}

// printWhy prints the root cause first, then the chain that leads to it.
func (s *session) printWhy(w *apipb.WhyResponse) {
	fmt.Fprintln(s.Out, plain(w.Summary))
	if w.Hint != "" {
		fmt.Fprintf(s.Out, "  → %s\n", plain(w.Hint))
	}
	fmt.Fprintln(s.Out)
	state := w.State
	if state == "" {
		state = "not looked at"
	}
	fmt.Fprintf(s.Out, "%s is %s", plain(w.Asset), plain(state))
	if w.Report != nil && w.Report.Target != "" {
		fmt.Fprintf(s.Out, ", its target is %s", plain(w.Report.Target))
	}
	fmt.Fprintln(s.Out)
	s.printReasons(w.Reasons, w.Asset, "  ")
	if w.Report != nil && w.Report.Plan != nil {
		fmt.Fprintln(s.Out)
		s.printPlan(w.Report, "")
	}
}

// printReasons prints a level of the chain; what is said of another asset
// than the one above names it.
func (s *session) printReasons(reasons []*apipb.Reason, about, indent string) {
	for _, r := range reasons {
		subject := r.Kind
		if r.Asset != about && r.Asset != "" {
			subject = r.Asset + ", " + r.Kind
		}
		fmt.Fprintf(s.Out, "%s%s: %s", indent, plain(subject), plain(r.Text))
		if r.Until != nil {
			fmt.Fprintf(s.Out, " (ends %s)", s.left(r.Until))
		}
		fmt.Fprintln(s.Out)
		s.printFindings(r.Findings, indent+"  ")
		s.printReasons(r.Causes, r.Asset, indent+"  ")
	}
}

func (s *session) waitCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "wait [ASSET…]",
		Short: "Wait until assets are in sync with head; without names, all of them",
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				return s.wait(command.Context(), c, partition, args, timeout)
			})
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long at most; then exit code 3")
	return command
}

const waitPeriod = 300 * time.Millisecond

func (s *session) wait(ctx context.Context, c *client.Client, partition string, names []string, timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		converged, behind, err := progress(ctx, c, partition, names)
		if err != nil {
			return err
		}
		if converged > 0 && len(behind) == 0 {
			if s.json() {
				return printJSON(s.Out, map[string]any{"converged": true, "assets": converged})
			}
			fmt.Fprintf(s.Out, "In sync: %s.\n", count(converged, "asset"))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return s.gaveUp(ctx, c, partition, behind, timeout)
		case <-time.After(waitPeriod):
		}
	}
}

// gaveUp names what is not in sync, and why the first of it is not.
func (s *session) gaveUp(ctx context.Context, c *client.Client, partition string, behind []string, timeout time.Duration) error {
	if s.json() {
		if err := printJSON(s.Out, map[string]any{"converged": false, "behind": behind}); err != nil {
			return err
		}
		return exit{exitTimedOut}
	}
	fmt.Fprintf(s.Out, "Not in sync after %s: %s.\n", timeout, count(len(behind), "asset"))
	const shown = 5
	for _, asset := range behind[:min(shown, len(behind))] {
		why, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: partition, Asset: asset})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "  %s\n", plain(why.Summary))
	}
	return exit{exitTimedOut}
}

// progress counts the assets that are settled, and names those that are not.
func progress(ctx context.Context, c *client.Client, partition string, names []string) (converged int, behind []string, err error) {
	note := func(a *apipb.Asset) {
		settled := a.State == "in-sync" || a.State == "model" || a.State == "off"
		if settled && a.Current {
			converged++
		} else {
			behind = append(behind, a.Id)
		}
	}
	for _, name := range names {
		a, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: partition, Asset: name})
		if fault.Is(err, fault.NotFound) {
			behind = append(behind, name)
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		note(a.Asset)
	}
	if len(names) > 0 {
		return converged, behind, nil
	}
	request := &apipb.ListAssetsRequest{Partition: partition, Limit: 1000}
	for {
		response, err := c.Assets.ListAssets(ctx, request)
		if fault.Is(err, fault.NotFound) {
			return 0, nil, nil // No incarnation yet.
		}
		if err != nil {
			return 0, nil, err
		}
		for _, a := range response.Assets {
			note(a)
		}
		if request.After, request.Incarnation = response.Next, response.Incarnation; response.Next == "" {
			return converged, behind, nil
		}
	}
}

func (s *session) approveCommand() *cobra.Command {
	var reason, plan, candidate string
	var duration time.Duration
	command := &cobra.Command{
		Use:   "approve [ASSET]",
		Short: "Approve an asset's plan once, or let a held candidate through",
		Long: `Approve the push that an asset's last report shows: that content, that plan,
once. Or, with --candidate, let a candidate through that a guard holds.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if (name == "") == (candidate == "") {
				return fault.New(fault.Invalid, "approve either an ASSET or a --candidate").WithHint("lehr get candidates; lehr get reports --state waiting")
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if candidate != "" {
					return s.acknowledge(command.Context(), c, partition, candidate, reason)
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
				fmt.Fprintf(s.Out, "Approved once, ending %s: plan %s of %s\n", s.left(response.Approval.Until), brief(response.Approval.Plan), plain(name))
				s.printPlan(&apipb.Report{Plan: response.Plan}, "  ")
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&reason, "reason", "", "why, for the record")
	flags.StringVar(&plan, "plan", "", "refuse unless this is the plan's digest (8 digits or more)")
	flags.StringVar(&candidate, "candidate", "", "let this held candidate through")
	flags.DurationVar(&duration, "for", 0, "how long the approval holds (default 1h)")
	return command
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
