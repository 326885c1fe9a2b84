package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

const barWidth = 20

// bar of a stage: done, let go on, the rest.
func (b board) bar(stage *apipb.RolloutStage) string {
	signs := []string{"#", "+", "."}
	if b.drawn {
		signs = []string{"█", "▒", "·"}
	}
	if stage.Total == 0 {
		return strings.Repeat(signs[2], barWidth)
	}
	doneWidth := int(stage.Done * barWidth / stage.Total)
	selectedWidth := max(doneWidth, int(math.Ceil(float64(stage.Selected*barWidth)/float64(stage.Total))))
	return strings.Repeat(signs[0], doneWidth) + strings.Repeat(signs[1], selectedWidth-doneWidth) + strings.Repeat(signs[2], barWidth-selectedWidth)
}

func (b board) stages(run *apipb.RolloutRun) {
	if len(run.Stages) == 0 {
		return
	}
	width := len("STAGE")
	for _, stage := range run.Stages {
		width = max(width, len([]rune(stage.Name)))
	}
	b.line("\n  %-*s  %-*s  %9s %9s %7s", width, "STAGE", barWidth, "", "DONE", "LET GO ON", "TOOK")
	for _, stage := range run.Stages {
		duration := "-"
		switch {
		case stage.Ended != nil && stage.Began != nil:
			duration = short(stage.Ended.AsTime().Sub(stage.Began.AsTime()))
		case stage.Began != nil && openState(run.State):
			duration = b.age(stage.Began)
		}
		if stage.Skipped {
			duration = "skipped"
		}
		b.line("  %-*s  %s  %9s %9d %7s", width, plain(stage.Name), b.bar(stage), fmt.Sprintf("%d/%d", stage.Done, stage.Total), stage.Selected, duration)
		if stage.Waits != "" && !strings.HasSuffix(run.Waits, stage.Waits) && openState(run.State) && run.State != string(intent.RolloutRollingBack) { // Else it is told above.
			b.line("  %-*s  waits %s", width, "", plain(stage.Waits))
		}
		b.approval(stage, width)
		b.assets(stage, width)
	}
}

// assets of a stage that are under way, with how long they have soaked.
func (b board) assets(stage *apipb.RolloutStage, width int) {
	waiting := 0
	for _, a := range stage.Assets {
		if a.State == "waits" || a.State == "done" {
			continue
		}
		if waiting++; waiting > mostWaited {
			continue
		}
		state := map[string]string{"ill": "not healthy", "moving": "not in sync yet"}[a.State]
		if a.State == "soaking" {
			state = fmt.Sprintf("healthy for %s of %s", short(a.Healthy.AsDuration()), short(a.Soak.AsDuration()))
		}
		b.line("  %-*s  %s: %s", width, "", plain(a.Asset), state)
	}
	if rest := waiting - mostWaited; rest > 0 {
		b.line("  %-*s  and %d more", width, "", rest)
	}
}

func (b board) verdicts(run *apipb.RolloutRun) {
	for _, v := range run.Verdicts {
		text := fmt.Sprintf("Validation %s of stage %s: %s (%s)", v.Validation, v.Stage, v.Result, b.ago(v.At))
		if v.Reason != "" && run.Bad != fmt.Sprintf("the validation %s of the stage %s: %s", v.Validation, v.Stage, v.Reason) {
			text += ": " + v.Reason // Else it is told above.
		}
		b.line("\n%s", plain(text))
		width := 0
		for _, m := range v.Metrics {
			width = max(width, len([]rune(m.Name)))
		}
		for _, m := range v.Metrics {
			b.line("  %-*s  %-12s %s", width, plain(m.Name), plain(m.Result), plain(m.Reason))
			if drawn := b.sparkline(m); drawn != "" {
				b.line("  %-*s  %s", width, "", drawn)
			}
		}
		if v.Record != "" {
			b.line("  samples: lehr rollout record %s", plain(v.Record))
		}
	}
}

// sparkline draws the values of a metric and of what it is compared with on one
// scale; empty: it has none.
func (b board) sparkline(m *apipb.RolloutMetric) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range slices.Concat(m.Values, m.Baseline) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			least, most = min(least, v), max(most, v)
		}
	}
	if least > most {
		return ""
	}
	heights := plainHeights
	if b.drawn {
		heights = drawnHeights
	}
	line := func(values []float64) string {
		var text strings.Builder
		for _, v := range values[max(0, len(values)-sparkWidth):] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				text.WriteByte(' ')
				continue
			}
			text.WriteRune(heights[place(v, least, most, len(heights))])
		}
		return text.String()
	}
	text := line(m.Values)
	if len(m.Baseline) > 0 {
		text += "  against  " + line(m.Baseline)
	}
	return text + fmt.Sprintf("  from %.4g to %.4g", least, most)
}

// sparkWidth is how many values of a side are drawn.
const sparkWidth = 24

func (b board) edits(run *apipb.RolloutRun) {
	for i, e := range run.Edits {
		if i == 0 {
			b.line("\nIt sets %s:", fieldsOf(run))
		}
		if i == mostWaited {
			b.line("  and %d more", len(run.Edits)-i)
			break
		}
		b.line("  %s %s: %s", plain(e.Document), plain(e.Pointer), plain(edited(run, e)))
	}
}

// proposals are the pull requests of a run, the newest ones.
func (b board) proposals(run *apipb.RolloutRun) {
	list := run.Proposals
	for i, p := range list[max(0, len(list)-mostWaited):] {
		if i == 0 {
			b.line("\nBy pull requests:")
		}
		purpose := ""
		if p.Back {
			purpose = ", to go back"
		}
		b.line("  %s %s%s: %s", plain(p.Document), plain(strings.Join(p.Pointers, ", ")), purpose, plain(proposalState(p)))
	}
}

// proposalState says how it goes with a pull request.
func proposalState(p *apipb.RolloutProposal) string {
	text := "a pull request is to be opened"
	if p.PullRequest != 0 {
		text = fmt.Sprintf("pull request #%d: %s", p.PullRequest, p.State)
		if p.Link != "" {
			text += ", " + p.Link
		}
	}
	if p.Trouble != "" {
		text += "; the last try failed: " + p.Trouble
	}
	return text
}

// fieldsOf a run: how many it set, and of how many.
func fieldsOf(run *apipb.RolloutRun) string {
	var setCount, landed int
	for _, e := range run.Edits {
		if e.Changed == "" && e.Revision != "" {
			setCount++
		}
		if e.Changed == "" && e.Landed != "" {
			landed++
		}
	}
	return fmt.Sprintf("%d of %s, %d of which are in head", setCount, count(max(int(run.Fields), len(run.Edits)), "field"), landed)
}

// edited says how far a field has come.
func edited(run *apipb.RolloutRun, e *apipb.RolloutEdit) string {
	previous := "was " + e.Before
	if e.Before == "" {
		previous = "was not there"
	}
	switch {
	case e.Changed != "":
		return "kept as set by " + e.Changed
	case e.At == nil:
		return "not set yet; an earlier run had set it, before that it " + previous
	case run.State == string(intent.RolloutRolledBack):
		return "as before: " + cmp.Or(e.Before, "not there")
	case e.Revision == "":
		return fmt.Sprintf("%s as soon as the document is edited, %s", run.Value, previous)
	case e.Landed == "":
		return fmt.Sprintf("%s, %s, since revision %s, not in head yet", run.Value, previous, e.Revision)
	}
	return fmt.Sprintf("%s, %s, since revision %s, in head since %s", run.Value, previous, e.Revision, e.Landed)
}

// mostEvents are shown of a run, the newest.
const mostEvents = 12

func (b board) events(run *apipb.RolloutRun) {
	events := run.GetEvents()
	if len(events) == 0 {
		return
	}
	b.line("")
	if omitted := len(events) - mostEvents; omitted > 0 {
		b.line("  %d events before these: -o json has all that are kept", omitted)
		events = events[omitted:]
	}
	var rows [][]string
	for _, e := range events {
		text := e.Text
		if text != "" && text == run.Bad {
			text = saidAbove
		}
		rows = append(rows, []string{b.ago(e.At), e.Kind, actor(e.By), text})
	}
	table(b.out, []string{"WHEN", "EVENT", "BY", "TEXT"}, rows)
}
