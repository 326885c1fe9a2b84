package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shrinking is bounded: so many runs of the same seed.
const mostShrinkRuns = 300

// simReport prints runs while they end, then what they amount to.
type simReport struct {
	*simulation
	out, err  io.Writer
	startedAt time.Time
	toldAt    time.Time
	failures  []SimRun
	broken    error
}

func newSimReport(s *simulation) *simReport {
	now := time.Now()
	return &simReport{simulation: s, out: s.OutOrStdout(), err: s.ErrOrStderr(), startedAt: now, toldAt: now}
}

func (r *simReport) run(ctx context.Context) error {
	if !r.json() {
		fmt.Fprintf(r.out, "Lehr %s, %s.\n", plain(r.kit.Version), r.subject())
	}
	sum, err := r.kit.Run(ctx, r.runs, r.tellRun)
	if err != nil {
		return err
	}
	for _, failed := range r.failures {
		r.failed(ctx, failed)
	}
	if r.json() {
		r.line(map[string]any{"sum": sum.Value, "version": r.kit.Version, "seed": r.runs.Seed, "command": r.replay(r.runs.Seed, r.runs.Only, false)})
	} else {
		r.sum(ctx, sum)
	}
	switch {
	case r.broken != nil:
		return r.broken
	case sum.Failed > 0, r.runs.Complete && len(sum.Missing) > 0:
		return exit{exitError}
	}
	return ctx.Err()
}

// subject is run, in words.
func (r *simReport) subject() string {
	switch {
	case r.runs.TotalHours > 0:
		return fmt.Sprintf("seeds from %d on, %s h in all, %d at a time", r.runs.Seed, number(r.runs.TotalHours), r.runs.Workers)
	case r.runs.Runs > 1:
		return fmt.Sprintf("seeds %d to %d, %s h each, %d at a time", r.runs.Seed, r.runs.Seed+uint64(r.runs.Runs-1), number(r.runs.Hours), r.runs.Workers)
	}
	return fmt.Sprintf("seed %d, %s h", r.runs.Seed, number(r.runs.Hours))
}

// mostFailures is how many runs that failed are told in full.
const mostFailures = 10

// tellRun is told of each run.
func (r *simReport) tellRun(run SimRun, sum SimSum) {
	if r.json() {
		if r.story || len(run.Broken) > 0 {
			r.line(run.Details)
		} else {
			r.line(run.Value)
		}
	} else if r.story && len(run.Broken) == 0 {
		r.tell(run)
	}
	if len(run.Broken) > 0 {
		if len(r.failures) < mostFailures {
			r.failures = append(r.failures, run)
		}
		fmt.Fprintf(r.err, "seed %d: %s: %s\n", run.Seed, run.Broken[0].Property, plain(firstLine(run.Broken[0].What)))
	}
	// Seldom, when it takes days.
	now := time.Now()
	often := min(5*time.Second+now.Sub(r.startedAt)/20, 5*time.Minute)
	if now.Sub(r.toldAt) >= often {
		r.toldAt = now
		fmt.Fprintf(r.err, "%8s: %s, %s h, %d faults struck, %d effects, %d cells, %d of %d situations, %d failed\n",
			now.Sub(r.startedAt).Round(time.Second), count(sum.Runs, "run"), rounded(sum.Hours), sum.Struck, sum.Effects, sum.Cells,
			sum.Required-len(sum.Missing), sum.Required, sum.Failed)
	}
}

func (r *simReport) line(value any) {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = fmt.Fprintf(r.out, "%s\n", plainJSON(string(text)))
	}
	if r.broken == nil {
		r.broken = err
	}
}

func (r *simReport) tell(run SimRun) {
	for _, line := range run.Story {
		fmt.Fprintln(r.out, plain(line))
	}
}

// failed tells of a run that broke something, with as few disturbances as
// break it too.
func (r *simReport) failed(ctx context.Context, run SimRun) {
	if r.runs.Only != nil {
		run.Disturbances = slices.DeleteFunc(run.Disturbances, func(d SimDisturbance) bool { return !slices.Contains(r.runs.Only, d.Number) })
	}
	whole := run
	if !r.noShrink && ctx.Err() == nil {
		fmt.Fprintf(r.err, "seed %d: looking for fewer disturbances that break it\n", run.Seed)
		if shrunk, err := r.kit.Shrink(ctx, r.runs, run, mostShrinkRuns); err == nil || len(shrunk.Broken) > 0 {
			run = shrunk
		}
	}
	if r.runs.Only != nil {
		run.Disturbances = slices.DeleteFunc(slices.Clone(run.Disturbances), func(d SimDisturbance) bool { return !slices.Contains(r.runs.Only, d.Number) })
	}
	// Unless it was shrunk, all may be needed.
	only := r.runs.Only
	if len(run.Disturbances) < len(whole.Disturbances) {
		only = []int{}
		for _, d := range run.Disturbances {
			only = append(only, d.Number)
		}
	}
	replay := r.replay(run.Seed, only, true)
	if r.json() {
		r.line(map[string]any{"shrunk": run.Details, "replay": replay})
		return
	}
	fmt.Fprintf(r.out, "\nBROKEN by seed %d, Lehr %s\n", run.Seed, plain(r.kit.Version))
	for _, broken := range run.Broken {
		fmt.Fprintf(r.out, "\n%s (%s), at %s:\n", broken.Property, plain(broken.Says), broken.At.UTC().Format(time.DateTime))
		for line := range strings.Lines(broken.What) {
			fmt.Fprintf(r.out, "  %s\n", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	fmt.Fprintf(r.out, "\nThe %d of %d disturbances that it takes:\n", len(run.Disturbances), len(whole.Disturbances))
	for _, d := range run.Disturbances {
		fmt.Fprintf(r.out, "  %s\n", plain(d.Text))
	}
	fmt.Fprintf(r.out, "\nWhat happened:\n")
	r.tell(run)
	fmt.Fprintf(r.out, "\nSee it again with:\n  %s\n", replay)
}

// replay is the command that runs one seed again.
func (r *simReport) replay(seed uint64, only []int, story bool) string {
	command := fmt.Sprintf("lehr sim --seed %d --hours %s", seed, number(r.runs.Hours))
	if r.Flags().Changed("density") {
		command += " --density " + number(r.runs.Density)
	}
	if r.runs.Replicas > 1 {
		command += fmt.Sprintf(" --replicas %d", r.runs.Replicas)
	}
	if len(r.runs.Without) > 0 {
		command += fmt.Sprintf(" --without %q", strings.Join(r.runs.Without, ","))
	}
	if r.runs.Definition != "" {
		command += fmt.Sprintf(" --partition %q", r.runs.Definition)
	}
	if r.runs.Before != "" {
		command += fmt.Sprintf(" --before %q", r.runs.Before)
	}
	if only != nil {
		var numbers []string
		for _, n := range only {
			numbers = append(numbers, strconv.Itoa(n))
		}
		command += " --only " + strings.Join(numbers, ",")
		if len(only) == 0 {
			command += "none"
		}
	}
	if story {
		command += " --story"
	}
	return command
}

func (r *simReport) sum(ctx context.Context, sum SimSum) {
	elapsed := time.Since(r.startedAt)
	fmt.Fprintln(r.out)
	if ctx.Err() != nil {
		fmt.Fprintln(r.out, "Interrupted. So far:")
	}
	evaluations := 0
	for _, n := range sum.Checked {
		evaluations += n
	}
	properties := fmt.Sprintf("%d properties, asked %d times", len(sum.Checked)-len(sum.Unchecked), evaluations)
	if len(sum.Unchecked) > 0 {
		properties += "; nothing to ask about " + strings.Join(sum.Unchecked, ", ")
	}
	marks := fmt.Sprintf("%d, %d of the %d that many runs must meet", sum.Marks, sum.Required-len(sum.Missing), sum.Required)
	if len(sum.Missing) > 0 && r.runs.Complete {
		marks += "; not met: " + strings.Join(sum.Missing, ", ")
	}
	fields(r.out,
		"Runs", fmt.Sprintf("%d, %d failed, %d made again to see that they are the same", sum.Runs, sum.Failed, sum.Twice),
		"Virtual time", fmt.Sprintf("%s h, in %s of real time", rounded(sum.Hours), elapsed.Round(100*time.Millisecond)),
		"Steps", strconv.FormatUint(sum.Steps, 10),
		"Disturbances", fmt.Sprintf("%d planned, %d faults struck", sum.Planned, sum.Struck),
		"Effects", strconv.Itoa(sum.Effects),
		"Cells", fmt.Sprintf("%d (points × faults × phases)", sum.Cells),
		"Situations", marks,
		"Checked", properties,
	)
	if sum.Failed == 0 && sum.Runs > 0 {
		fmt.Fprintln(r.out, "Nothing that Lehr promises was broken.")
	}
}

func firstLine(text string) string {
	const most = 200
	line, _, _ := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most]) + "…"
	}
	return line
}

// number exactly, so that it gives the same run.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func rounded(hours float64) string { return strconv.FormatFloat(hours, 'f', 1, 64) }
