package app

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// TestAValidationIsAnswered by what a program measures of the stage's assets; what cannot be
// measured is broken, and asked again.
func TestAValidationIsAnswered(t *testing.T) {
	folder := t.TempDir()
	changed := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	var before, after strings.Builder
	for i := range 40 {
		fmt.Fprintf(&before, `{"at": %d, "value": %d},`, changed.Unix()-int64(15*i), 100+i%7)
		fmt.Fprintf(&after, `{"at": %d, "value": %d},`, changed.Unix()+int64(15*(i+1)), 200+i%7)
	}
	for name, text := range map[string]string{
		"before": `{"samples": [` + strings.TrimSuffix(before.String(), ",") + `]}`,
		"after":  `{"samples": [` + strings.TrimSuffix(after.String(), ",") + `]}`,
		"measure": "#!/bin/sh\ntell=$(cat)\ncase $tell in *'\"assets\":[\"web/a\"],\"scopes\":{\"cluster\":[\"a\"]}'*) ;; *) exit 1;; esac\n" +
			"case $tell in *'\"side\":\"before\"'*) cat " + folder + "/before;; *) cat " + folder + "/after;; esac\n",
		"checks.yaml": "external-checks: v1\ncommands: [{run: " + folder + "/measure, partitions: [shop]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	assess := assessor(sampling.New("shop", filepath.Join(folder, "checks.yaml"), nil))
	compare, began, restarted, warmUp := intentpb.Validation_COMPARISON_BEFORE, time.Time{}, time.Time{}, time.Duration(0)
	ask := func(program string, at time.Duration) (strategist.Assessed, time.Time) {
		t.Helper()
		found, err := assess(t.Context(), strategist.Assessing{
			Partition: "shop", Run: intent.Rollout{Name: "web", Run: 7}, Now: changed.Add(at), Restarted: restarted,
			Question: conduct.Question{
				Validation: "latency", Stage: "canary", Began: began, Changed: changed, Experiment: []intent.AssetID{"web/a"}, ExperimentScopes: map[string][]string{"cluster": {"a"}},
			},
			Validation: &intentpb.Validation{Name: "latency", Compare: compare, WarmUp: durationpb.New(warmUp), Interval: durationpb.New(10 * time.Minute), Metrics: []*intentpb.ValidationMetric{{
				Name: "p90", Worse: intentpb.ValidationMetric_DIRECTION_HIGHER,
				Source: &intentpb.MetricSource{Ask: &intentpb.MetricSource_Command{Command: &intentpb.CommandLine{Line: []string{program}}}},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, found.Next
	}
	found, next := ask(folder+"/measure", 10*time.Minute)
	if found.Result != "bad" || !strings.Contains(found.Reason, "p90: 203") || !next.IsZero() || len(found.Metrics) != 1 || len(found.Metrics[0].Values) != 40 || found.Metrics[0].Baseline[0] > 106 {
		t.Errorf("%+v, next %s", found, next)
	}
	text, err := validation.Unpack(found.Record)
	if err != nil {
		t.Fatal(err)
	}
	record, err := validation.ReadRecord(text)
	if err != nil || record.Settings.Name != "latency" || len(record.Readings) == 0 {
		t.Fatalf("the record: %v, %+v", err, record)
	}
	if again, _, differs, err := record.Again(); err != nil || again.Verdict != validation.Bad || len(differs) > 0 {
		t.Errorf("judged again: %v, %+v, differs: %q", err, again, differs)
	}
	// Nothing is left that did not change: it is compared with before all the same.
	compare = intentpb.Validation_COMPARISON_CONTROL
	if found, _ := ask(folder+"/measure", 10*time.Minute); found.Result != "bad" || found.Metrics[0].Baseline[0] > 106 {
		t.Errorf("without a control: %+v", found)
	}
	if found, next := ask(folder+"/measure", time.Minute); found.Result != "waiting" || !next.Equal(changed.Add(10*time.Minute)) || len(found.Metrics) != 1 || found.Record != nil {
		t.Errorf("%+v, next %s", found, next)
	}
	if found, next := ask("/bin/date", 10*time.Minute); found.Result != "broken" || !strings.Contains(found.Reason, `may not run "/bin/date"`) || !next.Equal(changed.Add(11*time.Minute)) {
		t.Errorf("%+v, next %s", found, next)
	}
	// One that began anew counts what came after, without another warm-up, and compares with the time before the change.
	restarted, warmUp = changed.Add(2*time.Minute), time.Minute
	if found, next := ask(folder+"/measure", 11*time.Minute); found.Result != "waiting" || !next.Equal(changed.Add(12*time.Minute)) {
		t.Errorf("%+v, next %s", found, next)
	}
	if found, _ := ask(folder+"/measure", 12*time.Minute); found.Result != "bad" || len(found.Metrics[0].Values) != 33 || len(found.Metrics[0].Baseline) != 40 {
		t.Errorf("%+v", found)
	}
	restarted, warmUp = time.Time{}, 0
	if _, err := assess(t.Context(), strategist.Assessing{Validation: &intentpb.Validation{}}); err == nil {
		t.Error("a validation without metrics is answered")
	}
	// Of the second in which the last asset arrived a sample may be of what was there before.
	began = changed.Add(-2 * time.Minute)
	changed = changed.Add(14*time.Second + time.Millisecond)
	found, _ = ask(folder+"/measure", 11*time.Minute)
	if text, err = validation.Unpack(found.Record); err != nil {
		t.Fatal(err)
	}
	if record, err = validation.ReadRecord(text); err != nil || !record.Changed.Equal(changed.Truncate(time.Second).Add(time.Second)) || !record.Began.Equal(began) || !record.Assessment.From.After(changed) {
		t.Errorf("%v, %+v", err, record)
	}
}

// TestPlottedValuesAreFew, finite and of all of the time.
func TestPlottedValuesAreFew(t *testing.T) {
	record, series := bigRecord()
	found := verdictOf(record, series)
	values := found.Metrics[0].Values
	if len(values) != intent.MaxMetricValues || values[0] > values[59] {
		t.Errorf("%d values, from %v to %v", len(values), values[0], values[59])
	}
	for _, v := range append(values, found.Metrics[0].Baseline...) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("%v", values)
		}
	}
}

// bigRecord has many samples, out of order, some of which are no numbers.
func bigRecord() (validation.Record, []judge.Series) {
	s := judge.Series{Metric: "a", Control: []judge.Sample{{Value: judge.Number(math.NaN())}, {Value: math.MaxFloat64}, {Value: math.MaxFloat64}, {Value: -math.MaxFloat64}}}
	for i := range 1000 {
		of := judge.Number(i % 10)
		s.Experiment = append(s.Experiment, judge.Sample{At: time.Unix(int64(1000-i), 0), Value: judge.Number(5000 - i), Of: &of})
	}
	return validation.Record{Assessment: validation.Assessment{Metrics: []validation.Metric{{Judged: judge.MetricResult{Name: "a"}}}}}, []judge.Series{s}
}
