package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// watched is what watch was asked for.
type watched struct {
	filter, afterIncarnation, prefix string
	once                             bool
}

func (s *session) watchCommand() *cobra.Command {
	var w watched
	command := &cobra.Command{
		Use:   "watch assets|reports",
		Short: "Show assets or reports, and then each change",
		Long: `Show all matching assets of head, and then what each new head changes; or show all
reports, and then each new one. The command runs until you interrupt it. With -o json,
each message of the API is one line. With several servers, it continues at another one
when the server that it watches ends.`,
		Example: `  lehr watch assets --filter 'type == "Job"'
  lehr watch assets --after 12
  lehr watch reports -o json`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"assets", "reports"},
		RunE: func(command *cobra.Command, args []string) error {
			watch := map[string]func(context.Context, *client.Client, string, watched) error{"assets": s.watchAssets, "reports": s.watchReports}[args[0]]
			if watch == nil {
				return fault.New(fault.Invalid, "%q cannot be watched", args[0]).WithHint("watch assets or reports")
			}
			for flag, kind := range map[string]string{"filter": "assets", "after": "assets", "prefix": "reports"} {
				if command.Flags().Changed(flag) && kind != args[0] {
					return fault.New(fault.Invalid, "--%s does not choose among %s", flag, args[0]).WithHint("it is for lehr watch %s", kind)
				}
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				return watch(command.Context(), c, partition, w)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&w.filter, "filter", "", "assets for which this CEL expression is true")
	flags.StringVar(&w.afterIncarnation, "after", "", "show only changes after this incarnation, instead of all of head first")
	flags.StringVar(&w.prefix, "prefix", "", "reports of assets whose id begins with this")
	flags.BoolVar(&w.once, "once", false, "end when everything that exists now has been shown")
	return command
}

func (s *session) watchAssets(ctx context.Context, c *client.Client, partition string, w watched) error {
	request := &apipb.WatchAssetsRequest{Partition: partition, Filter: w.filter}
	if w.afterIncarnation != "" {
		request.After = incarnationID(partition, w.afterIncarnation)
	}
	last := request.After
	err := c.WatchAssets(ctx, request, func(m *apipb.WatchAssetsResponse) error {
		if err := s.printLine(m, func() { s.printWatched(m) }); err != nil {
			return err
		}
		if m.Complete {
			last = m.Incarnation
		}
		if m.Complete && w.once {
			return errShown
		}
		return nil
	})
	return watchError(ctx, err, func(failure *fault.Error) *fault.Error {
		if last == "" {
			return failure
		}
		return failure.WithHint("to go on where it was cut off: lehr watch assets --after %s", last)
	})
}

func (s *session) printWatched(m *apipb.WatchAssetsResponse) {
	if m.Reset_ {
		fmt.Fprintf(s.Out, "All of %s:\n", plain(m.Incarnation))
	} else if len(m.Assets)+len(m.Removed) > 0 {
		fmt.Fprintf(s.Out, "In %s:\n", plain(m.Incarnation))
	}
	for _, a := range m.Assets {
		fmt.Fprintf(s.Out, "  + %s (%s)\n", plain(a.Id), plain(lastName(a.Type)))
	}
	for _, id := range m.Removed {
		fmt.Fprintf(s.Out, "  - %s\n", plain(id))
	}
}

func (s *session) watchReports(ctx context.Context, c *client.Client, partition string, w watched) error {
	err := c.WatchReports(ctx, &apipb.WatchReportsRequest{Partition: partition, Prefix: w.prefix}, func(m *apipb.WatchReportsResponse) error {
		if err := s.printLine(m, func() { s.printReports(m) }); err != nil {
			return err
		}
		if m.Complete && w.once {
			return errShown
		}
		return nil
	})
	return watchError(ctx, err, func(failure *fault.Error) *fault.Error { return failure })
}

func (s *session) printReports(m *apipb.WatchReportsResponse) {
	for _, r := range m.Reports {
		waiting := ""
		if len(r.Waiting) > 0 {
			waiting = ": " + r.Waiting[0].Reason
		}
		fmt.Fprintf(s.Out, "%s  %s  %s%s\n", r.At.AsTime().Local().Format("15:04:05"), plain(r.Asset), plain(r.State), plain(waiting))
	}
}

// printLine prints a message on one line of JSON, or for people.
func (s *session) printLine(m proto.Message, forPeople func()) error {
	if !s.json() {
		forPeople()
		return nil
	}
	text, err := messageJSON(m)
	if err != nil {
		return err
	}
	// protojson varies its spaces from build to build.
	var line json.RawMessage
	if line, err = json.Marshal(text); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	_, err = fmt.Fprintln(s.Out, plainJSON(string(line)))
	return err
}

// errShown: all that was asked for has been shown.
var errShown = errors.New("shown")

// watchError says why a watch ended, which it does not do by itself.
func watchError(ctx context.Context, err error, hint func(*fault.Error) *fault.Error) error {
	if ctx.Err() != nil || errors.Is(err, errShown) {
		return nil // Interrupted, as every watch is.
	}
	if cause, ok := err.(*fault.Error); ok && cause.Kind == fault.Unavailable {
		return hint(cause)
	}
	return err
}
