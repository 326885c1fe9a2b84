package judge_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"lehr.dev/internal/ground/judge"
)

var (
	wholeGrid = flag.Bool("whole", false, "try the whole grid, and write docs/design/judge-calibration.md")
	// 12 000 take some minutes, ten times as many say it ten times as precisely.
	gridSamples = flag.Int("grid-samples", 12_000, "how many samples are judged of each cell of the whole grid")
	gridPower   = flag.Int("grid-power", 60, "how many judgements power is measured by")
	gridSeed    = flag.Uint64("grid-seed", 0, "of the cells that are tried; 0: by the clock")
)

// claimed is how often harm may be found where there is none, and a change by as much as
// matters be passed.
const claimed = 0.05

// cell of the grid: how samples come, and what is judged.
type cell struct {
	// mode is "before", "control" (both at the same time) or "untimed".
	mode string
	// before and after are how many samples each side has, one a minute; in mode control
	// those of the shorter side are further apart.
	before, after int
	// data is the kind of samples.
	data string
	// alike is the correlation of neighbours: of a process of first order.
	alike   float64
	metrics int
	looks   int
	// usual: with the default settings; else with a tolerance of 0, where a thousandth
	// matters, and any spread: the size of a change then keeps nothing from failing.
	usual bool
	// borne: as much is tolerated as is done, and no more.
	borne bool
}

func (c cell) String() string {
	settings := "sharp"
	if c.usual {
		settings = "default"
	}
	if c.borne {
		settings = "borne"
	}
	return fmt.Sprintf("%s %d:%d %s r=%g metrics=%d looks=%d %s", c.mode, c.before, c.after, c.data, c.alike, c.metrics, c.looks, settings)
}

// harm that is done to what changed.
type harm struct {
	name string
	// shift is a share of the level, spread a factor of the noise, spikes the share of
	// values that are ten times as large, leak a share of the level, grown by the end.
	shift, spread, spikes, leak float64
}

// process draws the noise of one side: its values are about 0, with the deviation 1.
type process struct {
	random *rand.Rand
	alike  float64
	state  float64
}

func newProcess(random *rand.Rand, alike float64) *process {
	return &process{random, alike, random.NormFloat64()}
}

func (p *process) next() float64 {
	p.state = p.alike*p.state + math.Sqrt(1-p.alike*p.alike)*p.random.NormFloat64()
	return p.state
}

// jumps between 0 and 1: it changes with the probability (1-r)/2 from one sample to the next, so
// that neighbours correlate by r.
type jumps struct {
	random *rand.Rand
	alike  float64
	state  float64
}

func newJumps(random *rand.Rand, alike float64) *jumps {
	return &jumps{random, alike, float64(random.IntN(2))}
}

func (j *jumps) next() float64 {
	if j.random.Float64() < (1-j.alike)/2 {
		j.state = 1 - j.state
	}
	return j.state
}

// poisson draws a count by its mean (Knuth 1969); large ones are normal.
func poisson(random *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64()))
	}
	count, product, least := 0.0, random.Float64(), math.Exp(-mean)
	for product > least {
		count++
		product *= random.Float64()
	}
	return count
}

// sample of a kind of data at a minute, with a noise.
func (c cell) sample(random *rand.Rand, noise, minute, grown float64, h harm) judge.Sample {
	factor := 1 + h.shift + h.leak*grown
	if h.spread > 0 {
		noise *= h.spread
	}
	if h.spikes > 0 && random.Float64() < h.spikes {
		factor *= 10
	}
	s := judge.Sample{At: monday.Add(time.Duration(minute * float64(time.Minute)))}
	set := func(v float64) { s.Value = judge.Number(v * factor) }
	switch c.data {
	case "normal", "gaps":
		set(100 + 15*noise)
	case "lognormal":
		set(100 * math.Exp(0.5*noise))
	case "heavy":
		set(50 * math.Pow(1-0.5*math.Erfc(noise/math.Sqrt2)*0.999, -1))
	case "ties":
		set(math.Round(4 + 1.2*noise))
	case "jumps":
		set(noise)
	case "two-levels":
		set(10 + noise + 0.05*random.NormFloat64())
	case "drift":
		set(100 + minute/2 + 15*noise)
	case "season":
		set(100*(1+0.4*math.Sin(minute/1440*2*math.Pi)) + 10*noise)
	case "mostly-zero":
		v := 0.0
		// A share of 15% of them, or more.
		if noise > distuv.UnitNormal.Quantile(1-min(0.45, 0.15*factor)) {
			v = 1
		}
		factor = 1
		set(v)
	case "counts":
		of := 200.0
		s.Value, s.Of = judge.Number(poisson(random, of*0.05*math.Exp(0.3*noise)*factor)), new(judge.Number(of))
	case "errors":
		of := 200.0
		s.Value, s.Of = judge.Number(poisson(random, of*0.01*factor)), new(judge.Number(of))
	case "sparse":
		of := 200.0
		s.Value, s.Of = judge.Number(poisson(random, of*0.001*factor)), new(judge.Number(of))
	default:
		panic(c.data)
	}
	return s
}

// series of one metric.
func (c cell) series(random *rand.Rand, name string, h harm) judge.Series {
	s := judge.Series{Metric: name}
	start := random.Float64() * 1440 // of the day
	draw := func(n int, from, step float64, h harm) []judge.Sample {
		next := newProcess(random, math.Pow(c.alike, step)).next
		if c.data == "jumps" || c.data == "two-levels" {
			next = newJumps(random, math.Pow(c.alike, step)).next
		}
		var samples []judge.Sample
		for i := range n {
			minute := from + float64(i)*step
			one := c.sample(random, next(), minute, float64(i)/float64(n), h)
			if c.data == "gaps" && (i%20 > 12 || random.Float64() < 0.1) && n > 12 {
				continue
			}
			if c.mode == "untimed" {
				one.At = time.Time{}
			}
			samples = append(samples, one)
		}
		return samples
	}
	if c.mode == "control" {
		most := max(c.before, c.after)
		s.Control = draw(c.before, start, float64(most)/float64(c.before), harm{})
		s.Experiment = draw(c.after, start, float64(most)/float64(c.after), h)
		return s
	}
	s.Control = draw(c.before, start, 1, harm{})
	s.Experiment = draw(c.after, start+float64(c.before), 1, h)
	return s
}

func (c cell) settings() judge.Settings {
	settings := judge.Settings{}
	for i := range c.metrics {
		m := judge.Metric{Name: fmt.Sprintf("m%02d", i)}
		switch {
		case c.borne:
			bound := c.level() * c.bears()
			m.Tolerance, m.Matters = &judge.Band{Absolute: bound}, &judge.Band{Absolute: bound}
			if c.data == "counts" || c.data == "sparse" {
				m.Tolerance, m.Matters = &judge.Band{Relative: c.bears()}, &judge.Band{Relative: c.bears()}
			}
		case !c.usual:
			m.Tolerance, m.Matters, m.Spread = &judge.Band{}, &judge.Band{Relative: 0.001}, 1.001
		}
		settings.Metrics = append(settings.Metrics, m)
	}
	return settings
}

// verdict of one trial; with looks, of the first that fails, or the last. Harm is done
// to the first metric alone.
func (c cell) verdict(random *rand.Rand, h harm) judge.Result {
	settings := c.settings()
	var all []judge.Series
	for i, m := range settings.Metrics {
		done := harm{}
		if i == 0 {
			done = h
		}
		all = append(all, c.series(random, m.Name, done))
	}
	var result judge.Result
	for look := 1; look <= c.looks; look++ {
		data := all
		if c.looks > 1 {
			settings.Look = look
			data = slices.Clone(all)
			for i := range data {
				seen := func(samples []judge.Sample) []judge.Sample { return samples[:len(samples)*look/c.looks] }
				if data[i].Experiment = seen(data[i].Experiment); c.mode == "control" {
					data[i].Control = seen(data[i].Control)
				}
			}
		}
		var err error
		if result, err = judge.Judge(settings, data); err != nil {
			panic(err)
		}
		if result.Verdict == judge.Fail {
			break
		}
	}
	return result
}

// level of the data without harm, and the share of it that is borne.
func (c cell) level() float64 {
	switch c.data {
	case "mostly-zero":
		return 0.15
	case "ties":
		return 4
	}
	return 100
}

func (c cell) bears() float64 {
	switch c.data {
	case "mostly-zero":
		return 1
	case "ties":
		return 0.25
	}
	return 0.2
}

// none is the harm that is none: what is borne, or nothing.
func (c cell) none() harm {
	if c.borne {
		return harm{shift: c.bears()}
	}
	return harm{}
}

// measured verdicts of trials.
type measured struct {
	trials, fail, pass int
	// found are the shifts that would have been found, of those that passed.
	found []float64
}

func (m measured) failed() float64 { return float64(m.fail) / float64(m.trials) }
func (m measured) passed() float64 { return float64(m.pass) / float64(m.trials) }

func (c cell) measure(seed uint64, trials int, h harm) (m measured) {
	m.trials = trials
	results := make([]judge.Result, trials)
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < trials; i += workers {
				results[i] = c.verdict(rand.New(rand.NewPCG(seed, uint64(i))), h)
			}
		})
	}
	group.Wait()
	for _, result := range results {
		switch result.Verdict {
		case judge.Fail:
			m.fail++
		case judge.Pass:
			m.pass++
			if found := float64(result.Metrics[0].Tests[0].Detectable); found > 0 {
				m.found = append(m.found, found)
			}
		}
	}
	return m
}

// trials of a cell: as many as can be afforded, by how many samples are judged.
func (c cell) trials(samples int) int {
	return max(20, min(2000, samples/((c.before+c.after)*c.metrics*(c.looks+1)/2)))
}

// tooOften is the probability of as many of so many trials, or more, at the rate that is claimed.
func tooOften(found, trials int) float64 {
	if found == 0 {
		return 1
	}
	return distuv.Binomial{N: float64(trials), P: claimed}.Survival(float64(found) - 1)
}

// kinds of data, with the correlation of neighbours.
type kind struct {
	data  string
	alike float64
}

func (k kind) String() string {
	if k.alike > 0 {
		return fmt.Sprintf("%s, r = %g", k.data, k.alike)
	}
	return k.data
}

var (
	gridKinds = []kind{
		{"normal", 0}, {"normal", 0.5}, {"normal", 0.8}, {"normal", 0.95}, {"lognormal", 0}, {"lognormal", 0.8}, {"lognormal", 0.95}, {"heavy", 0}, {"heavy", 0.95},
		{"jumps", 0.9}, {"jumps", 0.95}, {"ties", 0},
		{"mostly-zero", 0}, {"gaps", 0}, {"drift", 0}, {"season", 0}, {"counts", 0}, {"counts", 0.8}, {"counts", 0.95}, {"errors", 0}, {"sparse", 0},
	}
	untimedKinds = []kind{{"normal", 0}, {"lognormal", 0}, {"heavy", 0}, {"ties", 0}, {"mostly-zero", 0}, {"counts", 0}, {"errors", 0}, {"sparse", 0}}
	gridLengths  = [][2]int{{10, 100}, {24, 120}, {8, 8}, {10, 10}, {30, 30}, {60, 60}, {240, 240}, {120, 24}, {100, 10}}
	many         = [][2]int{{5, 1}, {20, 1}, {1, 10}, {1, 200}, {20, 10}} // metrics and looks
	// unheldKinds are what is not claimed.
	unheldKinds = []kind{{"two-levels", 0.9}, {"two-levels", 0.95}}
	manyKinds   = []kind{{"normal", 0}, {"normal", 0.8}, {"counts", 0}}
	borneKinds  = []kind{{"normal", 0}, {"normal", 0.8}, {"lognormal", 0}, {"ties", 0}, {"mostly-zero", 0}, {"counts", 0}}
)

// gridSection is a table of the grid.
type gridSection struct {
	title   string
	columns []string
	rows    []string
	// cells by rows.
	cells [][]cell
	// unheld: nothing is claimed of them.
	unheld bool
}

func lengthNames() (names []string) {
	for _, n := range gridLengths {
		names = append(names, fmt.Sprintf("%d:%d", n[0], n[1]))
	}
	return names
}

// falseFailures is the grid of what may fail where there is no harm.
func falseFailures() (sections []gridSection) {
	byLength := func(title, mode string, kinds []kind, borne bool) {
		s := gridSection{title: title, columns: lengthNames()}
		for _, k := range kinds {
			s.rows = append(s.rows, k.String())
			var row []cell
			for _, n := range gridLengths {
				row = append(row, cell{mode: mode, before: n[0], after: n[1], data: k.data, alike: k.alike, metrics: 1, looks: 1, borne: borne})
			}
			s.cells = append(s.cells, row)
		}
		sections = append(sections, s)
	}
	byLength("Before and after", "before", gridKinds, false)
	byLength("With a control", "control", gridKinds, false)
	byLength("Without times", "untimed", untimedKinds, false)
	for _, mode := range []string{"before", "control"} {
		byLength("Not claimed: a level that jumps by itself, "+map[string]string{"before": "before and after", "control": "with a control"}[mode], mode, unheldKinds, false)
		sections[len(sections)-1].unheld = true
	}
	byLength("As much as is tolerated, before and after", "before", borneKinds, true)
	byLength("As much as is tolerated, with a control", "control", borneKinds, true)
	byLength("As much as is tolerated, without times", "untimed", []kind{{"normal", 0}, {"lognormal", 0}, {"ties", 0}, {"mostly-zero", 0}, {"counts", 0}}, true)
	for _, mode := range []string{"before", "control"} {
		s := gridSection{title: "Many metrics and looks, " + map[string]string{"before": "before and after", "control": "with a control"}[mode]}
		for _, m := range many {
			s.columns = append(s.columns, fmt.Sprintf("%d × %d", m[0], m[1]))
		}
		for _, k := range manyKinds {
			s.rows = append(s.rows, k.String())
			var row []cell
			for _, m := range many {
				n := 60
				if m[1] == 200 {
					n = 100
				}
				row = append(row, cell{mode: mode, before: n, after: n, data: k.data, alike: k.alike, metrics: m[0], looks: m[1]})
			}
			s.cells = append(s.cells, row)
		}
		sections = append(sections, s)
	}
	return sections
}

// TestCalibration holds what docs/use/judge.md claims, in 20 cells of the grid that a seed
// chooses: harm is found where there is none, or no more than is tolerated, no more often than
// alpha. It is wrong itself in less than one of 10 000 runs. With -whole it tries all of the
// grid, and writes the page.
func TestCalibration(t *testing.T) {
	if *wholeGrid {
		writeGrid(t)
		return
	}
	if testing.Short() {
		t.Skip("judges thousands of times")
	}
	const tried, samples, wrong = 20, 30_000, 1e-4
	seed := cmp.Or(*gridSeed, uint64(time.Now().UnixNano()))
	t.Logf("go test ./judge -run TestCalibration -grid-seed %d", seed)
	var all []cell
	for _, s := range falseFailures() {
		if !s.unheld {
			all = append(all, slices.Concat(s.cells...)...)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all[:tried] {
		if m := c.measure(seed, c.trials(samples), c.none()); tooOften(m.fail, m.trials) < wrong/tried {
			t.Errorf("%s: %d of %d fail", c, m.fail, m.trials)
		}
	}
}

// harms that power is measured of.
var harms = []harm{
	{name: "35% more", shift: 0.35}, {name: "twice", shift: 1}, {name: "10 times as much", shift: 9}, {name: "3 times the scatter", spread: 3},
	{name: "5% ten times as large", spikes: 0.05}, {name: "grows by 60%", leak: 0.6},
}

// writeGrid measures all cells, and writes docs/design/judge-calibration.md.
func writeGrid(t *testing.T) {
	const seed = 1
	samples := *gridSamples
	var page strings.Builder
	page.WriteString(calibrationHead)
	fmt.Fprintf(&page, "\nOf each cell %d samples were judged, in 20 judgements at least: with 60:60 %d judgements, of which the\nshare is known to ±%.1f (two standard errors, at 5). A cell that could not be so by chance has **!**.\n", samples, samples/120, 200*math.Sqrt(claimed*(1-claimed)*120/float64(samples)))
	worst, worstCell, cells := 0.0, cell{}, 0
	for _, s := range falseFailures() {
		t.Log(s.title)
		fmt.Fprintf(&page, "\n## %s\n\n| | %s |\n|---|%s\n", s.title, strings.Join(s.columns, " | "), strings.Repeat("---|", len(s.columns)))
		for i, row := range s.cells {
			page.WriteString("| " + s.rows[i] + " |")
			for _, c := range row {
				m := c.measure(seed, c.trials(samples), c.none())
				mark := ""
				if s.unheld {
					fmt.Fprintf(&page, " %.1f |", 100*m.failed())
					continue
				}
				if cells++; tooOften(m.fail, m.trials) < 1e-4 {
					mark = " **!**"
					t.Errorf("%s: %d of %d fail", c, m.fail, m.trials)
				}
				if m.trials >= 100 && m.failed() > worst {
					worst, worstCell = m.failed(), c
				}
				fmt.Fprintf(&page, " %.1f%s |", 100*m.failed(), mark)
			}
			page.WriteString("\n")
		}
	}
	fmt.Fprintf(&page, "\nOf %d cells the worst is %.1f%%: %s.\n", cells, 100*worst, worstCell)
	writePower(t, &page, *gridPower)
	if err := os.WriteFile("../../../docs/design/judge-calibration.md", []byte(page.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writePower measures the defaults: how often each harm is found, and what a pass says.
func writePower(t *testing.T, page *strings.Builder, trials int) {
	page.WriteString(powerHead)
	page.WriteString("\n| | good: passes | fails |")
	for _, h := range harms {
		page.WriteString(" " + h.name + " |")
	}
	page.WriteString(" just matters: passes | would find | finds it |\n|---|" + strings.Repeat("---|", len(harms)+5) + "\n")
	for _, mode := range []string{"before", "control", "untimed"} {
		for _, n := range [][2]int{{8, 8}, {12, 12}, {30, 30}, {24, 120}, {60, 60}, {240, 60}} {
			for _, k := range []kind{{"normal", 0}, {"normal", 0.8}, {"lognormal", 0}, {"counts", 0}, {"errors", 0}, {"heavy", 0.95}} {
				if mode == "untimed" && (k.alike > 0 || n[0] > 60) {
					continue
				}
				c := cell{mode: mode, before: n[0], after: n[1], data: k.data, alike: k.alike, metrics: 1, looks: 1, usual: true}
				fmt.Fprintf(page, "| %s %d:%d %s |", mode, n[0], n[1], k)
				m := c.measure(2, trials, harm{})
				fmt.Fprintf(page, " %.0f | %.1f |", 100*m.passed(), 100*m.failed())
				for _, h := range harms {
					fmt.Fprintf(page, " %.0f |", 100*c.measure(3, trials, h).failed())
				}
				matters := 0.2
				if k.data == "counts" || k.data == "errors" {
					matters = 0.5
				}
				just := c.measure(4, trials, harm{shift: matters})
				if tooOften(just.pass, trials) < 1e-4 {
					t.Errorf("%s: %d of %d that just matter pass", c, just.pass, trials)
				}
				fmt.Fprintf(page, " %.1f |", 100*just.passed())
				if len(m.found) < trials/20 {
					page.WriteString(" | |\n")
					continue
				}
				slices.Sort(m.found)
				found := m.found[len(m.found)/2]
				shift := found / 100
				if k.data == "counts" || k.data == "errors" {
					shift = found - 1
				}
				fmt.Fprintf(page, " %.0f%% | %.0f |\n", 100*shift, 100*c.measure(5, trials, harm{shift: shift}).failed())
			}
		}
	}
}

const calibrationHead = `# How often the judge is wrong

Measured by simulation: how often, of a hundred judgements, harm is found where there is
none. [judge.md](../use/judge.md) claims 5 at most. ` + "`make calibrate`" + ` makes this page; CI tries 20 of
its cells, chosen by a seed, in each run.

Nothing keeps a change from failing but chance: nothing is tolerated, a thousandth matters, and
any spread. Samples are one a minute; with a control, those of the shorter side are further
apart. *r* is the correlation of neighbours, of both sides each for itself. *drift* grows by half
a percent a minute, *season* by 40% up and down with the time of day, from any time of it on;
*heavy* has no variance; *jumps* are 0 or 1, *two-levels* 10 or 11, with a little noise; *ties* have a few whole values; of *mostly-zero* 85 in 100 are zero;
*gaps* lack a third; *counts* are of about 10 events, which come in bursts, *errors* of 2 in
200, which do not, *sparse* of one in five samples.
`

const powerHead = `
## Power, with the default settings

How often, of a hundred, each harm is found: worse is either, 5% is tolerated and 20% matters,
of counts none and 50%. Normal values have a deviation of 15% of their level, lognormal ones one
of 50%. *Just matters*: how often a change by as much as matters passes. *Would find*: the change
that those that pass say would have been found with a probability of 90%, in the middle; *finds
it*: how often it is.
`
