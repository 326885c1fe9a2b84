package judge_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/judge"
)

// share of seeded trials in which something is so.
func share(trials int, is func(random *rand.Rand) bool) float64 {
	so := 0
	for seed := range trials {
		if is(noise(uint64(seed))) {
			so++
		}
	}
	return float64(so) / float64(trials)
}

// atMost is a bound with what chance may add to it: four deviations. Seeds are
// fixed, so that it holds each time or never.
func atMost(bound float64, trials int) float64 {
	return bound + 4*math.Sqrt(bound*(1-bound)/float64(trials))
}

// TestTestsFindNothingWhereNothingIs: each test alone, with samples of any size and
// kind, is wrong no more often than it says.
func TestTestsFindNothingWhereNothingIs(t *testing.T) {
	if testing.Short() {
		t.Skip("tests thousands of times")
	}
	const trials = 2000
	kinds := map[string]func(*rand.Rand) float64{
		"normal":     func(r *rand.Rand) float64 { return r.NormFloat64() },
		"log-normal": func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) },
		"heavy":      func(r *rand.Rand) float64 { return math.Pow(r.Float64(), -1/1.2) },
		"whole":      func(r *rand.Rand) float64 { return float64(r.IntN(4)) },
	}
	many := func(r *rand.Rand, n int, draw func(*rand.Rand) float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = draw(r)
		}
		return values
	}
	for name, draw := range kinds {
		for _, n := range [][2]int{{5, 5}, {12, 40}, {60, 60}} {
			rank := share(trials, func(r *rand.Rand) bool {
				return judge.MannWhitney(many(r, n[0], draw), many(r, n[1], draw), 0).P <= 0.05
			})
			spread := share(trials, func(r *rand.Rand) bool {
				return judge.BrownForsythe(many(r, n[0], draw), many(r, n[1], draw)).P <= 0.05
			})
			outside := share(trials, func(r *rand.Rand) bool {
				in := judge.Shift(many(r, n[0], draw), many(r, n[1], draw), 0.95)
				return in.Low > 0 || in.High < 0
			})
			if rank > atMost(0.05, trials) || outside > atMost(0.05, trials) {
				t.Errorf("%s, %v: ranks %.3f, intervals %.3f", name, n, rank, outside)
			}
			if spread > atMost(0.06, trials) {
				t.Errorf("%s, %v: spread %.3f", name, n, spread)
			}
		}
	}
	rate := share(trials, func(r *rand.Rand) bool {
		draw := func() (events float64) {
			for range 2000 {
				if r.Float64() < 0.004 {
					events++
				}
			}
			return events
		}
		return judge.RateRatio(judge.Count{Events: draw(), Of: 2000}, judge.Count{Events: draw(), Of: 2000}, 1) <= 0.05
	})
	trend := share(trials, func(r *rand.Rand) bool {
		points := make([]judge.Point, 20)
		for i := range points {
			points[i] = judge.Point{X: float64(i), Y: r.NormFloat64()}
		}
		said, err := judge.MannKendall(points, 0.95)
		return err != nil || said.P <= 0.05
	})
	if rate > atMost(0.05, trials) || trend > atMost(0.055, trials) {
		t.Errorf("rates %.3f, trends %.3f", rate, trend)
	}
}

// TestAllLooksTogether: looked at after each of a thousand values, a sequence is
// wrong at any look, and a wager won, no more often than alpha. A test of one look
// would be many times as often.
func TestAllLooksTogether(t *testing.T) {
	const trials, looks, alpha = 600, 1000, 0.05
	wrong := func(make func() (*judge.Sequence, error), draw func(*rand.Rand) float64, mean float64) float64 {
		return share(trials, func(r *rand.Rand) bool {
			sequence, err := make()
			if err != nil {
				t.Fatal(err)
			}
			for range looks {
				if err := sequence.Add(draw(r)); err != nil {
					t.Fatal(err)
				}
				if in := sequence.Interval(); in.Low > mean || in.High < mean {
					return true
				}
			}
			return false
		})
	}
	for name, far := range map[string]float64{
		"coins":  wrong(func() (*judge.Sequence, error) { return judge.Bounded(0, 1, alpha) }, func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, 0.5),
		"rare":   wrong(func() (*judge.Sequence, error) { return judge.Bounded(0, 1, alpha) }, func(r *rand.Rand) float64 { return math.Floor(r.Float64() * 1.02) }, 0.02/1.02),
		"scaled": wrong(func() (*judge.Sequence, error) { return judge.Bounded(-30, 70, alpha) }, func(r *rand.Rand) float64 { return 20 + 50*(2*r.Float64()-1) }, 20),
		"normal": wrong(func() (*judge.Sequence, error) { return judge.SubGaussian(7, alpha) }, func(r *rand.Rand) float64 { return 3 + 7*r.NormFloat64() }, 3),
	} {
		if far > atMost(alpha, trials) {
			t.Errorf("%s: %.3f of sequences were wrong at a look", name, far)
		}
	}
	won := func(bet func(*judge.Wager, *rand.Rand)) float64 {
		return share(trials, func(r *rand.Rand) bool {
			wager := judge.Wager{}
			for range looks {
				bet(&wager, r)
			}
			return wager.P() <= alpha
		})
	}
	events := func(r *rand.Rand, of int, rate float64) judge.Count {
		c := judge.Count{Of: float64(of)}
		for range of {
			if r.Float64() < rate {
				c.Events++
			}
		}
		return c
	}
	for name, far := range map[string]float64{
		"rates":           won(func(w *judge.Wager, r *rand.Rand) { w.AddRates(events(r, 20, 0.05), events(r, 5, 0.05), 1) }),
		"tolerated rates": won(func(w *judge.Wager, r *rand.Rand) { w.AddRates(events(r, 20, 0.05), events(r, 20, 0.06), 1.2) }),
		"differences":     won(func(w *judge.Wager, r *rand.Rand) { w.AddDifference(r.Float64()-r.Float64(), 1, 0) }),
		"rare differences": won(func(w *judge.Wager, r *rand.Rand) {
			w.AddDifference(math.Floor(r.Float64()*1.05)-0.05, 1, 0.05/1.05-0.05)
		}),
		"normal": won(func(w *judge.Wager, r *rand.Rand) { w.AddNormal(2*r.NormFloat64(), 2, 0) }),
	} {
		if far > atMost(alpha, trials) {
			t.Errorf("%s: %.3f of wagers were won", name, far)
		}
	}
	// What would be found by looking as often with a test of one look.
	naive := share(trials, func(r *rand.Rand) bool {
		sum := 0.0
		for n := 1; n <= looks; n++ {
			if sum += r.NormFloat64(); sum/math.Sqrt(float64(n)) > 1.645 {
				return true
			}
		}
		return false
	})
	if naive < 5*alpha {
		t.Errorf("a test of one look is wrong in %.3f: the trial shows nothing", naive)
	}
}

// TestSequencesFindWhatIs, and narrow.
func TestSequencesFindWhatIs(t *testing.T) {
	random := noise(1)
	bounded, err := judge.Bounded(0, 1, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	normal, err := judge.SubGaussian(0.1, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	rates, differences := judge.Wager{}, judge.Wager{}
	for range 1000 {
		v := 0.3 + 0.1*(2*random.Float64()-1)
		if err := bounded.Add(v); err != nil {
			t.Fatal(err)
		}
		if err := normal.Add(v); err != nil {
			t.Fatal(err)
		}
		rates.AddRates(judge.Count{Events: 1, Of: 100}, judge.Count{Events: 2, Of: 100}, 1.2)
		differences.AddDifference(0.1+0.2*(random.Float64()-random.Float64()), 1, 0)
	}
	for _, sequence := range []*judge.Sequence{bounded, normal} {
		in := sequence.Interval()
		checkClose(t, "mean", in.Estimate, 0.3, 0.01)
		if in.High-in.Low > 0.06 || in.Low > 0.3 || in.High < 0.3 {
			t.Errorf("%+v", in)
		}
		for _, value := range []float64{math.NaN(), math.Inf(1), 2} {
			if err := sequence.Add(value); err == nil && (value != 2 || sequence == bounded) {
				t.Errorf("%v is added", value)
			}
		}
	}
	if rates.P() > 1e-6 || differences.P() > 1e-6 {
		t.Errorf("twice the rate: %v; a tenth more: %v", rates.P(), differences.P())
	}
	for _, wrong := range []error{second(judge.Bounded(1, 1, 0.05)), second(judge.Bounded(0, math.Inf(1), 0.05)), second(judge.SubGaussian(0, 0.05)), second(judge.Bounded(0, 1, 0)), second(judge.Bounded(0, 1, math.NaN()))} {
		if wrong == nil {
			t.Error("a sequence of nothing is made")
		}
	}
}

func second(_ *judge.Sequence, err error) error { return err }

// TestJudgementsFindNothingWhereNothingIs: of five metrics of many kinds together,
// with their times of day, no more than alpha fail; by Holm at one look, and at ten
// looks at what grows.
func TestJudgementsFindNothingWhereNothingIs(t *testing.T) {
	if testing.Short() {
		t.Skip("judges hundreds of times")
	}
	const trials = 200
	data := func(r *rand.Rand, n int) []judge.Series {
		both := func(name string, draw func(int) float64) judge.Series {
			return judge.Series{Metric: name, Control: drawn(monday, n, draw), Experiment: drawn(monday, n, draw)}
		}
		return []judge.Series{
			both("normal", normal(r, 100, 30)),
			both("latency", func(int) float64 { return 40 * math.Exp(r.NormFloat64()) }),
			both("heavy", func(int) float64 { return math.Pow(r.Float64(), -1) }),
			both("day", func(i int) float64 { return 50 + 40*math.Sin(float64(i)/1440*2*math.Pi) + 10*r.NormFloat64() }),
			{Metric: "errors", Control: counts(r, monday, n, 50, 0.01), Experiment: counts(r, monday, n, 50, 0.01)},
		}
	}
	failed := share(trials, func(r *rand.Rand) bool {
		result, err := judge.Judge(judge.Settings{}, data(r, 20+r.IntN(60)))
		return err != nil || result.Verdict == judge.Fail
	})
	looked := share(trials, func(r *rand.Rand) bool {
		all := data(r, 100)
		for look := 1; look <= 10; look++ {
			var grown []judge.Series
			for _, s := range all {
				grown = append(grown, judge.Series{Metric: s.Metric, Control: s.Control[:10*look], Experiment: s.Experiment[:10*look]})
			}
			if result, err := judge.Judge(judge.Settings{Look: look}, grown); err != nil || result.Verdict == judge.Fail {
				return true
			}
		}
		return false
	})
	chained := share(trials, func(r *rand.Rand) bool {
		chain, err := judge.Chain(judge.Settings{}, data(r, 120), 30*time.Minute)
		return err != nil || chain.Verdict == judge.Fail
	})
	for name, far := range map[string]float64{"one look": failed, "ten looks": looked, "a chain": chained} {
		if far > atMost(0.05, trials) {
			t.Errorf("%s: %.3f fail", name, far)
		}
	}
	// Neighbours that are alike, before and after: without their being reckoned with,
	// about a third would fail.
	alike := share(trials, func(r *rand.Rand) bool {
		state := 0.0
		walk := func(int) float64 {
			state = 0.8*state + r.NormFloat64()
			return 100 + 10*state
		}
		result, err := judge.Judge(judge.Settings{Metrics: []judge.Metric{{Name: "a", Matters: &judge.Band{Relative: 0.01}, Tolerance: &judge.Band{}}}}, []judge.Series{
			{Metric: "a", Control: drawn(monday, 100, walk), Experiment: drawn(monday.Add(100*time.Minute), 100, walk)},
		})
		return err != nil || strings.Contains(result.Metrics[0].Tests[0].Why, "and p is")
	})
	if alike > atMost(0.1, trials) {
		t.Errorf("neighbours that are alike: %.3f fail", alike)
	}
}
