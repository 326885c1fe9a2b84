package web

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Sizes of a chart, in units of its view box.
const (
	chartWidth, chartHeight                      = 760.0, 220.0
	chartLeft, chartRight, chartTop, chartBottom = 72.0, 36.0, 16.0, 34.0
	chartTicks, chartTimes                       = 4, 5
	// chartPoints is how many points a line has at most; of more, the least and the most of each part are drawn.
	chartPoints = 600
)

type timedValue struct {
	at    time.Time
	value float64
}

// drawing is what a chart is drawn from.
type drawing struct {
	Name, Unit string
	// Changed is when what is judged had changed, and From and Until bound what was judged; zero: not known.
	Changed, From, Until time.Time
	// Above and Below are limits; nil: there is none.
	Above, Below *float64

	lines []drawnLine
}

type drawnLine struct {
	class  string
	points []timedValue
}

// add a line; values that are no numbers leave gaps, and samples without a time are left out.
func (d *drawing) add(class string, points []timedValue) {
	var dated []timedValue
	for _, p := range points {
		if !p.at.IsZero() {
			dated = append(dated, p)
		}
	}
	if len(dated) > 0 {
		d.lines = append(d.lines, drawnLine{class, dated})
	}
}

// chart is a drawing with its places computed. Texts are for the template to escape.
type chart struct {
	Name, Words                string
	Width, Height              float64
	Left, Right, Top, Bottom   float64
	Values                     []chartTick
	Times                      []chartTick
	Lines                      []plot
	Limits                     []chartTick
	Changed                    *chartTick
	JudgedFrom, JudgedWidth    float64
	HasBaseline, HasJudgedArea bool
}

// chartTick is a text at a place of an axis.
type chartTick struct {
	At   float64
	Text string
}

// draw computes the chart; nil: there is no sample with a number and a time.
func (d *drawing) draw() *chart {
	least, most := math.Inf(1), math.Inf(-1)
	var first, last time.Time
	for _, line := range d.lines {
		for _, p := range line.points {
			if first.IsZero() || p.at.Before(first) {
				first = p.at
			}
			if p.at.After(last) {
				last = p.at
			}
			if isNumber(p.value) {
				least, most = min(least, p.value), max(most, p.value)
			}
		}
	}
	if math.IsInf(least, 1) {
		return nil
	}
	for _, limit := range []*float64{d.Above, d.Below} {
		if limit != nil && isNumber(*limit) {
			least, most = min(least, *limit), max(most, *limit)
		}
	}
	ticks := niceTicks(least, most, chartTicks)
	least, most = min(least, ticks[0]), max(most, ticks[len(ticks)-1])
	c := &chart{Name: d.Name, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, Bottom: chartHeight - chartBottom}
	span := last.Sub(first)
	x := func(at time.Time) float64 {
		if span <= 0 {
			return (c.Left + c.Right) / 2
		}
		return c.Left + float64(at.Sub(first))/float64(span)*(c.Right-c.Left)
	}
	y := func(v float64) float64 {
		if most <= least {
			return (c.Top + c.Bottom) / 2
		}
		return c.Bottom - (v/2-least/2)/(most/2-least/2)*(c.Bottom-c.Top) // Halves, for a range may be beyond the numbers.
	}
	for _, tick := range ticks {
		c.Values = append(c.Values, chartTick{y(tick), strings.TrimSpace(fmt.Sprintf("%.4g %s", tick, d.Unit))})
	}
	layout := time.TimeOnly
	if span > 24*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range chartTimes {
		at := first.Add(span * time.Duration(i) / (chartTimes - 1))
		if span > 0 || i == 0 {
			c.Times = append(c.Times, chartTick{x(at), at.UTC().Format(layout)})
		}
	}
	for _, line := range d.lines {
		c.HasBaseline = c.HasBaseline || line.class == "baseline"
		c.Lines = append(c.Lines, drawLine(line, x, y)...)
	}
	for _, limit := range []struct {
		word  string
		value *float64
	}{{"at most", d.Above}, {"at least", d.Below}} {
		if limit.value != nil && isNumber(*limit.value) {
			c.Limits = append(c.Limits, chartTick{y(*limit.value), strings.TrimSpace(fmt.Sprintf("%s %.4g %s", limit.word, *limit.value, d.Unit))})
		}
	}
	isInside := func(at time.Time) bool { return !at.IsZero() && !at.Before(first) && !at.After(last) }
	if isInside(d.Changed) {
		c.Changed = &chartTick{x(d.Changed), "changed"}
	}
	if from, until := clampTime(d.From, first, last), clampTime(d.Until, first, last); !d.From.IsZero() && until.After(from) {
		c.HasJudgedArea, c.JudgedFrom, c.JudgedWidth = true, x(from), x(until)-x(from)
	}
	c.Words = fmt.Sprintf("%s from %s to %s: between %.4g and %.4g %s", d.Name, first.UTC().Format(time.DateTime), last.UTC().Format(time.DateTime), least, most, d.Unit)
	return c
}

func clampTime(at, first, last time.Time) time.Time {
	switch {
	case at.Before(first):
		return first
	case at.After(last):
		return last
	}
	return at
}

// drawLine draws a line with a gap where a value is no number. Of more than chartPoints, the least and the most value of each
// of equal parts are drawn, so that no peak is lost.
func drawLine(line drawnLine, x func(time.Time) float64, y func(float64) float64) (lines []plot) {
	points := thinOut(line.points, chartPoints)
	var drawn []string
	flush := func() {
		if len(drawn) == 1 {
			drawn = append(drawn, drawn[0])
		}
		if len(drawn) > 0 {
			lines = append(lines, plot{line.class, strings.Join(drawn, " ")})
		}
		drawn = nil
	}
	for _, p := range points {
		if !isNumber(p.value) {
			flush()
			continue
		}
		drawn = append(drawn, fmt.Sprintf("%.1f,%.1f", x(p.at), y(p.value)))
	}
	flush()
	return lines
}

// thinOut leaves at most so many points: of each part the least and the most value, in their order.
func thinOut(points []timedValue, limit int) []timedValue {
	if len(points) <= limit {
		return points
	}
	var left []timedValue
	parts := limit / 2
	for i := range parts {
		part := points[i*len(points)/parts : (i+1)*len(points)/parts]
		low, high := 0, 0
		for j, p := range part {
			if p.value < part[low].value || !isNumber(part[low].value) {
				low = j
			}
			if p.value > part[high].value || !isNumber(part[high].value) {
				high = j
			}
		}
		left = append(left, part[min(low, high)])
		if low != high {
			left = append(left, part[max(low, high)])
		}
	}
	return left
}

// niceTicks are about so many round values that hold all from least to most: Heckbert, Nice Numbers for Graph Labels, Graphics
// Gems, 1990.
func niceTicks(least, most float64, count int) []float64 {
	if most <= least {
		return []float64{least}
	}
	rough := most/float64(count) - least/float64(count)
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * unit
	for _, factor := range []float64{1, 2, 5} {
		if rough <= factor*unit {
			step = factor * unit
			break
		}
	}
	if !isNumber(step) || step <= 0 {
		return []float64{least, most}
	}
	var ticks []float64
	const almost = 1e-9 // Of a step: what division leaves over.
	for n := math.Floor(least/step + almost); n <= math.Ceil(most/step-almost)+0.5 && len(ticks) <= 2*count+2; n++ {
		ticks = append(ticks, n*step)
	}
	if len(ticks) < 2 || !isNumber(ticks[0]) || !isNumber(ticks[len(ticks)-1]) {
		return []float64{least, most}
	}
	return ticks
}
