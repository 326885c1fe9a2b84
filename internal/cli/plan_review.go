package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// Bounds of a review. GitHub takes 65 536 characters in a comment.
const (
	maxReviewBytes   = 60_000
	maxReviewAssets  = 200
	maxReviewChanges = 40
	maxReviewLines   = 20
)

// review is a plan as it is shown to those who review an edit: bounded, and without
// secrets, which plans do not have.
type review struct {
	Partition string `json:"partition"`
	// Marker is the first line of the Markdown. It tells the comment of this partition's
	// plan from all others, so that it can be found and brought up to date.
	Marker string `json:"marker"`
	// Outcome is "same", "differs" (something is to change, unknown, or not looked at) or
	// "refused" (the sources have errors, and nothing was compared).
	Outcome string `json:"outcome"`
	Change  int    `json:"change"`
	// Destroy is how many of those to change lose something.
	Destroy  int `json:"destroy"`
	Same     int `json:"same"`
	Unknown  int `json:"unknown"`
	Unserved int `json:"unserved"`
	Off      int `json:"off"`
	// Assets to change, and those that cannot be compared; what destroys comes first. More
	// are not listed.
	Assets   []reviewAsset    `json:"assets"`
	More     int              `json:"more,omitempty"`
	Removed  []string         `json:"removed"`
	Loosened []string         `json:"loosened"`
	Findings []intent.Finding `json:"findings"`
	Notes    []string         `json:"notes"`
	Markdown string           `json:"markdown"`
}

type reviewAsset struct {
	Asset string `json:"asset"`
	Type  string `json:"type"`
	// Action of the push; empty: it is unknown what there is to do.
	Action      string         `json:"action,omitempty"`
	Destructive bool           `json:"destructive,omitempty"`
	Changes     []reviewChange `json:"changes,omitempty"`
	MoreChanges int            `json:"more_changes,omitempty"`
	Waits       []reviewWait   `json:"waits,omitempty"`
}

type reviewChange struct {
	Path        string `json:"path"`
	Current     string `json:"current,omitempty"`
	Target      string `json:"target,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Writer      string `json:"writer,omitempty"`
	Destructive bool   `json:"destructive,omitempty"`
}

type reviewWait struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// newReview makes a review of what was planned.
func newReview(planned Planned, notes []string) review {
	r := review{
		Partition: string(planned.Partition), Marker: fmt.Sprintf("<!-- lehr plan of %s -->", planned.Partition),
		Outcome: "same", Assets: []reviewAsset{}, Removed: []string{}, Loosened: []string{}, Findings: planned.Findings, Notes: notes,
	}
	if r.Findings == nil {
		r.Findings = []intent.Finding{}
	}
	if r.Notes == nil {
		r.Notes = []string{}
	}
	if hasErrors(planned.Findings) {
		r.Outcome = "refused"
		r.Markdown = r.markdown()
		return r
	}
	counts := countReports(planned.Answer.Reports)
	r.Change, r.Same, r.Unknown, r.Unserved, r.Off = counts.differing, counts.same, counts.unknown, counts.unserved.assets, counts.off
	var reports []*apipb.Report
	for _, report := range planned.Answer.Reports {
		if report.Plan.GetDestructive() {
			r.Destroy++
		}
		if isToReview(report) {
			reports = append(reports, report)
		}
	}
	slices.SortStableFunc(reports, func(a, b *apipb.Report) int { return compareBools(b.Plan.GetDestructive(), a.Plan.GetDestructive()) })
	for _, report := range reports[:min(len(reports), maxReviewAssets)] {
		r.Assets = append(r.Assets, newReviewAsset(report))
	}
	r.More = int(planned.Answer.More) + len(reports) - len(r.Assets)
	r.Removed = append(r.Removed, planned.Answer.Removed...)
	r.Loosened = append(r.Loosened, planned.Answer.Loosened...)
	if counts.differs() || len(r.Removed) > 0 {
		r.Outcome = "differs"
	}
	r.Markdown = r.markdown()
	return r
}

// isToReview reports whether people review what is told of the asset.
func isToReview(report *apipb.Report) bool {
	return report.Plan != nil || report.State == string(intent.StateWaiting)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func newReviewAsset(report *apipb.Report) reviewAsset {
	a := reviewAsset{Asset: report.Asset, Type: report.Type, Action: report.Plan.GetAction(), Destructive: report.Plan.GetDestructive()}
	changes := slices.Clone(report.Plan.GetChanges())
	slices.SortStableFunc(changes, func(a, b *apipb.FieldChange) int { return compareBools(b.Destructive, a.Destructive) })
	for _, change := range changes[:min(len(changes), maxReviewChanges)] {
		a.Changes = append(a.Changes, reviewChange{
			Path: reviewValue(change.Path), Current: reviewValue(change.Current), Target: reviewValue(change.Target),
			Reason: reviewValue(change.Reason), Writer: reviewValue(change.Writer), Destructive: change.Destructive,
		})
	}
	a.MoreChanges = len(changes) - len(a.Changes)
	for _, wait := range report.Waiting[:min(len(report.Waiting), maxReviewLines)] {
		a.Waits = append(a.Waits, reviewWait{wait.Kind, wait.Reason})
	}
	return a
}

// reviewValue bounds a value; empty stays empty.
func reviewValue(text string) string {
	if text == "" {
		return ""
	}
	return quoted(text)
}

// markdown renders the review as a comment. Everything that plugins, sources and people
// wrote stands in code, where it is no mark-up, no link and mentions nobody.
func (r review) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### Lehr plan of %s\n\n%s\n", r.Marker, code(r.Partition), r.summary())
	list(&b, "Findings", r.Findings, func(f intent.Finding) string {
		place := ""
		if f.File != "" {
			place = code(fmt.Sprintf("%s:%d", f.File, f.Line)) + ": "
		}
		hint := ""
		if f.Hint != "" {
			hint = "; to do: " + code(f.Hint)
		}
		return fmt.Sprintf("%s: %s%s%s", f.Severity, place, code(f.Message), hint)
	})
	list(&b, "Loosened", r.Loosened, code)
	list(&b, "Leaves intent, and stays in production as an orphan", r.Removed, code)
	list(&b, "Notes", r.Notes, code)
	more := r.More
	for i, asset := range r.Assets {
		text := asset.markdown()
		if b.Len()+len(text) > maxReviewBytes {
			more += len(r.Assets) - i
			break
		}
		b.WriteString(text)
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n… and %s more, for which there is no room here: `lehr plan` lists them.\n", count(more, "asset"))
	}
	return b.String()
}

func (r review) summary() string {
	if r.Outcome == "refused" {
		return "**Refused**: the sources have errors, so nothing was compared with production."
	}
	parts := []string{fmt.Sprintf("**%d to change**", r.Change)}
	if r.Destroy > 0 {
		verb := "destroy"
		if r.Destroy == 1 {
			verb = "destroys"
		}
		parts[0] = fmt.Sprintf("**%d to change, of which %d %s something**", r.Change, r.Destroy, verb)
	}
	parts = append(parts, fmt.Sprintf("%d the same, %d unknown", r.Same, r.Unknown))
	if r.Unserved > 0 {
		parts = append(parts, fmt.Sprintf("%d not looked at, for no plugin serves their type", r.Unserved))
	}
	if r.Off > 0 {
		parts = append(parts, fmt.Sprintf("%d not looked at, for their mode is off", r.Off))
	}
	return strings.Join(parts, ", ") + ". Nothing was changed."
}

// list writes a bounded list under a title, if there is anything to list.
func list[T any](b *strings.Builder, title string, all []T, line func(T) string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, one := range all[:min(len(all), maxReviewLines)] {
		fmt.Fprintf(b, "- %s\n", line(one))
	}
	if more := len(all) - maxReviewLines; more > 0 {
		fmt.Fprintf(b, "- … and %d more\n", more)
	}
}

func (a reviewAsset) markdown() string {
	var b strings.Builder
	what := cmp.Or(a.Action, "unknown")
	if a.Destructive {
		what += ", **destroys something**: a person must approve it"
	}
	fmt.Fprintf(&b, "\n#### %s (%s): %s\n", code(a.Asset), code(lastName(a.Type)), what)
	if len(a.Changes) > 0 {
		var changes strings.Builder
		for _, change := range a.Changes {
			changes.WriteString(change.line())
		}
		if a.MoreChanges > 0 {
			fmt.Fprintf(&changes, "# and %d more fields\n", a.MoreChanges)
		}
		fence := strings.Repeat("`", max(3, longestRun(changes.String(), '`')+1))
		fmt.Fprintf(&b, "%sdiff\n%s%s\n", fence, changes.String(), fence)
	}
	for _, wait := range a.Waits {
		if wait.Kind == string(intent.WaitPlan) { // What the plan itself says of it.
			fmt.Fprintf(&b, "- %s\n", code(wait.Reason))
			continue
		}
		fmt.Fprintf(&b, "- waits (%s): %s\n", wait.Kind, code(wait.Reason))
	}
	return b.String()
}

// line is one of a diff's: "+" is new, "-" goes, "!" changes.
func (c reviewChange) line() string {
	mark, values := "!", c.Current+" → "+c.Target
	switch {
	case c.Current == "":
		mark, values = "+", c.Target
	case c.Target == "":
		mark, values = "-", c.Current
	}
	reason := ""
	if c.Reason != "" {
		reason = "  (" + c.Reason + ")"
	}
	if c.Destructive {
		reason += "  DESTROYS"
	}
	return fmt.Sprintf("%s %s: %s%s\n", mark, c.Path, values, reason)
}

// code is a text in a span of code, whatever it holds.
func code(text string) string {
	const most = 1000
	text = plain(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	marks := strings.Repeat("`", longestRun(text, '`')+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || text == "" {
		text = " " + text + " "
	}
	return marks + text + marks
}

// longestRun is how many of a character follow on each other at most.
func longestRun(text string, character rune) (longest int) {
	run := 0
	for _, r := range text {
		if r == character {
			run++
			longest = max(longest, run)
			continue
		}
		run = 0
	}
	return longest
}

// printReview prints a plan for those who review an edit, and ends as lehr plan does.
func (s *session) printReview(planned Planned, notes []string) error {
	r := newReview(planned, notes)
	if s.json() {
		if err := printJSON(s.Out, r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(s.Out, r.Markdown)
	}
	switch r.Outcome {
	case "refused":
		return exit{exitError}
	case "differs":
		return exit{exitDiffers}
	}
	return nil
}
