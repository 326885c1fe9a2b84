package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"lehr.dev/client"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

func (s *session) rolloutStatusCommand() *cobra.Command {
	var run uint64
	var watch bool
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Show how a rollout goes: its stages, verdicts, what it waits for, and events",
		Long: `Shows the newest run of a rollout, or the one of --run. With --watch it is shown anew
as it changes, until it ends; where the output is no terminal each change is a line. Then
the exit code is 0 if it is done, and 2 if it ended otherwise.`,
		Example: `  lehr rollout status frontends
  lehr rollout status frontends --run 3 -o yaml
  lehr rollout status frontends --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if watch {
				return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
					return s.watchRollout(command.Context(), c, &apipb.WatchRolloutRequest{Partition: partition, Rollout: args[0], Run: run})
				})
			}
			return s.readingPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Rollouts.GetRollout(command.Context(), &apipb.GetRolloutRequest{Partition: partition, Rollout: args[0], Run: run})
				if err != nil {
					return err
				}
				return s.printStatus(response.Rollout)
			})
		},
	}
	command.Flags().Uint64Var(&run, "run", 0, "the number of a run (default: the newest)")
	command.Flags().BoolVar(&watch, "watch", false, "show it anew as it changes, until it ends")
	command.Annotations = map[string]string{ownOutput: "yaml"}
	return command
}

// printStatus prints a rollout for people or programs.
func (s *session) printStatus(r *apipb.Rollout) error {
	switch s.output {
	case "json":
		return printMessage(s.Out, r)
	case "yaml":
		return printYAML(s, r)
	}
	var b bytes.Buffer
	board := board{session: s, out: &b, drawn: terminal(s.Out)}
	board.rollout(r)
	_, err := s.Out.Write(b.Bytes())
	return err
}

// printYAML prints a message as YAML, in the order of its fields.
func printYAML(s *session, m proto.Message) error {
	text, err := messageJSON(m)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(plainJSON(string(text))), &node); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	var unquote func(*yaml.Node)
	unquote = func(n *yaml.Node) {
		n.Style = 0
		for _, child := range n.Content {
			unquote(child)
		}
	}
	unquote(&node)
	encoder := yaml.NewEncoder(s.Out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&node), encoder.Close()); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	return nil
}

// board prints a run in a terminal.
type board struct {
	*session
	out *bytes.Buffer
	// drawn: more than ASCII can be drawn.
	drawn bool
}

func (b board) line(format string, arguments ...any) { fmt.Fprintf(b.out, format+"\n", arguments...) }

func (b board) rollout(r *apipb.Rollout) {
	run := r.GetRun()
	if run == nil {
		b.line("%s has no run yet. Stages: %s", plain(r.Name), plain(strings.Join(r.Stages, ", ")))
		b.next(r)
	} else {
		b.line("%s, run %d: %s", plain(r.Name), run.Run, plain(b.story(run)))
		b.waits(r)
		b.stages(run)
		b.verdicts(run)
		b.edits(run)
	}
	if !r.Governs {
		b.line("\nThe policy has it no more. It keeps %s by a pin: lehr rollout release %s --reason WHY", count(int(r.Pins), "asset"), plain(r.Name))
	}
	for i, order := range r.Pending {
		if i == 0 {
			b.line("\nAsked, and done within a second:")
		}
		b.line("  %s, by %s %s: %s", order.Kind, plain(order.By.GetName()), b.ago(order.At), plain(order.Reason))
	}
	b.events(run)
}

// next says how a run begins.
func (b board) next(r *apipb.Rollout) {
	switch {
	case !r.Governs:
	case r.Document != "":
		b.line("It begins with: lehr rollout start %s --to VALUE --reason WHY", plain(r.Name))
	case r.Newer == "held":
		b.line("It begins with: lehr rollout start %s --reason WHY", plain(r.Name))
	default:
		b.line("It begins when head has something new for its assets.")
	}
}

// story of a run in one line.
func (b board) story(run *apipb.RolloutRun) string {
	text := run.State
	if run.Emergency {
		text += ", by the stages for emergencies"
	}
	if run.Promoted {
		text += ", promoted"
	}
	text += ", to " + brings(run)
	if run.From != "" {
		text += " from " + run.From
	}
	text += "; began " + b.ago(run.Began)
	if run.By.GetName() != "" {
		text += " by " + actor(run.By)
	}
	if run.Reason != "" {
		text += ": " + run.Reason
	}
	if run.Ended != nil {
		text += "; ended " + b.ago(run.Ended)
	}
	return text
}

// waits says what it waits for, and what a person can do.
func (b board) waits(r *apipb.Rollout) {
	run := r.Run
	if run.Bad != "" {
		b.line("Bad: %s", plain(run.Bad))
	}
	if run.Back != "" {
		b.line("Back to %s%s", plain(run.Back), reverts(run))
	}
	if run.State == string(intent.RolloutPaused) {
		by := ""
		if e := lastEvent(run, intent.OrderPause); e != nil {
			by = fmt.Sprintf(" by %s %s: %s", plain(actor(e.By)), b.ago(e.At), plain(e.Text))
		}
		b.line("Paused%s\n  → lehr rollout resume %s --reason WHY lets it go on", by, plain(r.Name))
		return
	}
	if run.Waits == "" {
		return
	}
	until := ""
	if run.Next != nil && openState(run.State) {
		until = "; until " + b.whenever(run.Next.AsTime()) + " at the earliest"
	}
	b.line("%s%s", plain(sentence(run.Waits)), until)
	if len(run.WaitsFor) > 0 && openState(run.State) {
		b.line("  → lehr why %s", plain(run.WaitsFor[0]))
	}
}

// sentence is what a run waits for, with a verb and a capital.
func sentence(waits string) string {
	switch first, rest, _ := strings.Cut(waits, " "); first {
	case "for":
		return "Waits for " + rest
	case "stage":
		return "Stage " + rest
	}
	return waits
}

func reverts(run *apipb.RolloutRun) string {
	if len(run.Reverts) == 0 {
		return ""
	}
	return ", which undoes more than this run changed of " + plain(listed(run.Reverts, mostWaited))
}

// actor of an event, which may be the rollout.
func actor(a *apipb.Actor) string {
	if strings.HasPrefix(a.GetName(), intent.RolloutPrefix) {
		return "itself"
	}
	return a.GetName()
}

func lastEvent(run *apipb.RolloutRun, kind intent.OrderKind) *apipb.RolloutEvent {
	for _, event := range slices.Backward(run.Events) {
		if event.Kind == string(kind) {
			return event
		}
	}
	return nil
}

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
	done := int(stage.Done * barWidth / stage.Total)
	on := max(done, int(math.Ceil(float64(stage.Selected*barWidth)/float64(stage.Total))))
	return strings.Repeat(signs[0], done) + strings.Repeat(signs[1], on-done) + strings.Repeat(signs[2], barWidth-on)
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
		took := "-"
		switch {
		case stage.Ended != nil && stage.Began != nil:
			took = short(stage.Ended.AsTime().Sub(stage.Began.AsTime()))
		case stage.Began != nil && openState(run.State):
			took = b.age(stage.Began)
		}
		if stage.Skipped {
			took = "skipped"
		}
		b.line("  %-*s  %s  %9s %9d %7s", width, plain(stage.Name), b.bar(stage), fmt.Sprintf("%d/%d", stage.Done, stage.Total), stage.Selected, took)
		if stage.Waits != "" && stage.Waits != run.Waits && openState(run.State) {
			b.line("  %-*s  waits %s", width, "", plain(stage.Waits))
		}
		b.assets(stage, width)
	}
}

// assets of a stage that are under way, with how long they have soaked.
func (b board) assets(stage *apipb.RolloutStage, width int) {
	shown := 0
	for _, a := range stage.Assets {
		if a.State == "waits" || a.State == "done" {
			continue
		}
		if shown++; shown > mostWaited {
			continue
		}
		state := map[string]string{"ill": "not healthy", "moving": "not in sync yet"}[a.State]
		if a.State == "soaking" {
			state = fmt.Sprintf("healthy for %s of %s", short(a.Healthy.AsDuration()), short(a.Soak.AsDuration()))
		}
		b.line("  %-*s  %s: %s", width, "", plain(a.Asset), state)
	}
	if rest := shown - mostWaited; rest > 0 {
		b.line("  %-*s  and %d more", width, "", rest)
	}
}

func (b board) verdicts(run *apipb.RolloutRun) {
	for _, v := range run.Verdicts {
		text := fmt.Sprintf("Validation %s of stage %s: %s (%s)", v.Validation, v.Stage, v.Result, b.ago(v.At))
		if v.Reason != "" {
			text += ": " + v.Reason
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

// fieldsOf a run: how many it set, and of how many.
func fieldsOf(run *apipb.RolloutRun) string {
	var set, landed int
	for _, e := range run.Edits {
		if e.Changed == "" && e.Revision != "" {
			set++
		}
		if e.Changed == "" && e.Landed != "" {
			landed++
		}
	}
	return fmt.Sprintf("%d of %s, %d of which are in head", set, count(max(int(run.Fields), len(run.Edits)), "field"), landed)
}

// edited says how far a field has come.
func edited(run *apipb.RolloutRun, e *apipb.RolloutEdit) string {
	was := "was " + e.Before
	if e.Before == "" {
		was = "was not there"
	}
	switch {
	case e.Changed != "":
		return "kept as set by " + e.Changed
	case e.At == nil:
		return "not set yet; an earlier run had set it, before that it " + was
	case run.State == string(intent.RolloutRolledBack):
		return "as before: " + cmp.Or(e.Before, "not there")
	case e.Revision == "":
		return fmt.Sprintf("%s as soon as the document is edited, %s", run.Value, was)
	case e.Landed == "":
		return fmt.Sprintf("%s, %s, since revision %s, not in head yet", run.Value, was, e.Revision)
	}
	return fmt.Sprintf("%s, %s, since revision %s, in head since %s", run.Value, was, e.Revision, e.Landed)
}

// mostEvents are shown of a run, the newest.
const mostEvents = 12

func (b board) events(run *apipb.RolloutRun) {
	events := run.GetEvents()
	if len(events) == 0 {
		return
	}
	b.line("")
	if before := len(events) - mostEvents; before > 0 {
		b.line("  %d events before these: -o json has all that are kept", before)
		events = events[before:]
	}
	var rows [][]string
	for _, e := range events {
		rows = append(rows, []string{b.ago(e.At), e.Kind, actor(e.By), e.Text})
	}
	table(b.out, []string{"WHEN", "EVENT", "BY", "TEXT"}, rows)
}

// watchRollout shows a rollout until the run ends.
func (s *session) watchRollout(ctx context.Context, c *client.Client, request *apipb.WatchRolloutRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, ended := make(chan *apipb.Rollout), make(chan error, 1)
	go func() {
		ended <- c.WatchRollout(ctx, request, func(m *apipb.WatchRolloutResponse) error {
			select {
			case messages <- m.Rollout:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	var again <-chan time.Time // Ages and what is left change by themselves.
	redraws := terminal(s.Out) && s.output == "table"
	if redraws {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		again = ticker.C
	}
	told := told{session: s}
	var shown *apipb.Rollout
	for {
		select {
		case shown = <-messages:
		case <-again:
		case err := <-ended:
			if ctx.Err() != nil || errors.Is(err, context.Canceled) {
				return nil // Interrupted, as every watch is.
			}
			return err
		}
		if shown == nil {
			continue
		}
		switch {
		case redraws:
			fmt.Fprint(s.Out, clearScreen)
			if err := s.printStatus(shown); err != nil {
				return err
			}
		default:
			if err := told.tell(shown); err != nil {
				return err
			}
		}
		if run := shown.GetRun(); run != nil && (hasEnded(run) || request.Run != 0 && !goesOn(run)) {
			return endedAs(run)
		}
	}
}

// endedAs is the exit code of a run that ended.
func endedAs(run *apipb.RolloutRun) error {
	if run.State == string(intent.RolloutDone) {
		return nil
	}
	return exit{exitDiffers}
}

// told tells of a rollout in lines, each of what was not told before.
type told struct {
	*session
	run    uint64
	last   time.Time
	stands string
	// events of the last moment that was told of.
	events int
}

func (t *told) tell(r *apipb.Rollout) error {
	if t.output != "table" && t.output != "wide" {
		return t.printLine(r, func() { _ = printYAML(t.session, r); fmt.Fprintln(t.Out, "---") })
	}
	run := r.GetRun()
	if run == nil {
		if t.stands == "" {
			t.stands = "none"
			fmt.Fprintf(t.Out, "%s  %s has no run yet\n", t.now().UTC().Format(time.TimeOnly), plain(r.Name))
		}
		return nil
	}
	if run.Run != t.run {
		t.run, t.last, t.events, t.stands = run.Run, time.Time{}, 0, ""
		fmt.Fprintf(t.Out, "%s  %s, run %d, to %s\n", run.Began.AsTime().Format(time.TimeOnly), plain(r.Name), run.Run, plain(brings(run)))
	}
	for _, e := range run.Events {
		at := e.At.AsTime()
		if at.Before(t.last) {
			continue
		}
		if at.Equal(t.last) && t.events > 0 {
			t.events--
			continue
		}
		fmt.Fprintf(t.Out, "%s  %s by %s: %s\n", at.Format(time.TimeOnly), plain(e.Kind), plain(actor(e.By)), plain(e.Text))
	}
	if n := len(run.Events); n > 0 {
		t.last = run.Events[n-1].At.AsTime()
		t.events = len(slices.DeleteFunc(slices.Clone(run.Events), func(e *apipb.RolloutEvent) bool { return !e.At.AsTime().Equal(t.last) }))
	}
	var done, total int64
	for _, stage := range run.Stages {
		done, total = done+stage.Done, total+stage.Total
	}
	stands := fmt.Sprintf("%s, %d of %d assets are done", run.State, done, total)
	if goesOn(run) && run.Waits != "" {
		stands += "; " + steady(run)
	}
	if stands != t.stands {
		t.stands = stands
		fmt.Fprintf(t.Out, "%s  %s\n", t.now().UTC().Format(time.TimeOnly), plain(stands))
	}
	return nil
}

// steady says for what a run waits, without what counts down.
func steady(run *apipb.RolloutRun) string {
	if len(run.WaitsFor) > 0 && run.Next != nil {
		return fmt.Sprintf("for %s to be healthy, until %s at the earliest", listed(run.WaitsFor, 1), run.Next.AsTime().Format(time.TimeOnly))
	}
	return run.Waits
}
