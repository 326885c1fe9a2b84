package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/client"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

func (s *session) waitCommand() *cobra.Command {
	var timeout time.Duration
	var newer string
	command := &cobra.Command{
		Use:   "wait [ASSET…]",
		Short: "Wait until assets are in sync with head, and what is asked after pushes is over; without names, all",
		Example: `  lehr wait --timeout 5m
  lehr wait web/a --newer-than 12    # for an edit made when head was 12`,
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				goal := goal{partition: partition, assets: args}
				if newer != "" {
					than, err := intent.ParseIncarnationID(incarnationID(partition, newer))
					if err != nil {
						return err
					}
					goal.newer = than.Sequence
				}
				return s.wait(command.Context(), c, goal, timeout)
			})
		},
	}
	command.Flags().StringVar(&newer, "newer-than", "", "also wait until head is newer than this incarnation")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long at most; then exit code 3")
	return command
}

const waitPeriod = 200 * time.Millisecond

// goal is what wait waits for.
type goal struct {
	partition string
	// assets by name; none: all of head's.
	assets []string
	// newer: head is beyond this.
	newer intent.Sequence
}

func (s *session) wait(ctx context.Context, c *client.Client, goal goal, timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		converged, behind, err := goal.progress(ctx, c)
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
			return s.gaveUp(ctx, c, goal, behind, timeout)
		case <-time.After(waitPeriod):
		}
	}
}

// gaveUp names what is not in sync, and why the first of it is not.
func (s *session) gaveUp(ctx context.Context, c *client.Client, goal goal, behind []string, timeout time.Duration) error {
	if s.json() {
		if err := printJSON(s.Out, map[string]any{"converged": false, "behind": behind}); err != nil {
			return err
		}
		return exit{exitTimedOut}
	}
	response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: goal.partition})
	if err != nil {
		return err
	}
	p := response.Partition
	if !goal.reached(p) {
		fmt.Fprintf(s.Out, "Nothing newer is served after %s: head is %s.\n", timeout, cmp.Or(p.Head, "not there yet"))
		if p.BlockedBy != nil {
			fmt.Fprintf(s.Out, "The newest sources are %s (candidate %s):\n", p.BlockedBy.State, plain(p.BlockedBy.Id))
			s.printFindings(p.BlockedBy.Findings, "  ")
		}
		return exit{exitTimedOut}
	}
	fmt.Fprintf(s.Out, "Not in sync after %s: %s.\n", timeout, count(len(behind), "asset"))
	const shown = 5
	for _, asset := range behind[:min(shown, len(behind))] {
		why, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: goal.partition, Asset: asset})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "  %s\n", plain(why.Summary))
	}
	return exit{exitTimedOut}
}

// reached reports whether head is there, and as new as was asked for.
func (g goal) reached(p *apipb.Partition) bool {
	head, err := intent.ParseIncarnationID(p.Head)
	return err == nil && head.Sequence > g.newer
}

// progress counts the assets that are settled, and names those that are not.
func (g goal) progress(ctx context.Context, c *client.Client) (converged int, behind []string, err error) {
	if g.newer > 0 {
		response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: g.partition})
		if err != nil {
			return 0, nil, err
		}
		if !g.reached(response.Partition) {
			return 0, g.assets, nil
		}
	}
	note := func(a *apipb.Asset) {
		settled := a.State == "in-sync" || a.State == "model" || a.State == "off"
		if settled && a.Current && !a.AfterPush {
			converged++
		} else {
			behind = append(behind, a.Id)
		}
	}
	if len(g.assets) > 0 {
		err = g.named(ctx, c, note)
		return converged, behind, err
	}
	request := &apipb.ListAssetsRequest{Partition: g.partition, Limit: 1000}
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

// named notes each asset of the goal; one that is not there is behind.
func (g goal) named(ctx context.Context, c *client.Client, note func(*apipb.Asset)) error {
	for _, name := range g.assets {
		a, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: g.partition, Asset: name})
		if fault.Is(err, fault.NotFound) {
			note(&apipb.Asset{Id: name})
			continue
		}
		if err != nil {
			return err
		}
		note(a.Asset)
	}
	return nil
}
