package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/judge"
)

// plotWidth is how many characters wide a plot is, so that a line has 80 at most.
const plotWidth = 56

// Heights of a value in a line, the lowest first.
var (
	drawnHeights = []rune("▁▂▃▄▅▆▇█")
	plainHeights = []rune("_.-=+*%#")
)

// dot is a value at a time.
type dot struct {
	at time.Time
	v  float64
}

// plot draws both sides of a series on one scale: over time where their times are
// known, else as boxes.
func plot(series judge.Series, drawn bool) []string {
	sides := [][]dot{dotsOf(series.Control), dotsOf(series.Experiment)}
	if len(sides[0])+len(sides[1]) == 0 {
		return nil
	}
	timed := true
	for _, side := range sides {
		timed = timed && !slices.ContainsFunc(side, func(d dot) bool { return d.at.IsZero() })
	}
	if timed {
		return overTime(sides, drawn)
	}
	return boxes(sides)
}

// dotsOf leaves out what cannot be drawn; events are drawn as rates.
func dotsOf(samples []judge.Sample) (dots []dot) {
	for _, s := range samples {
		v := float64(s.Value)
		if s.Of != nil {
			v /= float64(*s.Of)
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			dots = append(dots, dot{s.At, v})
		}
	}
	slices.SortStableFunc(dots, func(a, b dot) int { return a.at.Compare(b.at) })
	return dots
}

// overTime draws the mean of each part of each side's own time.
func overTime(sides [][]dot, drawn bool) (lines []string) {
	heights := plainHeights
	if drawn {
		heights = drawnHeights
	}
	var parts [2][]float64
	least, most := math.Inf(1), math.Inf(-1)
	for i, side := range sides {
		parts[i] = means(side)
		for _, v := range parts[i] {
			if !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	for i, name := range []string{"control   ", "experiment"} {
		var line strings.Builder
		for _, v := range parts[i] {
			if math.IsNaN(v) {
				line.WriteByte(' ')
				continue
			}
			line.WriteRune(heights[place(v, least, most, len(heights))])
		}
		lines = append(lines, strings.TrimRight(name+"  "+line.String(), " "))
	}
	return append(lines, fmt.Sprintf("            from %.4g to %.4g, each over its own time", least, most))
}

// means of equal parts of the time of dots; NaN where there is none.
func means(dots []dot) []float64 {
	if len(dots) == 0 {
		return nil
	}
	width := min(plotWidth, len(dots))
	parts, counts := make([]float64, width), make([]float64, width)
	start := dots[0].at
	duration := dots[len(dots)-1].at.Sub(start)
	for _, d := range dots {
		i := 0
		if duration > 0 {
			i = min(width-1, int(float64(d.at.Sub(start))/float64(duration)*float64(width)))
		}
		counts[i]++
		parts[i] += (d.v - parts[i]) / counts[i]
	}
	for i, n := range counts {
		if n == 0 || math.IsInf(parts[i], 0) {
			parts[i] = math.NaN()
		}
	}
	return parts
}

// place of a value between two, from 0 to n-1.
func place(v, least, most float64, n int) int {
	share := (v/2 - least/2) / (most/2 - least/2)
	if !(share >= 0) {
		return 0
	}
	return min(n-1, int(share*float64(n)))
}

// boxes draws from the least to the largest value, the middle half as a box, and
// the median in it.
func boxes(sides [][]dot) (lines []string) {
	var sorted [2][]float64
	least, most := math.Inf(1), math.Inf(-1)
	for i, side := range sides {
		for _, d := range side {
			sorted[i] = append(sorted[i], d.v)
			least, most = min(least, d.v), max(most, d.v)
		}
		slices.Sort(sorted[i])
	}
	for i, name := range []string{"control   ", "experiment"} {
		if len(sorted[i]) == 0 {
			lines = append(lines, name)
			continue
		}
		at := func(share float64) int {
			return place(sorted[i][int(share*float64(len(sorted[i])-1)+0.5)], least, most, plotWidth)
		}
		line := []byte(strings.Repeat(" ", plotWidth))
		for k := at(0); k <= at(1); k++ {
			line[k] = '-'
		}
		for k := at(0.25); k <= at(0.75); k++ {
			line[k] = '='
		}
		line[at(0.25)], line[at(0.75)] = '[', ']'
		line[at(0.5)] = '|'
		lines = append(lines, strings.TrimRight(name+"  "+string(line), " "))
	}
	return append(lines, fmt.Sprintf("            from %.4g to %.4g: all, the middle half, the median", least, most))
}
