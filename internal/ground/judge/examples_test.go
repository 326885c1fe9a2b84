package judge_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"lehr.dev/internal/ground/judge"
)

// checkClose compares to so many digits as a source prints.
func checkClose(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Permeability of the human chorioamnion at term, and between 12 and 26 weeks:
// Hollander and Wolfe (1973), Nonparametric Statistical Methods, page 69; also the
// example of R's wilcox.test, which prints W = 35, p = 0.1272. The estimate and the
// interval are those of R's package coin for the same data: 0.305, -0.15 to 0.76.
var (
	atTerm = []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	early  = []float64{1.15, 0.88, 0.90, 0.74, 1.21}
)

func TestMannWhitneyOfHollanderAndWolfe(t *testing.T) {
	said := judge.MannWhitney(early, atTerm, 0)
	checkClose(t, "U", said.U, 35, 0)
	checkClose(t, "p", said.P, 0.1272, 5e-5)
	checkClose(t, "CLES", said.CLES, 0.7, 1e-12)
	if !said.Exact {
		t.Error("15 samples without ties are counted out")
	}
	shift := judge.Shift(early, atTerm, 0.95)
	checkClose(t, "shift", shift.Estimate, 0.305, 1e-9)
	checkClose(t, "from", shift.Low, -0.15, 1e-9)
	checkClose(t, "to", shift.High, 0.76, 1e-9)
}

// Ozone in New York in May and August 1973, with ties: R's data set airquality.
// The help page of wilcox.test prints W = 127.5 (of May) and p = 0.0001208 (two-sided).
var (
	may    = []float64{41, 36, 12, 18, math.NaN(), 28, 23, 19, 8, math.NaN(), 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32, math.NaN(), math.NaN(), math.NaN(), 23, 45, 115, 37}
	august = []float64{39, 9, 16, 78, 35, 66, 122, 89, 110, math.NaN(), math.NaN(), 44, 28, 65, math.NaN(), 22, 59, 23, 31, 44, 21, 9, math.NaN(), 45, 168, 73, math.NaN(), 76, 118, 84, 85}
)

func TestMannWhitneyWithTies(t *testing.T) {
	said := judge.MannWhitney(august, may, 0)
	checkClose(t, "U", said.U, 127.5, 0)
	checkClose(t, "p", 2*judge.MannWhitney(may, august, 0).P, 0.0001208, 5e-8)
	if said.Exact {
		t.Error("with ties it is an approximation")
	}
	// gonum's area under the curve of the same is CLES.
	checkClose(t, "CLES", judge.MannWhitney(may, august, 0).CLES, 1-127.5/(26*26), 1e-12)
}

// TestMannWhitneySmallest: of two sides of five that lie apart, one order in 252.
func TestMannWhitneySmallest(t *testing.T) {
	said := judge.MannWhitney([]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 0)
	checkClose(t, "p", said.P, 1.0/252, 1e-15)
	// With a tolerance of 5.5, half of the pairs are larger.
	checkClose(t, "CLES", judge.MannWhitney([]float64{1, 2, 3, 4}, []float64{6.5, 7.5, 8.5, 9.5}, 5.5).CLES, 0.5, 1e-15)
}

// Insects in fields treated with six sprays (Beall 1942; R's data set
// InsectSprays). R's leveneTest of package car, by medians, prints F = 3.8214 with
// 5 and 66 degrees of freedom, p = 0.004223.
func TestBrownForsytheOfInsectSprays(t *testing.T) {
	said := judge.BrownForsythe(
		[]float64{10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13},
		[]float64{11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13},
		[]float64{0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4},
		[]float64{3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4},
		[]float64{3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4},
		[]float64{11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13},
	)
	checkClose(t, "F", said.F, 3.8214, 5e-5)
	checkClose(t, "p", said.P, 0.004223, 5e-7)
}

// Boice and Monson (1977): breast cancer after X-rays; the example of R's
// poisson.test, which prints a ratio of 1.971488 from 0.8584264 to 4.277265 for 11
// in 800 beside 21 in 3011.
func TestRateRatioOfPoissonTest(t *testing.T) {
	control, experiment := judge.Count{Events: 21, Of: 3011}, judge.Count{Events: 11, Of: 800}
	interval := judge.RatioInterval(control, experiment, 0.95)
	checkClose(t, "ratio", interval.Estimate, 1.971488, 5e-7)
	checkClose(t, "from", interval.Low, 0.8584264, 5e-6)
	checkClose(t, "to", interval.High, 4.277265, 5e-6)
	// The binomial distribution of gonum says the same of as many or more.
	share := 800.0 / 3811
	checkClose(t, "p", judge.RateRatio(control, experiment, 1), 1-distuv.Binomial{N: 32, P: share}.CDF(10), 1e-9)
	// Over a million events, the normal distribution takes over without a step.
	many := judge.RateRatio(judge.Count{Events: 499_000, Of: 1e7}, judge.Count{Events: 501_000, Of: 1e7}, 1)
	more := judge.RateRatio(judge.Count{Events: 499_001, Of: 1e7}, judge.Count{Events: 501_000, Of: 1e7}, 1)
	checkClose(t, "p of many", more, many, 5e-3*many)
}

// Five years of cloud seeding (Smith 1967; Hollander and Wolfe, section 9.1): C is
// -6, and the slope of Theil -0.056.
func TestTrendOfCloudSeeding(t *testing.T) {
	points := []judge.Point{{X: 1, Y: 1.26}, {X: 2, Y: 1.27}, {X: 3, Y: 1.12}, {X: 4, Y: 1.16}, {X: 5, Y: 1.03}}
	trend, err := judge.MannKendall(points, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	checkClose(t, "S", trend.S, -6, 0)
	checkClose(t, "slope", trend.Slope.Estimate, -0.05625, 1e-12)
	var x, y []float64
	for _, p := range points {
		x, y = append(x, p.X), append(y, p.Y)
	}
	checkClose(t, "tau", trend.S/10, stat.Kendall(x, y, nil), 1e-12)
	checkClose(t, "p", trend.P, distuv.UnitNormal.Survival(-7/math.Sqrt(5*4*15/18.0)), 1e-12)
}

// The example of Benjamini and Hochberg (1995), section 3.2: at 0.05 theirs finds
// four, and Bonferroni's, as Holm's, three.
func TestCorrectionsOfBenjaminiAndHochberg(t *testing.T) {
	p := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	found := func(adjusted []float64) (n int) {
		for _, a := range adjusted {
			if a <= 0.05 {
				n++
			}
		}
		return n
	}
	if n := found(judge.BenjaminiHochberg(p)); n != 4 {
		t.Errorf("Benjamini-Hochberg finds %d", n)
	}
	if n := found(judge.Holm(p)); n != 3 {
		t.Errorf("Holm finds %d", n)
	}
	// R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm").
	adjusted := judge.Holm([]float64{0.05, 0.02, 0.03, 0.04, 0.01})
	for i, want := range []float64{0.09, 0.08, 0.09, 0.09, 0.05} {
		checkClose(t, "holm", adjusted[i], want, 1e-12)
	}
}

// TestShiftCountsAllDifferences: what is counted is what would be sorted.
func TestShiftCountsAllDifferences(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		var control, experiment, differences []float64
		for range 1 + random.IntN(60) {
			control = append(control, math.Round(random.NormFloat64()*20)/4)
		}
		for range 1 + random.IntN(60) {
			experiment = append(experiment, random.NormFloat64()*20)
		}
		for _, c := range control {
			for _, e := range experiment {
				differences = append(differences, e-c)
			}
		}
		slices.Sort(differences)
		n := len(differences)
		checkClose(t, "shift", judge.Shift(control, experiment, 0.9).Estimate, (differences[(n-1)/2]+differences[n/2])/2, 1e-12)
	}
}
