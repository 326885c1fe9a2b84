package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Limits of a digest: the lines before and after each failure, the lines of a stage, the bytes of
// a line. What a test logs stands before the line that says it failed where tests are run with -v.
const (
	digestBefore = 6
	digestAfter  = 12
	digestLines  = 80
	digestWidth  = 400
)

// failure matches a line of a log that a failure begins with.
var failure = regexp.MustCompile(`^\s*--- FAIL|^FAIL\s|^panic:|^fatal error:|^make: \*\*\*|^\S+\.go:\d+:\d+: `)

// digest returns what a log says of failures: the lines that begin one and some lines after
// each, for a whole log may be longer than what is kept of a run. It ends with the last
// lines of a log that names no failure.
func digest(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	var told []string
	next := 0 // the first line that is not told yet
	for i, line := range lines {
		if !failure.MatchString(line) {
			continue
		}
		start, until := max(next, i-digestBefore), min(len(lines), i+digestAfter+1)
		for next = start; next < until; next++ {
			told = append(told, shorten(lines[next]))
		}
	}
	if len(told) == 0 {
		for _, line := range lines[max(0, len(lines)-digestAfter):] {
			told = append(told, shorten(line))
		}
	}
	if more := len(told) - digestLines; more > 0 {
		told = append(told[:digestLines], fmt.Sprintf("… and %d lines more", more))
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
		fmt.Printf("\n== %s failed:\n%s\n", name, digest(string(log)))
	}
}
