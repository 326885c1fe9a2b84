package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

func (s *session) diffCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show the differences between two incarnations; exit code 2 if any",
		Long: `Show the differences between two incarnations of a partition, field by field.
Without TO, compare with head. The exit code is 0 without differences, and 2 with
any.`,
		Example: `  lehr diff shop@12 shop@14
  lehr diff 12 -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.diff(command.Context(), args, limit)
		},
	}
	command.Flags().IntVar(&limit, "limit", 1000, "at most this many assets")
	return command
}

// diff compares two incarnations that need not be of the chosen partition.
func (s *session) diff(ctx context.Context, args []string, limit int) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	partition, _, named := strings.Cut(args[0], "@")
	if !named {
		if partition, err = s.choose(ctx, c); err != nil {
			return err
		}
	}
	request := &apipb.CompareIncarnationsRequest{From: incarnationID(partition, args[0])}
	if len(args) == 2 {
		request.To = incarnationID(partition, args[1])
	} else if request.To, err = headOf(ctx, c, partition); err != nil {
		return err
	}
	var comparisons []*apipb.Comparison
	more, err := pages(limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Incarnations.CompareIncarnations(ctx, request)
		if err != nil {
			return 0, false, err
		}
		comparisons = append(comparisons, response.Comparisons...)
		request.After = response.Next
		return len(response.Comparisons), response.Next != "", nil
	})
	if err != nil {
		return err
	}
	if err := s.printComparisons(comparisons); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(s.Err, "There may be more; --limit raises the number shown.\n")
	}
	if len(comparisons) > 0 {
		return exit{exitDiffers}
	}
	return nil
}

func headOf(ctx context.Context, c *client.Client, partition string) (string, error) {
	response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: partition})
	if err == nil && response.Partition.Head == "" {
		err = fault.New(fault.NotFound, "partition %s has no incarnation yet", partition)
	}
	return response.GetPartition().GetHead(), err
}

func (s *session) printComparisons(comparisons []*apipb.Comparison) error {
	if s.json() {
		messages := make([]proto.Message, len(comparisons))
		for i, comparison := range comparisons {
			messages[i] = comparison
		}
		return printMessages(s.Out, messages)
	}
	if len(comparisons) == 0 {
		fmt.Fprintln(s.Out, "Nothing differs.")
	}
	for _, comparison := range comparisons {
		change := comparison.Change
		fmt.Fprintf(s.Out, "%s %s (%s)\n", signs[change.What], plain(change.Asset), plain(lastName(change.Type)))
		for _, f := range comparison.Fields {
			fmt.Fprintf(s.Out, "    %s: %s -> %s\n", plain(f.Path), plain(cmp.Or(f.Current, "(none)")), plain(cmp.Or(f.Target, "(none)")))
		}
		if change.What == "changed" && len(comparison.Fields) == 0 {
			fmt.Fprintln(s.Out, "    an asset that it reads differs")
		}
	}
	return nil
}

var signs = map[string]string{"added": "+", "removed": "-", "changed": "~"}

func (s *session) labelCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "label INCARNATION KEY=VALUE…",
		Short: "Label an incarnation, to find it and keep it; KEY= removes a label",
		Example: `  lehr label shop@12 release=spring
  lehr label 12 release=`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.label(command.Context(), args[0], args[1:], reason)
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return command
}

func (s *session) label(ctx context.Context, incarnation string, names []string, reason string) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(incarnation, "@") {
		partition, err := s.choose(ctx, c)
		if err != nil {
			return err
		}
		incarnation = incarnationID(partition, incarnation)
	}
	var labelled *apipb.Incarnation
	for _, label := range names {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return fault.New(fault.Invalid, "%.100q is no label", label).WithHint("write KEY=VALUE, or KEY= to remove it")
		}
		response, err := c.Incarnations.LabelIncarnation(ctx, &apipb.LabelIncarnationRequest{Id: incarnation, Key: key, Value: value, Reason: reason})
		if err != nil {
			return err
		}
		labelled = response.Incarnation
	}
	if s.json() {
		return printMessage(s.Out, labelled)
	}
	fmt.Fprintf(s.Out, "%s has %s.\n", plain(labelled.Id), plain(cmp.Or(labels(labelled.Labels), "no labels")))
	return nil
}
