package web_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/internal/store"
	"lehr.dev/internal/web"
)

// judged stores the record of a validation of two metrics, of which one has a limit that it breaks, and returns its name.
func (w *world) judged() string {
	w.Helper()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	limit := 0.5
	settings := validation.Settings{
		Name: "errors", Interval: 10 * time.Minute, Intervals: 1, Every: 10 * time.Minute, Step: 10 * time.Second, Compare: validation.Control,
		Metrics: []validation.Measure{
			{Judge: judge.Metric{Name: "rate " + hostile[0], Unit: "ms", Worse: judge.Higher}, Compare: validation.Control, Source: validation.Source{HTTP: "main", Query: "q"}},
			{Judge: judge.Metric{Name: "share", Limit: &judge.Limit{Above: &limit}}, Compare: validation.None, Source: validation.Source{HTTP: "main", Query: "q"}},
		},
	}
	side := func(base float64) (side validation.Side) {
		for i := range 60 {
			at := now.Add(-10*time.Minute + time.Duration(i)*10*time.Second)
			side.Samples = append(side.Samples, judge.Sample{At: at, Value: judge.Number(base + float64(i%7)/100)})
		}
		return side
	}
	readings := []validation.Reading{
		{Metric: settings.Metrics[0].Judge.Name, Control: side(1), Experiment: side(9)},
		{Metric: "share", Experiment: side(0.7)},
	}
	record, _, err := validation.NewRecord("stage canary of run 3 of frontends", settings, validation.Change{Began: now.Add(-11 * time.Minute), Done: now.Add(-10 * time.Minute)}, readings, now)
	w.must(err)
	packed, err := record.Pack()
	w.must(err)
	name := store.JudgementName(now, "frontends@3/canary/errors")
	w.must(w.store.PutBlobs(w.Context(), w.lease, store.JudgementBlobs, map[string][]byte{name: packed}))
	return name
}

// TestJudgement: the page of a record draws each metric with its axes, unit, limit and what was judged, and has the tests with
// their intervals.
func TestJudgement(t *testing.T) {
	w := newWorld(t)
	w.three()
	name := w.judged()
	text := w.shows("/partition/shop/judgement/"+name, `<polyline class="values"`, `<polyline class="baseline"`, `<rect class="judged"`, `class="limit"`, "at most 0.5", "ms</text>", "11:50:00", "its confidence interval",
		`href="partition/shop/rollout/frontends?run=3"`, "lehr rollout record")
	if strings.Contains(text, hostile[0]) && strings.ContainsAny(hostile[0], "<\x1b") {
		t.Errorf("it shows %q as it is", hostile[0])
	}
	said := words(text)
	for _, want := range []string{"Validation errors", "bad", "share bad", "shift", "+8 ms, from", "limit", "60 samples", "stage canary of run 3 of frontends"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	if status, _ := w.get("/partition/shop/judgement/" + strings.Replace(name, "errors", "none", 1)); status != 404 {
		t.Errorf("a record that there is not is answered %d", status)
	}
	w = newWorld(t)
	w.rolled()
	run := soaking()
	run.Progress.Verdicts[0].Record = w.judged()
	w.step(run, nil)
	w.shows("/partition/shop/rollout/frontends", `href="partition/shop/judgement/`+name+`">plots and tests</a>`)
}

// TestTicks: round values that hold all, whatever the range.
func TestTicks(t *testing.T) {
	for _, test := range []struct {
		least, most float64
		want        []float64
	}{
		{0, 1, []float64{0, 0.5, 1}},
		{0.15, 0.2632, []float64{0.15, 0.2, 0.25, 0.3}},
		{-3, 12, []float64{-5, 0, 5, 10, 15}},
		{5, 5, []float64{5}},
		{0, 1e-300, []float64{0, 5e-301, 1e-300}},
	} {
		got := web.NiceTicks(test.least, test.most, 4)
		if !slices.EqualFunc(got, test.want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }) {
			t.Errorf("from %g to %g: %v, want %v", test.least, test.most, got, test.want)
		}
	}
	for _, most := range []float64{math.MaxFloat64, 1e308, 1e-320} {
		ticks := web.NiceTicks(-most, most, 4)
		if len(ticks) < 2 || len(ticks) > 12 || ticks[0] > -most || ticks[len(ticks)-1] < most {
			t.Errorf("of %g: %v", most, ticks)
		}
	}
}

// TestPeaksAreKept: of a long line the least and the most value of each part stay, also beside what is no number.
func TestPeaksAreKept(t *testing.T) {
	values := make([]float64, 5000)
	values[17], values[3000], values[3001], values[4999] = 9, -9, math.NaN(), 5
	left := web.ThinOut(values, 600)
	if len(left) > 600 || !slices.Contains(left, 9) || !slices.Contains(left, -9) || !slices.Contains(left, 5) {
		t.Errorf("%d are left, from %g to %g", len(left), slices.Min(left), slices.Max(left))
	}
	if few := web.ThinOut([]float64{1, 2, 3}, 600); !slices.Equal(few, []float64{1, 2, 3}) {
		t.Errorf("of few values %v are left", few)
	}
}
