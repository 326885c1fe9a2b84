package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) notifyCommand() *cobra.Command {
	var since string
	var rehearse bool
	command := &cobra.Command{
		Use:   "notify --dry-run",
		Short: "Show which notifications would have been sent",
		Long: `Apply the notifications of head's definition to the reports that were kept since a
time, and show what would have been sent. Nothing is sent. lehr get notifications
shows the present notifications, and whether they were delivered.`,
		Example: `  lehr notify --dry-run
  lehr notify --dry-run --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !rehearse {
				return fault.New(fault.Invalid, "notifications are sent by the server, not by a command").WithHint("lehr notify --dry-run shows what it would have sent")
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				sinceTime, err := s.moment(since)
				if err != nil {
					return err
				}
				response, err := c.Reports.ListRehearsal(command.Context(), &apipb.ListRehearsalRequest{Partition: partition, Since: sinceTime})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printRehearsal(response)
				return nil
			})
		},
	}
	command.Flags().BoolVar(&rehearse, "dry-run", false, "send nothing, show what would have been sent")
	command.Flags().StringVar(&since, "since", "24h", "from then on: a time, or how long ago as 90m, 2h or 3d")
	return command
}

func (s *session) printRehearsal(r *apipb.ListRehearsalResponse) {
	var rows [][]string
	for _, m := range r.Messages {
		rows = append(rows, []string{at(m.At), m.Name, m.Status, m.Title})
	}
	table(s.Out, []string{"AT", "NOTIFICATION", "STATUS", "TEXT"}, rows)
	for _, problem := range r.Problems {
		fmt.Fprintf(s.Out, "\nno answer: %s\n", plain(problem))
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintf(s.Out, "\nnot in the list: %s\n", plain(strings.Join(r.Unknown, "; ")))
	}
}

func listNotifications(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"WHAT", "NAME", "STATE", "SINCE", "TEXT"}}
	response, err := c.Reports.ListNotifications(ctx, &apipb.ListNotificationsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, n := range response.Open {
		status := "not told yet"
		if n.Told != nil {
			status = fmt.Sprintf("told %s, last %s", count(int(n.Times), "time"), s.ago(n.Told))
		}
		result.add(n, "cause", n.Name, status, s.ago(n.Since), count(int(n.Assets), "asset")+": "+n.Cause)
	}
	for _, t := range response.Targets {
		state, since := "well", s.ago(t.Last)
		if t.Problem != "" {
			state, since = "failing", s.ago(t.FailingSince)
		}
		text := fmt.Sprintf("%d sent, %d wait, %d dropped", t.Sent, t.Waiting, t.Dropped)
		if t.Problem != "" {
			text += ": " + t.Problem
		}
		result.add(t, "target", t.Name, state, since, text)
	}
	return result, nil
}
