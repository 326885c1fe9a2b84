package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

var serverRequest = &apipb.GetServerRequest{}

// choose is the partition that a command is about: the one named, else the
// only one.
func (s *session) choose(ctx context.Context, c *client.Client) (string, error) {
	if s.partition != "" {
		return s.partition, nil
	}
	response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return "", err
	}
	switch len(response.Partitions) {
	case 0:
		return "", fault.New(fault.NotFound, "no partition is registered").WithHint("register one with: lehr partition add lehr.yaml")
	case 1:
		return response.Partitions[0].Id, nil
	}
	var names []string
	for _, p := range response.Partitions {
		names = append(names, p.Id)
	}
	return "", fault.New(fault.Invalid, "there are several partitions: %s", strings.Join(names, ", ")).WithHint("name one with --partition")
}

// incarnationID completes a bare sequence, or a candidate's "~" and digest.
func incarnationID(partition, name string) string {
	if !strings.Contains(name, "@") {
		return partition + "@" + name
	}
	return name
}

// candidateDigest takes the digest out of a candidate's id.
func candidateDigest(name string) string {
	if _, digest, ok := strings.Cut(name, "@~"); ok {
		return digest
	}
	return strings.TrimPrefix(name, "~")
}

func period(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// reasoned refuses a brake, or its end, without a reason: whoever finds it will
// ask.
func reasoned(command *cobra.Command, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return fault.New(fault.Invalid, "%s needs a reason, for whoever finds it", command.CommandPath()).WithHint(`add --reason "why"`)
	}
	return nil
}

// onPartition connects, chooses the partition, and runs.
func (s *session) onPartition(ctx context.Context, run func(c *client.Client, partition string) error) error {
	c, err := s.connect(ctx)
	return s.run(ctx, c, err, run)
}

// readingPartition does so on the database too.
func (s *session) readingPartition(ctx context.Context, run func(c *client.Client, partition string) error) error {
	c, err := s.connectOrRead(ctx)
	return s.run(ctx, c, err, run)
}

func (s *session) run(ctx context.Context, c *client.Client, err error, run func(c *client.Client, partition string) error) error {
	if err != nil {
		return err
	}
	partition, err := s.choose(ctx, c)
	if err != nil {
		return err
	}
	return run(c, partition)
}

func (s *session) stopCommand() *cobra.Command {
	var reason string
	var all bool
	command := &cobra.Command{
		Use:   "stop [PARTITION]",
		Short: "Stop all pushes of one partition or of all; works without a server",
		Long: `Stop all pushes of one partition or of all partitions, until lehr resume. The
argument, --partition or LEHR_PARTITION names the partition. Where none of them
does, or with --all, all partitions are stopped.

The command needs only the store. With --store FILE or --database URL, or when no
server answers, it writes the stop into the store itself, and running servers see
it there.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			scope, err := s.stoppedScope(args, all)
			if err != nil {
				return err
			}
			response, err := s.setStop(command.Context(), &apipb.SetStopRequest{Partition: scope, Reason: reason})
			if err != nil {
				return err
			}
			if s.json() {
				return printMessage(s.Out, response.Stop)
			}
			fmt.Fprintf(s.Out, "Stopped: %s, by %s: %s\n", scopeOf(response.Stop), plain(response.Stop.Owner.GetName()), plain(response.Stop.Reason))
			if words := intent.Reach(response.Stop.Reach).Words(); words != "" {
				fmt.Fprintln(s.Out, words+". It is tried again each second, and other servers of the store do not know of it yet.")
			}
			fmt.Fprintf(s.Out, "Nothing is pushed until: %s\n", strings.Join(strings.Fields("lehr resume "+plain(response.Stop.Partition)+" --reason WHY"), " "))
			return nil
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it stopped")
	command.Flags().BoolVar(&all, "all", false, "stop all partitions, whatever LEHR_PARTITION names")
	return command
}

func scopeOf(stop *apipb.Stop) string {
	if stop.Partition == "" {
		return "all partitions"
	}
	return "partition " + plain(stop.Partition)
}

func (s *session) resumeCommand() *cobra.Command {
	var reason string
	var all bool
	command := &cobra.Command{
		Use:   "resume [PARTITION]",
		Short: "End a stop; everything is compared with production again first",
		Long: `End a stop. Everything is compared with production again before it is pushed. The
argument, --partition or LEHR_PARTITION names the partition whose stop ends. Where
none of them does, or with --all, the stop of all partitions ends. Other stops
stay.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			scope, err := s.stoppedScope(args, all)
			if err != nil {
				return err
			}
			c, err := s.connectOrOpen(command.Context())
			if err != nil {
				return err
			}
			response, err := c.Brakes.Resume(command.Context(), &apipb.ResumeRequest{Partition: scope, Reason: reason})
			if err != nil {
				return err
			}
			if s.json() {
				return printMessage(s.Out, response)
			}
			fmt.Fprintln(s.Out, "Resumed.")
			for _, stop := range response.Remaining {
				fmt.Fprintf(s.Out, "Still stopped: %s, by %s: %s; %s ends it\n", scopeOf(stop), plain(stop.Owner.GetName()), plain(stop.Reason), plain(stop.Ending))
			}
			return nil
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	command.Flags().BoolVar(&all, "all", false, "end the stop of all partitions, whatever LEHR_PARTITION names")
	return command
}
