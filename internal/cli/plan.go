package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// planName is the command's.
const planName = "plan"

func (s *session) planCommand() *cobra.Command {
	var options BuildOptions
	var candidate string
	var head, asReview bool
	command := &cobra.Command{
		Use:   planName + " [lehr.yaml]",
		Short: "Show what a definition would change in production, and what is in the way",
		Long: `Build a partition here, start or dial its plugins, and compare it with production. Nothing
is changed. The comparison takes what the store knows into account: what was enforced,
approvals, pins and brakes. With --candidate, the server compares a candidate, also a
rejected one. With --head, it reports its last comparison of head. The exit code is 2 when
there are differences, or assets that cannot be compared or that no plugin serves. With
--review, print Markdown of limited size for a comment where an edit is reviewed; with -o
json, that and its parts.`,
		Example: `  lehr plan
  lehr plan --candidate newest
  lehr plan --review > comment.md       # see docs/use/review.md`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			if candidate != "" || head {
				if len(args) > 0 || candidate != "" && head {
					return fault.New(fault.Invalid, "lehr plan takes a definition, --candidate or --head: one of them")
				}
				return s.planServed(ctx, candidate, asReview)
			}
			var err error
			if options.Definition, err = definitionOf(command, args); err != nil {
				return err
			}
			return s.plan(ctx, options, asReview)
		},
	}
	command.Flags().StringVar(&candidate, "candidate", "", "digest of a candidate, or newest, in place of a definition")
	command.Flags().BoolVar(&head, "head", false, "compare what is served, in place of a definition")
	command.Flags().BoolVar(&asReview, "review", false, "print Markdown for a comment on a pull request")
	command.Flags().StringVar(&options.PluginServers, "plugin-servers", os.Getenv("LEHR_PLUGIN_SERVERS"), "file that lists the plugin servers that may be dialled (env LEHR_PLUGIN_SERVERS; default: none)")
	generatorsFlag(command, &options.Generators)
	sourcesFlag(command, &options.Sources)
	s.documentsFlag(command, &options)
	s.commonPolicyFlag(command, &options)
	checksFlag(command.Flags(), &options.ExternalChecks)
	return command
}

// plan builds here. What a server on another machine knows cannot be read: but
// for its brakes.
func (s *session) plan(ctx context.Context, options BuildOptions, asReview bool) error {
	partition, err := s.partitionOf(ctx, options.Definition, options.Sources)
	if err != nil {
		return err
	}
	var brakes brakes
	switch {
	case s.databaseMeant():
		options.Store = s.database
	case len(s.servers) == 0:
		options.Store = s.store
	default:
		if brakes, err = s.brakesOf(ctx, partition); err != nil {
			return err
		}
	}
	var end func()
	options.Progress, end = s.showProgress()
	planned, err := s.local.Plan(ctx, options, intent.PartitionID(partition), brakes.holds)
	end()
	if err != nil {
		return err
	}
	if asReview {
		return s.printReview(planned, brakes.notes)
	}
	if hasErrors(planned.Findings) {
		return s.printBuilt(Built{Partition: planned.Partition, Findings: planned.Findings}, "")
	}
	return s.printPlanned(planned, brakes.notes)
}

// planServed asks the server: of a candidate, or of head.
func (s *session) planServed(ctx context.Context, candidate string, asReview bool) error {
	show := s.printPlanned
	if asReview {
		show = s.printReview
	}
	return s.onPartition(ctx, func(c *client.Client, partition string) error {
		planned := Planned{Partition: intent.PartitionID(partition), Answer: &apipb.PlanCandidateResponse{}}
		if candidate == "" {
			reports, err := allReports(ctx, c, partition)
			if err != nil {
				return err
			}
			planned.Answer.Reports = reports
			return show(planned, nil)
		}
		if candidate == "newest" {
			candidate = ""
		}
		answer, err := c.Reports.PlanCandidate(ctx, &apipb.PlanCandidateRequest{Partition: partition, Candidate: candidateDigest(candidate)})
		if err != nil {
			return err
		}
		planned.Answer = answer
		var notes []string
		switch state := intent.CandidateState(planned.Answer.State); {
		case state == intent.CandidateRejected || state == intent.CandidateSuperseded:
			notes = append(notes, fmt.Sprintf("it is %s: nothing of it is pushed; this is what it would have changed", state))
		case planned.Answer.Base != planned.Answer.Head:
			notes = append(notes, fmt.Sprintf("it was made of %s, and head is %s: it is superseded soon", cmp.Or(planned.Answer.Base, "nothing"), planned.Answer.Head))
		}
		return show(planned, notes)
	})
}

func allReports(ctx context.Context, c *client.Client, partition string) ([]*apipb.Report, error) {
	var reports []*apipb.Report
	request := &apipb.ListReportsRequest{Partition: partition, Limit: 1000}
	for {
		response, err := c.Reports.ListReports(ctx, request)
		if err != nil {
			return nil, err
		}
		reports = append(reports, response.Reports...)
		if request.After = response.Next; response.Next == "" {
			return reports, nil
		}
	}
}

func (s *session) printPlanned(planned Planned, notes []string) error {
	reports := planned.Answer.Reports
	counts := countReports(reports)
	if s.json() {
		if err := printMessage(s.Out, planned.Answer); err != nil {
			return err
		}
	} else {
		s.printIntentFindings(planned.Findings)
		for _, r := range reports {
			if isToReview(r) {
				s.printPlannedAsset(planned, r)
			}
		}
		s.printAround(planned)
		for _, note := range notes {
			fmt.Fprintln(s.Out, "Note: "+plain(note))
		}
		fmt.Fprintf(s.Out, "Partition %s: %d to change, %d the same, %d unknown. Nothing was changed.\n",
			plain(string(planned.Partition)), counts.differing, counts.same, counts.unknown)
		s.printNotLookedAt(counts.unserved, counts.off)
	}
	if counts.differs() || len(planned.Answer.Removed) > 0 {
		return exit{exitDiffers}
	}
	return nil
}

// reportCounts is how many assets of a plan are in which state.
type reportCounts struct {
	differing, unknown, same, off int
	unserved                      unserved
}

func countReports(reports []*apipb.Report) (c reportCounts) {
	for _, r := range reports {
		switch {
		case r.Plan != nil:
			c.differing++
		case r.State == string(intent.StateInSync):
			c.same++
		case r.State == string(intent.StateWaiting):
			c.unknown++
		case r.State == string(intent.StateOff):
			c.off++
		case r.State == string(intent.StateUnserved):
			c.unserved.add(r.Type)
		}
	}
	return c
}

// differs reports whether production is not, or not known to be, as intent says.
func (c reportCounts) differs() bool { return c.differing+c.unknown+c.unserved.assets > 0 }

func (s *session) printPlannedAsset(planned Planned, r *apipb.Report) {
	fmt.Fprintf(s.Out, "%s (%s)\n", plain(r.Asset), plain(lastName(r.Type)))
	s.printPlan(r, "  ")
	at, ok := slices.BinarySearchFunc(planned.Assets, r.Asset, func(a BuiltAsset, id string) int { return cmp.Compare(string(a.ID), id) })
	if ok {
		for _, d := range planned.Assets[at].Resolved {
			fmt.Fprintf(s.Out, "  resolved: %s\n", plain(resolvedText(d)))
		}
	}
	for _, w := range r.Waiting {
		if w.Kind == string(intent.WaitPlan) {
			fmt.Fprintf(s.Out, "  %s\n", plain(w.Reason))
			continue
		}
		fmt.Fprintf(s.Out, "  waits (%s): %s\n", plain(w.Kind), plain(w.Reason))
	}
	if len(r.PassedOver) > 0 {
		fmt.Fprintf(s.Out, "  passed over, for it goes back: %s\n", plain(strings.Join(r.PassedOver, ", ")))
	}
	for _, w := range r.Observed {
		fmt.Fprintf(s.Out, "  would wait (observed only): %s\n", plain(w.Reason))
	}
	if len(r.Passed) > 0 {
		fmt.Fprintf(s.Out, "  passes: %s\n", plain(strings.Join(r.Passed, ", ")))
	}
	fmt.Fprintln(s.Out)
}

// printAround tells of what is not one asset's.
func (s *session) printAround(planned Planned) {
	if more := planned.Answer.More; more > 0 {
		fmt.Fprintf(s.Out, "... and %d more assets\n\n", more)
	}
	for _, asset := range planned.Answer.Removed {
		fmt.Fprintf(s.Out, "%s leaves intent: production keeps it, as an orphan\n", plain(asset))
	}
	for _, loosened := range planned.Answer.Loosened {
		fmt.Fprintf(s.Out, "Loosened: %s\n", plain(loosened))
	}
}

// brakes are what a running server has in the way.
type brakes struct {
	holds []intent.Hold
	notes []string
}

// brakesOf asks the server, if one runs and knows the partition.
func (s *session) brakesOf(ctx context.Context, partition string) (brakes, error) {
	var result brakes
	c, err := s.dial()
	if err != nil {
		return result, notThere(err)
	}
	holds, err := c.Brakes.ListHolds(ctx, &apipb.ListHoldsRequest{Partition: partition})
	if err != nil {
		return result, notThere(err)
	}
	for _, h := range holds.Holds {
		if h.Expired {
			continue
		}
		hold := intent.Hold{
			Asset: intent.AssetID(h.Asset), Owner: intent.Actor{Name: h.Owner.GetName(), Origin: h.Owner.GetOrigin()},
			Reason: h.Reason, Created: h.Created.AsTime(),
		}
		if h.Until != nil {
			hold.Until = h.Until.AsTime()
		}
		result.holds = append(result.holds, hold)
	}
	pins, err := c.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: partition})
	if err != nil {
		return result, notThere(err)
	}
	for _, p := range pins.Pins {
		if !p.Expired {
			result.notes = append(result.notes, fmt.Sprintf("%s is pinned to %s by %s and would not follow: %s", p.Asset, p.Incarnation, p.Holder.GetName(), p.Reason))
		}
	}
	stops, err := c.Brakes.ListStops(ctx, &apipb.ListStopsRequest{})
	if err != nil {
		return result, notThere(err)
	}
	for _, stop := range stops.Stops {
		if stop.Partition == "" || stop.Partition == partition {
			result.notes = append(result.notes, fmt.Sprintf("the server is stopped by %s: %s; %s ends it", stop.Owner.GetName(), stop.Reason, stop.Ending))
		}
	}
	return result, nil
}

// notThere passes over a server that does not run or does not know the
// partition: then it has no brakes.
func notThere(err error) error {
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable) && !errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
