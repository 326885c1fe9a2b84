package validation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// TestARecordIsJudgedAgain to the same, from its bytes, whatever was read.
func TestARecordIsJudgedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		record, _, err := validation.NewRecord("web", s.settings, validation.Change{Done: changed}, s.readings, changed.Add(s.after))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(record)
		if err != nil || !validation.IsRecord(text) {
			t.Fatalf("%v %.200s", err, text)
		}
		read, err := validation.ReadRecord(text)
		if err != nil {
			t.Fatal(err)
		}
		again, series, differs, err := read.Again()
		if err != nil || len(differs) > 0 || textOf(t, again) != textOf(t, record.Assessment) || again.Look > 0 && len(series) != len(s.settings.Metrics) {
			t.Fatalf("%v %v\n%s\n%s", err, differs, textOf(t, again), textOf(t, record.Assessment))
		}
	})
}

// TestWhereAVerdictDiffers is said.
func TestWhereAVerdictDiffers(t *testing.T) {
	r := noise(1)
	record, _, err := validation.NewRecord("web", usual(measure("latency"), measure("queue")), validation.Change{Done: changed}, []validation.Reading{
		reading("latency", normal(r, 100, 10), normal(r, 100, 10)), reading("queue", normal(r, 100, 10), normal(r, 100, 10)),
	}, changed.Add(end))
	if err != nil || record.Assessment.Verdict != validation.Good {
		t.Fatalf("%v %+v", err, record.Assessment)
	}
	for i := range record.Readings[1].Experiment.Samples {
		record.Readings[1].Experiment.Samples[i].Value += 100
	}
	_, _, differs, err := record.Again()
	if want := []string{"all was good, and is bad", "queue was good, and is bad", "interval 1 was pass, and is fail", "interval 2 was pass, and is fail", "interval 3 was pass, and is fail"}; err != nil || !slices.Equal(differs, want) {
		t.Errorf("%v %q", err, differs)
	}
}

// TestRecordsAreBounded, and what is none is refused.
func TestRecordsAreBounded(t *testing.T) {
	m := measure("latency")
	s := usual(m)
	const many = validation.MostSamples + 1
	read := validation.Reading{Metric: "latency", Experiment: validation.Side{Samples: make([]judge.Sample, many)}}
	a := assess(t, s, end, read)
	if a.Verdict != validation.Broken || !strings.Contains(a.Why, "it has 5001 samples, more than 5000") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	for i := range 99 {
		s.Metrics = append(s.Metrics, measure(strings.Repeat("m", i+1)))
	}
	if s.Step = 8 * time.Second; s.MostOfSide() != 250 || s.Check() != nil {
		t.Errorf("%d, %v", s.MostOfSide(), s.Check())
	}
	if s.Step = 7 * time.Second; s.Check() == nil {
		t.Error("257 samples of each side of 100 metrics are taken")
	}
	for text, words := range map[string]string{
		"":                    "is no record",
		`{"record": "other"}`: "is not known",
		`{"record": "validation/v1", "readings": 5}`: "is no record",
		strings.Repeat(" ", validation.MaxRecord+1):  "more than",
	} {
		if _, err := validation.ReadRecord([]byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	if validation.IsRecord([]byte(`{"data": []}`)) {
		t.Error("what says nothing is a record")
	}
}
