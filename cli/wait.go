package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
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
		Use:   "wait [ASSET…] | wait rollout/NAME",
		Short: "Wait until assets are in sync with head, and what is asked after pushes is over, all of them without names; or until a rollout is done",
		Example: `  lehr wait --timeout 5m
  lehr wait rollout/frontends --timeout 2h   # its newest run; exit code 2 if it ends otherwise
  lehr wait web/a --newer-than 12    # for an edit made when head was 12`,
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if name, is := strings.CutPrefix(strings.Join(args, ""), intent.RolloutPrefix); is && len(args) == 1 && newer == "" {
					return s.waitForRollout(command.Context(), c, &apipb.WatchRolloutRequest{Partition: partition, Rollout: name}, timeout)
				}
				goal := goal{partition: partition, assets: args}
				if newer != "" {
					than, err := intent.ParseIncarnationID(incarnationID(partition, newer))
					if err != nil {
						return err
					}
					if string(than.Partition) != partition {
						return fault.New(fault.Invalid, "%s is of another partition than %s", than, partition).WithHint("name the partition with --partition")
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
			return s.converged(ctx, c, goal, converged)
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

// converged says so, and of sources that are not served, which production is not as.
func (s *session) converged(ctx context.Context, c *client.Client, goal goal, assets int) error {
	response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: goal.partition})
	if err != nil {
		return err
	}
	blocked := response.Partition.BlockedBy
	if s.json() {
		said := map[string]any{"converged": true, "assets": assets}
		if blocked != nil {
			said["blocked_by"] = blocked.Id
		}
		return printJSON(s.Out, said)
	}
	fmt.Fprintf(s.Out, "In sync: %s.\n", count(assets, "asset"))
	if blocked != nil {
		fmt.Fprintf(s.Out, "The newest sources are %s, and not served (candidate %s): lehr describe candidate tells why.\n", blocked.State, plain(blocked.Id))
	}
	return nil
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
		if fault.Is(err, fault.NotFound) {
			fmt.Fprintf(s.Out, "  %s\n", plain(err.Error()))
			continue
		}
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

// waitForRollout waits until the newest run of a rollout has ended.
func (s *session) waitForRollout(ctx context.Context, c *client.Client, request *apipb.WatchRolloutRequest, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last *apipb.Rollout
	err := c.WatchRollout(waiting, request, func(m *apipb.WatchRolloutResponse) error {
		last = m.Rollout
		if run := last.GetRun(); run != nil && len(last.Pending) == 0 && hasEnded(run) {
			return errShown
		}
		return nil
	})
	switch {
	case errors.Is(err, errShown) && s.json():
		if err := printMessage(s.Out, last); err != nil {
			return err
		}
		return endedAs(last.Run)
	case errors.Is(err, errShown):
		fmt.Fprintf(s.Out, "%s, run %d to %s, is %s.\n", plain(last.Name), last.Run.Run, plain(brings(last.Run)), last.Run.State)
		return endedAs(last.Run)
	case waiting.Err() == nil || ctx.Err() != nil:
		return err
	case last != nil && s.json():
		if err := printMessage(s.Out, last); err != nil {
			return err
		}
	case last != nil:
		fmt.Fprintf(s.Out, "Not done after %s:\n", timeout)
		if err := s.printStatus(last); err != nil {
			return err
		}
	}
	return exit{exitTimedOut}
}

// hasEnded reports whether a run has, and no other takes its place.
func hasEnded(run *apipb.RolloutRun) bool {
	return !goesOn(run) && run.State != string(intent.RolloutSuperseded)
}
