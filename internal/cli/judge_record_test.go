package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// TestARecordIsJudgedAnew: lehr judge says what it said, or where it differs.
func TestARecordIsJudgedAnew(t *testing.T) {
	changed, r := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), rand.New(rand.NewPCG(1, 48))
	samples := func(from time.Duration, middle float64) (list []judge.Sample) {
		for at := from; at <= from+20*time.Minute; at += 15 * time.Second {
			list = append(list, judge.Sample{At: changed.Add(at), Value: judge.Number(middle + 5*r.NormFloat64())})
		}
		return list
	}
	record := func(middle float64) validation.Record {
		s := validation.Settings{Name: "web", Intervals: 2, Metrics: []validation.Measure{
			{Judge: judge.Metric{Name: "latency", Unit: "ms", Worse: judge.Higher}},
			{Judge: judge.Metric{Name: "queue", Shadow: true}},
		}}
		made, _, err := validation.NewRecord("shop/a", s, validation.Change{Done: changed}, []validation.Reading{{
			Metric: "latency", Control: validation.Side{Samples: samples(-20*time.Minute, 100)}, Experiment: validation.Side{Samples: samples(0, middle)},
		}}, changed.Add(20*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	folder := t.TempDir()
	judged := func(text []byte, arguments ...string) (int, string) {
		path := filepath.Join(folder, "record.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		code := Run(t.Context(), Local{}, Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, append([]string{"judge", path}, arguments...))
		return code, out.String()
	}
	text := func(record validation.Record) []byte {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	expect := func(code, want int, said string, words ...string) {
		t.Helper()
		if code != want {
			t.Errorf("exit code %d, not %d", code, want)
		}
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("%q is not said:\n%s", w, said)
			}
		}
	}
	code, said := judged(text(record(100)))
	expect(code, 0, said, "GOOD: the metric passed.\nIt is as it was recorded.\n", "Look 2 of 2 at the validation web of shop/a, which changed at 2026-03-02T08:00:00Z",
		"interval 2 of 2: pass", "\nlatency: good\n", "\nqueue: broken, a shadow: it does not decide\n  it was not read\n", "\n  control     ", "each over its own time")
	slow := record(100)
	slow.Began = changed.Add(-time.Minute)
	code, said = judged(text(slow))
	expect(code, 0, said, "which changed from 2026-03-02T07:59:00Z to 2026-03-02T08:00:00Z")
	code, said = judged(text(record(150)), "-o", "wide")
	expect(code, 1, said, "BAD: latency failed", "latency: bad", "shift  fail")
	changedSince := record(100)
	changedSince.Assessment.Verdict, changedSince.Assessment.Metrics[0].Verdict = validation.Bad, validation.Bad
	code, said = judged(text(changedSince))
	expect(code, 0, said, "It differs from the record: all was bad, and is good.\nIt differs from the record: latency was bad, and is good.\n")
	code, said = judged(text(changedSince), "-o", "json")
	again := validation.Record{}
	if err := json.Unmarshal([]byte(said), &again); err != nil || code != 0 || again.Assessment.Verdict != validation.Good || len(again.Readings) != 1 {
		t.Errorf("%v %d %s", err, code, said)
	}
	waits := record(100)
	waits.Readings[0].Experiment = validation.Side{Failed: "it did not answer\x1b[2J"}
	code, said = judged(text(waits))
	expect(code, 2, said, "BROKEN: nothing is known of a metric: latency: it did not answer", "all was good, and is broken")
	if strings.Contains(said, "\x1b") {
		t.Errorf("it could steer a terminal: %q", said)
	}
	for _, wrong := range []struct{ text, arguments, says string }{
		{string(text(record(100))), "--look=2", "leave --metrics, --look, --interval and --at out"},
		{`{"record": "validation/v9"}`, "-o=wide", `its version "validation/v9" is not known`},
		{`{"record": "validation/v1"}`, "-o=wide", "there are 0 metrics"},
		{`{"record": "validation/v1", "now": 5}`, "-o=wide", "is no record of a validation"},
	} {
		code, said := judged([]byte(wrong.text), wrong.arguments)
		expect(code, 2, said, wrong.says)
	}
}
