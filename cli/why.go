package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/client"
	apipb "lehr.dev/gen/lehr/api/v1"
)

func (s *session) whyCommand() *cobra.Command {
	var past string
	command := &cobra.Command{
		Use:   "why ASSET",
		Short: "Say why an asset is as it is, down to the root cause",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				then, err := s.moment(past)
				if err != nil {
					return err
				}
				response, err := c.Reports.Why(command.Context(), &apipb.WhyRequest{Partition: partition, Asset: args[0], At: then})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				if then != nil {
					fmt.Fprintf(s.Out, "As of %s (%s), by what was kept:\n\n", at(then), s.ago(then))
				}
				s.printWhy(response)
				if len(response.Unknown) > 0 {
					fmt.Fprintf(s.Out, "\nnot known of then: %s\n", plain(strings.Join(response.Unknown, "; ")))
				}
				return nil
			})
		},
	}
	command.Flags().StringVar(&past, "at", "", "as it was then: a time, or how long ago as 90m, 2h or 3d")
	return command
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
