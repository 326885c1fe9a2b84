package cli

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// again judges the record of a rollout's validation anew, and says where that differs.
func (j *judging) again(path string, text []byte) error {
	if j.metrics != "" || j.look != 0 || j.interval != 0 || j.at != "" {
		return fault.New(fault.Invalid, "%s is the record of a validation, which holds its metrics and times", path).WithHint("leave --metrics, --look, --interval and --at out")
	}
	record, err := validation.ReadRecord(text)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", path, err).WithHint("name a file that Lehr wrote, as a whole")
	}
	assessment, series, differs, err := record.Again()
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", path, err).WithHint("its settings, or its samples, were changed")
	}
	if j.json() {
		record.Assessment = assessment
		err = printJSON(j.Out, record)
	} else {
		j.printAssessment(record, assessment, series, differs)
	}
	switch {
	case err != nil:
		return err
	case assessment.Verdict == validation.Bad:
		return exit{exitError}
	case assessment.Verdict != validation.Good:
		return exit{exitDiffers}
	}
	return nil
}

func (j *judging) printAssessment(record validation.Record, a validation.Assessment, series []judge.Series, differs []string) {
	fmt.Fprintf(j.Out, "%s: %s.\n", strings.ToUpper(string(a.Verdict)), plain(a.Why))
	if len(differs) == 0 {
		fmt.Fprintln(j.Out, "It is as it was recorded.")
	}
	for _, difference := range differs {
		fmt.Fprintf(j.Out, "It differs from the record: %s.\n", plain(difference))
	}
	subject := ""
	if record.Of != "" {
		subject = " of " + plain(record.Of)
	}
	changed := "at " + record.Changed.UTC().Format(time.RFC3339)
	if !record.Began.IsZero() {
		changed = "from " + record.Began.UTC().Format(time.RFC3339) + " to " + record.Changed.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(j.Out, "\nLook %d of %d at the validation %s%s, which changed %s", a.Look, a.Looks, plain(record.Settings.Name), subject, changed)
	if a.Look > 0 {
		fmt.Fprintf(j.Out, "\nSamples are from %s to %s", a.From.UTC().Format(time.RFC3339), a.Until.UTC().Format(time.RFC3339))
	}
	fmt.Fprintln(j.Out)
	for i, one := range a.Intervals {
		fmt.Fprintf(j.Out, "interval %d of %d: %s\n", i+1, record.Settings.Intervals, one.Verdict)
	}
	metrics := make([]judge.MetricResult, len(a.Metrics))
	for i, m := range a.Metrics {
		// What the judge says is of the samples alone.
		metrics[i] = m.Judged
		metrics[i].Verdict, metrics[i].Why = judge.Verdict(m.Verdict), m.Why
	}
	j.printMetrics(judge.Result{Metrics: metrics}, series)
}
