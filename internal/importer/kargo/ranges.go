package kargo

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// unlimited is the end of a range that has none.
const unlimited = math.MaxInt

// triple is major, minor and patch.
type triple [3]int

// span is a half-open range of versions; until nil has no end.
type span struct {
	from  triple
	until *triple
}

// rangePattern is a regular expression (RE2) that matches the versions of a constraint of
// github.com/Masterminds/semver, which is what Kargo compares with. Versions before a release
// match where a bound names one by -0, as there.
func rangePattern(constraint string) (string, error) {
	var parts []string
	prereleases := strings.Contains(constraint, "-0")
	constraint = strings.ReplaceAll(constraint, "-0", "")
	for _, alternative := range strings.Split(constraint, "||") {
		s := span{}
		for _, term := range terms.FindAllString(alternative, -1) {
			bound, err := readTerm(term)
			if err != nil {
				return "", err
			}
			s = s.intersect(bound)
		}
		if rest := strings.TrimSpace(terms.ReplaceAllString(alternative, "")); strings.Trim(rest, " ,") != "" || strings.TrimSpace(alternative) == "" {
			return "", fmt.Errorf("%q is no constraint that can be carried over: write bounds with ^, ~, >=, >, <=, < or =", constraint)
		}
		pattern := s.pattern()
		if pattern == "" {
			return "", fmt.Errorf("%q lets no version in", constraint)
		}
		parts = append(parts, pattern)
	}
	suffix := ""
	if prereleases {
		suffix = `(?:-.*)?`
	}
	return "v?(?:" + strings.Join(parts, "|") + ")" + suffix + `(?:\+.*)?`, nil
}

var (
	terms = regexp.MustCompile(`(?:\^|~>?|>=|=>|<=|=<|>|<|=)?\s*v?(?:[0-9]+|[xX*])(?:\.(?:[0-9]+|[xX*])){0,2}(?:[^-+0-9A-Za-z.!]|$)`)
	term  = regexp.MustCompile(`^(\^|~>?|>=|=>|<=|=<|>|<|=)?\s*v?([0-9xX*.]+)[\s,]*$`)
)

// readTerm is the range of one bound.
func readTerm(text string) (span, error) {
	match := term.FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return span{}, fmt.Errorf("%q is no bound of versions", strings.TrimSpace(text))
	}
	var from triple
	given := 0
	for i, part := range strings.Split(match[2], ".") {
		if part == "" || strings.ContainsAny(part, "xX*") {
			break
		}
		number, err := strconv.Atoi(part)
		if err != nil || i > 2 {
			return span{}, errors.New("a number of a version is too large")
		}
		from[i], given = number, i+1
	}
	// firstBeyond is the first version beyond those that begin with what was given.
	firstBeyond := func(places int) *triple {
		if places == 0 {
			return nil
		}
		next := from
		next[places-1]++
		for i := places; i < 3; i++ {
			next[i] = 0
		}
		return &next
	}
	switch match[1] {
	case ">=", "=>":
		return span{from: from}, nil
	case ">":
		if next := firstBeyond(given); next != nil {
			return span{from: *next}, nil
		}
		return span{from: from, until: &from}, nil
	case "<":
		return span{until: &from}, nil
	case "<=", "=<":
		return span{until: firstBeyond(given)}, nil
	case "^":
		return span{from, firstBeyond(caretPlaces(from, given))}, nil
	case "~", "~>":
		return span{from, firstBeyond(min(given, 2))}, nil
	}
	return span{from, firstBeyond(given)}, nil
}

// caretPlaces is up to which place nothing may change: the first that is not 0.
func caretPlaces(from triple, given int) int {
	for i := range given {
		if from[i] != 0 {
			return i + 1
		}
	}
	return given
}

func compareTriples(a, b triple) int {
	for i := range a {
		if a[i] != b[i] {
			return a[i] - b[i]
		}
	}
	return 0
}

func (s span) intersect(other span) span {
	if compareTriples(other.from, s.from) > 0 {
		s.from = other.from
	}
	if other.until != nil && (s.until == nil || compareTriples(*other.until, *s.until) < 0) {
		s.until = other.until
	}
	return s
}

// pattern matches what is in the span; nothing: it is empty.
func (s span) pattern() string {
	if s.until == nil {
		return atLeast(s.from[:])
	}
	if compareTriples(s.from, *s.until) >= 0 {
		return ""
	}
	return between(s.from[:], s.until[:])
}

// anything matches so many numbers, each after a dot.
func anything(count int) string { return strings.Repeat(`\.[0-9]+`, count) }

func either(parts ...string) string {
	var some []string
	for _, part := range parts {
		if part != "" {
			some = append(some, part)
		}
	}
	switch len(some) {
	case 0:
		return ""
	case 1:
		return some[0]
	}
	return "(?:" + strings.Join(some, "|") + ")"
}

// join has a rest follow a number; without either there is nothing.
func join(number, rest string) string {
	if number == "" || rest == "" {
		return ""
	}
	return number + `\.` + rest
}

func atLeast(from []int) string {
	if len(from) == 1 {
		return numbers(from[0], unlimited)
	}
	return either(join(strconv.Itoa(from[0]), atLeast(from[1:])), numbers(from[0]+1, unlimited)+anything(len(from)-1))
}

func below(until []int) string {
	if len(until) == 1 {
		return numbers(0, until[0]-1)
	}
	less := numbers(0, until[0]-1)
	if less != "" {
		less += anything(len(until) - 1)
	}
	return either(join(strconv.Itoa(until[0]), below(until[1:])), less)
}

func between(from, until []int) string {
	switch {
	case len(from) == 1:
		return numbers(from[0], until[0]-1)
	case from[0] == until[0]:
		return join(strconv.Itoa(from[0]), between(from[1:], until[1:]))
	}
	middle := numbers(from[0]+1, until[0]-1)
	if middle != "" {
		middle += anything(len(from) - 1)
	}
	return either(join(strconv.Itoa(from[0]), atLeast(from[1:])), middle, join(strconv.Itoa(until[0]), below(until[1:])))
}

// numbers matches whole numbers from one to another, both included.
func numbers(from, to int) string {
	if from > to {
		return ""
	}
	if to == unlimited {
		digits := len(strconv.Itoa(from))
		if from == 0 {
			return "[0-9]+"
		}
		last := 1
		for range digits {
			last *= 10
		}
		return either(numbers(from, last-1), fmt.Sprintf("[1-9][0-9]{%d,}", digits))
	}
	var parts []string
	for from <= to {
		end := endOfBlock(from, to)
		parts = append(parts, block(strconv.Itoa(from), strconv.Itoa(end)))
		from = end + 1
	}
	return either(parts...)
}

// endOfBlock is the last number up to which digits vary each for itself.
func endOfBlock(from, to int) int {
	size := 1
	for from > 0 && from%(size*10) == 0 && from+size*10-1 <= to {
		size *= 10
	}
	end := from + size - 1
	for digit := from / size % 10; digit < 9 && end+size <= to; digit++ {
		end += size
	}
	return end
}

// block matches numbers of as many digits, between those of two.
func block(from, to string) string {
	var made strings.Builder
	for i := range from {
		switch {
		case from[i] == to[i]:
			made.WriteByte(from[i])
		default:
			fmt.Fprintf(&made, "[%c-%c]", from[i], to[i])
		}
	}
	return made.String()
}
