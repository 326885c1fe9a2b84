package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Limits of a digest: the lines before and after each failure, and the bytes of a line. What a test
// logs stands before the line that says it failed where tests are run with -v.
const (
	digestBefore = 6
	digestAfter  = 12
	digestWidth  = 240
	// digestBytes is how much all digests of a run have together: the end of a run's output is often all
	// that is kept of it.
	digestBytes = 6000
)

var (
	// failure matches a line of a log that a failure begins with. A script says at its end what failed.
	failure = regexp.MustCompile(`^\s*--- FAIL|^\s*FAIL: |^FAIL\s|^panic:|^fatal error:|^make: \*\*\*|^\S+\.go:\d+:\d+: `)
	// passed matches a line that says only that something did not fail.
	passed = regexp.MustCompile(`^ok\s|^\?\s|^\s*--- (PASS|SKIP)|^=== `)
)

// digest returns what a log says of failures, in at most so many bytes: the lines that begin one
// and some lines around each, for a whole log may be longer than what is kept of a run. The more
// failures, the fewer lines around each. It ends with the last lines of a log that names no failure.
func digest(log string, most int) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	for i, line := range lines {
		lines[i] = shorten(line)
	}
	text := ""
	for around := digestAfter; around >= 0; around-- {
		text = linesAround(lines, around)
		if len(text) <= most {
			return text
		}
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// linesAround returns the lines that begin a failure with some lines around each.
func linesAround(lines []string, around int) string {
	var told []string
	next := 0 // the first line that is not told yet
	for i, line := range lines {
		if !failure.MatchString(line) {
			continue
		}
		start, until := max(next, i-min(around, digestBefore)), min(len(lines), i+around+1)
		if start > next && next > 0 {
			told = append(told, "…")
		}
		for next = max(next, start); next < until; next++ {
			if !passed.MatchString(lines[next]) {
				told = append(told, lines[next])
			}
		}
	}
	if len(told) == 0 {
		told = lines[max(0, len(lines)-around-1):]
	}
	return strings.Join(told, "\n")
}

func shorten(line string) string {
	if len(line) > digestWidth {
		return strings.ToValidUTF8(line[:digestWidth], "") + "…"
	}
	return line
}

// printDigests prints the digests of the stages that failed.
func printDigests(failed []string) {
	for _, name := range failed {
		log, err := os.ReadFile(filepath.Join(logs, name+".log"))
		if err != nil {
			continue // It did not begin.
		}
		fmt.Printf("\n== %s failed:\n%s\n", name, digest(string(log), digestBytes/len(failed)))
	}
}
