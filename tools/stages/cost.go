package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// totalStage is the row of all stages together.
const totalStage = "all"

// A stage has grown when it computes this much more than the docs say: more than machines differ.
const (
	growth        = 1.3
	growthAtLeast = 10 * time.Second
)

// hasGrown reports whether a stage computes notably more than it did when the docs were written.
func hasGrown(now, then cost) bool {
	return now.Computing > then.Computing+growthAtLeast && float64(now.Computing) > growth*float64(then.Computing)
}

// render returns the table of costs beside those that the docs know, with a mark on what has grown.
func render(costs []cost, known map[string]cost) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stage\tclock\tcomputing\tin the docs\t ")
	for _, c := range costs {
		documented, ok := known[c.Stage]
		inDocs, mark := "not there", "NEW: make test-cost WRITE=1"
		if ok {
			inDocs, mark = seconds(documented.Computing), ""
		}
		if ok && hasGrown(c, documented) {
			mark = fmt.Sprintf("GREW x%.1f", float64(c.Computing)/float64(max(documented.Computing, time.Second)))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Stage, seconds(c.Clock), seconds(c.Computing), inDocs, mark)
	}
	_ = w.Flush()
	return text.String()
}

// writeCosts writes costs as lines of stage, clock and computing, in seconds.
func writeCosts(path string, costs []cost) error {
	var text strings.Builder
	for _, c := range costs {
		fmt.Fprintf(&text, "%s\t%.1f\t%.1f\n", c.Stage, c.Clock.Seconds(), c.Computing.Seconds())
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

func readCosts(path string) ([]cost, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var costs []cost
	for lines := bufio.NewScanner(file); lines.Scan(); {
		c, ok := parseCost(strings.Split(lines.Text(), "\t"))
		if !ok {
			return nil, fmt.Errorf("%s: %q is not STAGE, CLOCK and COMPUTING", path, lines.Text())
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// parseCost reads a row of a stage, its clock and its computing in seconds.
func parseCost(fields []string) (cost, bool) {
	if len(fields) < 3 {
		return cost{}, false
	}
	var d [2]time.Duration
	for i, field := range fields[1:3] {
		s, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(field), " s"), 64)
		if err != nil {
			return cost{}, false
		}
		d[i] = time.Duration(s * float64(time.Second))
	}
	return cost{strings.TrimSpace(fields[0]), d[0], d[1]}, true
}

// The table in the docs stands between these lines.
const (
	tableBegins = "<!-- costs: make test-cost WRITE=1 -->"
	tableEnds   = "<!-- end of costs -->"
)

// readDocs returns the costs that a page says, by stage.
func readDocs(path string) (map[string]cost, error) {
	page, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(page), tableBegins)
	rows, _, _ := strings.Cut(rest, tableEnds)
	costs := map[string]cost{}
	for row := range strings.Lines(rows) {
		if c, ok := parseCost(strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")); ok {
			costs[c.Stage] = c
		}
	}
	return costs, nil
}

// writeDocs puts the costs in place of the table that a page has.
func writeDocs(path string, costs []cost) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, okEnd := strings.Cut(rest, tableEnds)
	if !ok || !okEnd {
		return fmt.Errorf("%s has no table between %q and %q", path, tableBegins, tableEnds)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s\n\n| stage | clock | computing | what it runs |\n|---|--:|--:|---|\n", before, tableBegins)
	for _, c := range costs {
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", c.Stage, seconds(c.Clock), seconds(c.Computing), purpose(c.Stage))
	}
	fmt.Fprintf(&text, "\n%s%s", tableEnds, after)
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// purpose returns what a stage of the table is for.
func purpose(name string) string {
	for _, s := range table {
		if s.Name == name {
			return s.Purpose
		}
	}
	return ""
}
