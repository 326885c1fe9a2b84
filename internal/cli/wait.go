package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) waitCommand() *cobra.Command {
	var timeout time.Duration
	var newer string
	command := &cobra.Command{
		Use:   "wait [ASSET…] | wait rollout/NAME",
		Short: "Wait until assets are in sync, or until a rollout is done",
		Long: `Wait until assets are in sync with head, and until the checks after their pushes are over.
A file that you saved before is built first. For an edit in git or elsewhere, use
--newer-than. The exit code is 3 when this takes too long, and 2 when no plugin serves some
assets and all others are in sync.`,
		Example: `  lehr wait --timeout 5m
  lehr wait rollout/frontends --timeout 2h   # its newest run; exit code 2 if it ends otherwise
  lehr wait web/a --newer-than 12    # for an edit made when head was 12`,
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if name, ok := strings.CutPrefix(strings.Join(args, ""), intent.RolloutPrefix); ok && len(args) == 1 && newer == "" {
					return s.waitForRollout(command.Context(), c, &apipb.WatchRolloutRequest{Partition: partition, Rollout: name}, timeout)
				}
				if newer == "" {
					if err := refusePartitionNames(command.Context(), c, partition, args); err != nil {
						return err
					}
				}
				goal := goal{partition: partition, assets: args}
				if newer != "" {
					baseline, err := intent.ParseIncarnationID(incarnationID(partition, newer))
					if err != nil {
						return err
					}
					if string(baseline.Partition) != partition {
						return fault.New(fault.Invalid, "%s is of another partition than %s", baseline, partition).WithHint("name the partition with --partition")
					}
					goal.newer = baseline.Sequence
				}
				return s.wait(command.Context(), c, goal, timeout)
			})
		},
	}
	command.Flags().StringVar(&newer, "newer-than", "", "also wait until head is newer than this incarnation")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long at most; then exit code 3")
	return command
}

// refusePartitionNames refuses to wait for an asset that is not there and has the name of a partition: whoever names a
// partition means all of its assets, and would wait for one that never comes.
func refusePartitionNames(ctx context.Context, c *client.Client, partition string, names []string) error {
	for _, name := range names {
		_, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: partition, Asset: name})
		if err == nil {
			continue
		}
		if _, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: name}); err == nil {
			return fault.New(fault.Invalid, "cannot wait for %s: it is a partition, and partition %s has no asset of that name", name, partition).
				WithHint("lehr wait --partition %s waits for all of its assets", name)
		}
	}
	return nil
}

const waitPeriod = 200 * time.Millisecond

// noticeTime is for how long nothing must be built before what is in sync counts: a file that was
// saved just before the command is noticed, and built, within it. Sources elsewhere are read
// on a cadence: for an edit of those, --newer-than waits.
const noticeTime = 600 * time.Millisecond

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
	idleSince := time.Now()
	for {
		p, err := goal.progress(ctx, c)
		if err != nil {
			return err
		}
		if p.settled > 0 && len(p.lagging) == 0 {
			response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: goal.partition})
			if err != nil {
				return err
			}
			if response.Partition.Building != nil {
				idleSince = time.Now()
			}
			if goal.newer > 0 || time.Since(idleSince) >= noticeTime {
				return s.converged(p, response.Partition.BlockedBy)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return s.gaveUp(ctx, c, goal, p.lagging, timeout)
		case <-time.After(waitPeriod):
		}
	}
}

// converged tells that nothing is behind, what is not looked at, and of sources that are
// not served, which production is not as.
func (s *session) converged(p progress, blocked *apipb.Candidate) error {
	if s.json() {
		answer := map[string]any{"converged": p.unserved.assets == 0, "assets": p.settled}
		if p.unserved.assets > 0 {
			answer["unserved"] = p.unserved.assets
		}
		if blocked != nil {
			answer["blocked_by"] = blocked.Id
		}
		if err := printJSON(s.Out, answer); err != nil {
			return err
		}
		return p.unserved.exit()
	}
	fmt.Fprintf(s.Out, "In sync: %s.\n", count(p.settled-p.unserved.assets-p.offCount, "asset"))
	s.printNotLookedAt(p.unserved, p.offCount)
	if blocked != nil {
		fmt.Fprintf(s.Out, "The newest sources are %s, and not served (candidate %s): lehr describe candidate tells why.\n", blocked.State, plain(blocked.Id))
	}
	return p.unserved.exit()
}

// gaveUp names what is not in sync, and why the first of it is not.
func (s *session) gaveUp(ctx context.Context, c *client.Client, goal goal, lagging []string, timeout time.Duration) error {
	if s.json() {
		if err := printJSON(s.Out, map[string]any{"converged": false, "behind": lagging}); err != nil {
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
	fmt.Fprintf(s.Out, "Not in sync after %s: %s.\n", timeout, count(len(lagging), "asset"))
	const limit = 5
	for _, asset := range lagging[:min(limit, len(lagging))] {
		explanation, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: goal.partition, Asset: asset})
		if fault.Is(err, fault.NotFound) {
			fmt.Fprintf(s.Out, "  %s\n", plain(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "  %s\n", plain(explanation.Summary))
	}
	return exit{exitTimedOut}
}

// reached reports whether head is there, and as new as was asked for.
func (g goal) reached(p *apipb.Partition) bool {
	head, err := intent.ParseIncarnationID(p.Head)
	return err == nil && head.Sequence > g.newer
}

// progress is how far a goal is reached.
type progress struct {
	// settled counts the assets that nothing more is expected of; unserved and off are among
	// them, and not looked at.
	settled  int
	unserved unserved
	offCount int
	// lagging are the ids of all others.
	lagging []string
}

func (p *progress) add(a *apipb.Asset) {
	state := intent.State(a.State)
	isSettled := state == intent.StateInSync || state == intent.StateOff || state.IsUncompared()
	if !isSettled || !a.Current || a.AfterPush {
		p.lagging = append(p.lagging, a.Id)
		return
	}
	p.settled++
	switch state {
	case intent.StateUnserved:
		p.unserved.add(a.Type)
	case intent.StateOff:
		p.offCount++
	}
}

// progress counts the assets that are settled, and names those that are not.
func (g goal) progress(ctx context.Context, c *client.Client) (p progress, err error) {
	if g.newer > 0 {
		response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: g.partition})
		if err != nil {
			return p, err
		}
		if !g.reached(response.Partition) {
			return progress{lagging: g.assets}, nil
		}
	}
	if len(g.assets) > 0 {
		err = g.named(ctx, c, p.add)
		return p, err
	}
	request := &apipb.ListAssetsRequest{Partition: g.partition, Limit: 1000}
	for {
		response, err := c.Assets.ListAssets(ctx, request)
		if fault.Is(err, fault.NotFound) {
			return progress{}, nil // No incarnation yet.
		}
		if err != nil {
			return p, err
		}
		for _, a := range response.Assets {
			p.add(a)
		}
		if request.After, request.Incarnation = response.Next, response.Incarnation; response.Next == "" {
			return p, nil
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
	last, refused, err := followRollout(waiting, c, request, nil, func(*apipb.Rollout) error { return nil })
	switch {
	case err == nil && s.json():
		if err := printMessage(s.Out, last); err != nil {
			return err
		}
		return endedAs(last.Run, refused)
	case err == nil:
		fmt.Fprintf(s.Out, "%s, run %d to %s, is %s.\n", plain(last.Name), last.Run.Run, plain(brings(last.Run)), last.Run.State)
		if refused != nil {
			s.printRefused(refused)
		}
		return endedAs(last.Run, refused)
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
