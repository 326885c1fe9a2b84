package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) timelineCommand() *cobra.Command {
	var incarnation, beforeFlag, afterAsset string
	var limit int32
	command := &cobra.Command{
		Use:   "timeline ASSET | timeline --incarnation ID",
		Short: "Show the history of an asset, or when each asset got an incarnation",
		Long: `Show the history of an asset in one list, the newest last: commits, candidates that
were not served, incarnations that changed it, what it waited for and how long, who
approved, pushes, and when it was in sync. With --incarnation, show which of the
assets that the incarnation changed got it, when, and what keeps the others from it.`,
		Example: `  lehr timeline web/a
  lehr timeline web/a --before 2d
  lehr timeline --incarnation 12`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (incarnation != "") || len(args) > 1 {
				return fault.New(fault.Invalid, "a timeline is of one asset, or of one incarnation").WithHint("lehr timeline ASSET, or lehr timeline --incarnation ID")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				if incarnation != "" {
					request := &apipb.GetSpreadRequest{Partition: partition, Incarnation: incarnationID(partition, incarnation), After: afterAsset, Limit: limit}
					return s.showSpread(command, c, request)
				}
				beforeTime, err := s.moment(beforeFlag)
				if err != nil {
					return err
				}
				response, err := c.Reports.GetTimeline(command.Context(), &apipb.GetTimelineRequest{Partition: partition, Asset: args[0], Before: beforeTime, Limit: limit})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				s.printTimeline(args[0], response)
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&incarnation, "incarnation", "", "show which assets got this incarnation")
	flags.StringVar(&beforeFlag, "before", "", "only what began before this: a time, or how long ago as 90m, 2h or 3d")
	flags.StringVar(&afterAsset, "after", "", "with --incarnation: list the assets after this one")
	flags.Int32Var(&limit, "limit", 100, "at most this many rows")
	return command
}

func (s *session) printTimeline(asset string, t *apipb.GetTimelineResponse) {
	var rows [][]string
	for _, e := range t.Events {
		lasted := ""
		if e.Until != nil {
			lasted = short(e.Until.AsTime().Sub(e.At.AsTime()))
		}
		text := e.Text
		if e.Push != "" {
			text = strings.TrimSuffix("push "+e.Push+", "+text, ", ")
		}
		rows = append(rows, []string{at(e.At), e.Kind, lasted, e.Incarnation, e.By, text})
	}
	table(s.Out, []string{"AT", "WHAT", "LASTED", "INCARNATION", "BY", "TEXT"}, rows)
	if t.Older != nil {
		fmt.Fprintf(s.Out, "\nthere is more: lehr timeline %s --before %s\n", plain(asset), t.Older.AsTime().UTC().Format(time.RFC3339Nano))
	}
	if len(t.Unknown) > 0 {
		fmt.Fprintf(s.Out, "\nnot in the list: %s\n", plain(strings.Join(t.Unknown, "; ")))
	}
}

// at is a moment to the second.
func at(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

func (s *session) showSpread(command *cobra.Command, c *client.Client, request *apipb.GetSpreadRequest) error {
	response, err := c.Reports.GetSpread(command.Context(), request)
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response)
	}
	got := fmt.Sprintf("%d of %d", response.Arrived, response.Assets)
	if response.Cut {
		got += ", of the first ones: there are more than are counted"
	}
	removed := ""
	if response.Removed > 0 {
		removed = fmt.Sprint(response.Removed)
	}
	sincePublished := func(t *timestamppb.Timestamp) string {
		if t == nil || response.Published == nil {
			return ""
		}
		return fmt.Sprintf("%s, %s after", at(t), short(t.AsTime().Sub(response.Published.AsTime())))
	}
	fields(s.Out, "incarnation", response.Incarnation, "published", at(response.Published), "arrived", got,
		"first", sincePublished(response.First), "last", sincePublished(response.Last), "removed", removed)
	var rows [][]string
	for _, a := range response.Page {
		note := a.Reason
		if a.Instead != "" {
			note = "with " + a.Instead
		}
		rows = append(rows, []string{a.Asset, at(a.At), a.Push, a.State, note})
	}
	fmt.Fprintln(s.Out)
	table(s.Out, []string{"ASSET", "AT", "PUSH", "STATE", "TEXT"}, rows)
	if response.Next != "" {
		fmt.Fprintf(s.Out, "\nthere is more: lehr timeline --incarnation %s --after %s\n", plain(request.Incarnation), plain(response.Next))
	}
	return nil
}
