package cli

import (
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func describeReport(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	response, err := c.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: partition, Asset: name})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response.Report)
	}
	fmt.Fprintf(s.Out, "report of %s (%s)\n", plain(response.Report.Asset), plain(response.Report.Type))
	s.printReport(response.Report, "  ")
	return nil
}

// printReport prints state, plan and reasons of a report.
func (s *session) printReport(r *apipb.Report, indent string) {
	var b strings.Builder
	health := r.Health.GetState()
	if reason := r.Health.GetReason(); reason != "" {
		health += ": " + reason
	}
	push := r.Push
	if r.PushNote != "" {
		push = strings.TrimSpace(push + " " + r.PushNote)
	}
	state := r.State
	if r.Absent {
		state += " (turned down: nothing is there)"
	}
	fields(&b, "state", state, "target", r.Target, "pinned", r.Pinned, "reported", s.ago(r.At), "health", health,
		"resource", r.ResourceKey, "push", push, "plan", brief(r.PlanDigest), "content", brief(r.Effective), "looked at again", s.remaining(r.Next))
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(s.Out, indent, line)
	}
	s.printPlan(r, indent)
	if r.Consent != nil {
		fmt.Fprintf(s.Out, "%sapproved by %d of %d", indent, len(r.Consent.Approved), r.Consent.Need)
		for i, name := range r.Consent.Approved {
			fmt.Fprint(s.Out, []string{": ", ", "}[min(i, 1)], plain(name))
		}
		if len(r.Consent.Authors) > 0 {
			fmt.Fprintf(s.Out, " (not asked, for the change is theirs: %s)", plain(strings.Join(r.Consent.Authors, ", ")))
		}
		fmt.Fprintln(s.Out)
	}
	for _, o := range r.Overrides {
		fmt.Fprintf(s.Out, "%soverridden (%s): by %s, ending %s: %s\n", indent, o.Check, plain(o.By.GetName()), s.remaining(o.Until), plain(o.Reason))
	}
	if len(r.PassedOver) > 0 {
		fmt.Fprintf(s.Out, "%spassed over, for it goes back: %s\n", indent, plain(strings.Join(r.PassedOver, ", ")))
	}
	for _, w := range r.Observed {
		fmt.Fprintf(s.Out, "%swould wait (observed only): %s\n", indent, plain(w.Reason))
	}
	for _, p := range r.OutputProblems {
		fmt.Fprintf(s.Out, "%soutput (%s): %s\n", indent, p.Kind, plain(endingIn(p.Reason, s.remaining(p.Until))))
	}
	for _, w := range r.Waiting {
		fmt.Fprintf(s.Out, "%swaits (%s): %s\n", indent, w.Kind, plain(w.Reason))
	}
}

// printPlan prints what a push would do, field by field.
// Fields that are left to production are shown with and without one.
func (s *session) printPlan(r *apipb.Report, indent string) {
	defer s.printUnmanaged(r, indent)
	if r.Plan == nil {
		return
	}
	destructive := ""
	if r.Plan.Destructive {
		destructive = ", destructive: it needs approval"
	}
	fmt.Fprintf(s.Out, "%sa push would %s it%s\n", indent, plain(r.Plan.Action), destructive)
	s.printFieldChanges(r.Plan.Changes, indent)
}

// printFieldChanges prints what a plan changes, a field a line.
func (s *session) printFieldChanges(changes []*apipb.FieldChange, indent string) {
	for _, change := range changes {
		mark, values := "~", quoted(change.Current)+" → "+quoted(change.Target)
		switch {
		case change.Destructive:
			mark = "!"
		case change.Current == "":
			mark, values = "+", quoted(change.Target)
		case change.Target == "":
			mark, values = "-", quoted(change.Current)
		}
		fmt.Fprintf(s.Out, "%s  %s %s: %s", indent, mark, plain(change.Path), values)
		if change.Reason != "" {
			fmt.Fprintf(s.Out, "  (%s)", plain(change.Reason))
		}
		fmt.Fprintln(s.Out)
	}
}

// printUnmanaged prints what is as production wants it.
func (s *session) printUnmanaged(r *apipb.Report, indent string) {
	if len(r.Unmanaged) > 0 {
		fmt.Fprintf(s.Out, "%sleft to production\n", indent)
	}
	for _, change := range r.Unmanaged {
		fmt.Fprintf(s.Out, "%s  = %s is %s, intent says %s  (%s)\n", indent,
			plain(change.Path), quoted(change.Current), quoted(change.Target), plain(change.Reason))
	}
}

// quoted shows a value, and that there is none.
func quoted(value string) string {
	const most = 200
	if value == "" {
		return "(none)"
	}
	if len(value) > most {
		return plain(strings.ToValidUTF8(value[:most], "")) + "…"
	}
	return plain(value)
}

// withLeadingSpace puts what may be empty behind a word.
func withLeadingSpace(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// endingIn adds when something ends, if that is known.
func endingIn(text, remaining string) string {
	if remaining == "" {
		return text
	}
	return text + "; its next change is taken up " + remaining
}
