package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// describePush shows a push with what it changed, and what it was decided on.
func describePush(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	if name == "" {
		return describeListed(listPushes)(ctx, s, c, partition, name)
	}
	response, err := c.Journal.GetPush(ctx, &apipb.GetPushRequest{Partition: partition, Push: name})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response.Push)
	}
	p := response.Push
	s.printPush(p)
	if p.Ended == nil {
		if err := s.printBlockers(ctx, c, partition, p); err != nil {
			return err
		}
		s.printProgress(p)
	}
	s.printPlanRecord(p.PlanRecord, "  ")
	s.printGrounds(p.Grounds)
	return nil
}

func (s *session) printPush(p *apipb.Push) {
	duration := ""
	if p.Ended != nil {
		duration = p.Ended.AsTime().Sub(p.Admitted.AsTime()).Round(1e6).String()
	}
	admitted := at(p.Admitted) + ", " + s.ago(p.Admitted)
	if p.AdmittedBy != "" {
		admitted += ", by " + p.AdmittedBy
	}
	fmt.Fprintf(s.Out, "push %s of %s\n", plain(p.Push), plain(p.Asset))
	var b strings.Builder
	fields(&b, "target", p.Target, "plan", brief(p.Plan), "content", brief(p.Effective), "resource", p.ResourceKey,
		"admitted", admitted,
		"ending", strings.TrimSuffix(ending(p)+": "+p.Reason, ": "), "took", duration,
		"budgets", strings.Join(p.Budgets, ", "), "rate limits", strings.Join(p.Rates, ", "), "trace", p.Trace)
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(s.Out, "  ", line)
	}
}

// printBlockers shows what the asset of a push that has no end yet waits for.
func (s *session) printBlockers(ctx context.Context, c *client.Client, partition string, p *apipb.Push) error {
	response, err := c.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: partition, Asset: p.Asset})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range response.Report.Waiting {
		fmt.Fprintf(s.Out, "  waits (%s): %s\n", w.Kind, plain(w.Reason))
	}
	return nil
}

// printProgress shows what the plugin told of a push under way, or says where that is.
func (s *session) printProgress(p *apipb.Push) {
	switch lines := p.Progress.GetLines(); {
	case p.Progress == nil:
		fmt.Fprintf(s.Out, "  what its plugin tells is in the memory of the server that admitted it: %s\n", plain(cmp.Or(p.AdmittedBy, "unknown")))
	case len(lines) == 0:
		fmt.Fprintln(s.Out, "  its plugin has told nothing yet")
	default:
		fmt.Fprint(s.Out, "  its plugin tells (the newest last):\n")
		if p.Progress.Dropped > 0 {
			fmt.Fprintf(s.Out, "    … %s before\n", count(int(p.Progress.Dropped), "line"))
		}
		for _, line := range lines {
			fmt.Fprintf(s.Out, "    %s  %s\n", line.At.AsTime().UTC().Format("15:04:05"), plain(line.Text))
		}
	}
}

// printPlanRecord shows what was kept of the plan of a push.
func (s *session) printPlanRecord(r *apipb.PlanRecord, indent string) {
	if r == nil {
		fmt.Fprintf(s.Out, "%swhat it changed was not kept\n", indent)
		return
	}
	destructive := ""
	if r.Destructive {
		destructive = ", destructive"
	}
	fmt.Fprintf(s.Out, "%sit was to %s the resource%s\n", indent, plain(r.Action), destructive)
	s.printFieldChanges(r.Changes, indent)
	if r.More > 0 {
		fmt.Fprintf(s.Out, "%s  and %s, %d of them destructive\n", indent, count(int(r.More), "change")+" more", r.MoreDestructive)
	}
}

// printGrounds shows what a push was decided on.
func (s *session) printGrounds(grounds []*apipb.Ground) {
	if len(grounds) == 0 {
		fmt.Fprintln(s.Out, "What it was decided on was not kept then; lehr get audit has the names of the checks.")
		return
	}
	fmt.Fprintln(s.Out, "  it was decided on:")
	var rows [][]string
	for _, g := range grounds {
		end := ""
		if g.Until != nil {
			end = g.Until.AsTime().UTC().Format("2006-01-02 15:04:05")
		}
		rows = append(rows, []string{g.Check, g.Fact, end})
	}
	table(s.Out, []string{"CHECK", "FACT", "HELD UNTIL (UTC)"}, rows)
}
