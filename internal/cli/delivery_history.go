package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func (s *session) deliveryHistoryCommand() *cobra.Command {
	var application string
	var limit int32
	command := &cobra.Command{
		Use: "history [ENVIRONMENT]", Short: "List what happened to versions, the newest first", Args: cobra.MaximumNArgs(1),
		Long: `List which versions were promoted, rolled back, found bad or did not converge, and which
began to wait for people. Notifications with of: delivery report the same.`,
		Example: `  lehr delivery history production
  lehr delivery history --limit 10 -o json`,
		RunE: func(command *cobra.Command, args []string) error {
			request := &apipb.ListDeliveryEventsRequest{Application: application, Limit: limit}
			if len(args) > 0 {
				request.Environment = args[0]
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				request.Partition = partition
				response, err := c.Deliveries.ListDeliveryEvents(command.Context(), request)
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				var rows [][]string
				for _, e := range response.Events {
					rows = append(rows, []string{at(e.At), e.Event, e.Application, cmp.Or(e.Environment, "-"), versionText(e.Version), e.Text})
				}
				table(s.Out, []string{"AT", "EVENT", "APPLICATION", "ENVIRONMENT", "VERSION", "TEXT"}, rows)
				return nil
			})
		},
	}
	command.Flags().StringVar(&application, "application", "", "only of this application")
	command.Flags().Int32Var(&limit, "limit", 100, "how many, at most 1000")
	return command
}

func (s *session) deliveryFiguresCommand() *cobra.Command {
	var application, since string
	command := &cobra.Command{
		Use: "figures", Short: "Show how often, how fast and how well versions are delivered", Args: cobra.NoArgs,
		Long: `Show the figures of each environment, over a period that ends now: how many promotions there
were, how many a day and how many failed; the median time from when a version was made until
the environment was good with it (LEAD TIME); the median time from the first sign of a failure
until the environment was good again (RESTORE); and how long versions waited for each
constraint.`,
		Example: `  lehr delivery figures
  lehr delivery figures --since 7d -o json`,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				moment, err := s.moment(since)
				if err != nil {
					return err
				}
				response, err := c.Deliveries.GetDeliveryFigures(command.Context(), &apipb.GetDeliveryFiguresRequest{Partition: partition, Application: application, Since: moment})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printFigures(response)
				return nil
			})
		},
	}
	command.Flags().StringVar(&application, "application", "", "only of this application")
	command.Flags().StringVar(&since, "since", "30d", "from then on: a time, or how long ago as 90m, 2h or 3d")
	return command
}

func (s *session) printFigures(r *apipb.GetDeliveryFiguresResponse) {
	days := r.Until.AsTime().Sub(r.Since.AsTime()).Hours() / 24
	var rows [][]string
	for _, f := range r.Figures {
		failed := "-"
		if f.Promotions > 0 {
			failed = fmt.Sprintf("%d (%d%%)", f.Failed, 100*f.Failed/f.Promotions)
		}
		var queues []string
		for _, q := range f.Queues {
			queues = append(queues, q.Constraint+" "+timesText(q.Times))
		}
		rows = append(rows, []string{
			f.Application, f.Environment, fmt.Sprint(f.Promotions), fmt.Sprintf("%.2f", float64(f.Promotions)/days), failed,
			timesText(f.Lead), timesText(f.Restore), cmp.Or(strings.Join(queues, ", "), "-"),
		})
	}
	table(s.Out, []string{"APPLICATION", "ENVIRONMENT", "PROMOTIONS", "A DAY", "FAILED", "LEAD TIME", "RESTORE", "WAITED FOR"}, rows)
	fmt.Fprintf(s.Out, "\nFrom %s to %s; times are medians.\n", at(r.Since), at(r.Until))
}

// timesText is the median of times, to the second or the minute.
func timesText(t *apipb.DeliveryTimes) string {
	if t.GetCount() == 0 {
		return "-"
	}
	median := t.Median.AsDuration()
	if median < time.Hour {
		return median.Round(time.Second).String()
	}
	return strings.TrimSuffix(median.Round(time.Minute).String(), "0s")
}
