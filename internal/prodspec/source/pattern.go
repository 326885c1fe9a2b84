package source

import (
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// pattern matches slash-separated paths, segment by segment.
type pattern struct {
	text     string
	segments []string
}

// CheckPattern refuses what is not a pattern of files inside a folder.
func CheckPattern(text string) error {
	_, err := parsePattern(text)
	return err
}

func parsePattern(text string) (pattern, error) {
	refuse := func(problem string) (pattern, error) {
		return pattern{}, fault.New(fault.Invalid, "file pattern %q %s", text, problem).
			WithHint("write a path inside the folder, for example service.yaml, *.sql or **/*.yaml")
	}
	clean := strings.TrimPrefix(text, "./")
	if clean == "" || strings.ContainsRune(clean, 0) {
		return refuse("is empty")
	}
	if path.IsAbs(clean) {
		return refuse("is absolute")
	}
	segments := strings.Split(clean, "/")
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return refuse("has a segment that is empty, . or ..")
		}
		if _, err := path.Match(segment, ""); err != nil {
			return refuse("has a malformed segment " + segment)
		}
	}
	if segments[len(segments)-1] == "**" {
		segments = append(segments, "*")
	}
	return pattern{text: text, segments: segments}, nil
}

// Patterns say which files of a folder are wanted.
type Patterns []pattern

// ParsePatterns takes patterns in the form that Open describes.
func ParsePatterns(folder string, texts []string) (Patterns, error) {
	if len(texts) == 0 {
		return nil, fault.New(fault.Invalid, "source %s names no files", folder)
	}
	var patterns Patterns
	for _, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// Match reports whether any matches a path relative to the folder.
func (p Patterns) Match(name string) bool {
	return slices.ContainsFunc(p, func(p pattern) bool { return p.matches(name) })
}

// MayBeBelow reports whether a file in a folder inside may match.
func (p Patterns) MayBeBelow(folder string) bool {
	return slices.ContainsFunc(p, func(p pattern) bool { return p.mayBeBelow(folder) })
}

func (p pattern) matches(name string) bool {
	return match(p.segments, strings.Split(name, "/"))
}

// mayBeBelow reports whether a path inside the folder may match.
func (p pattern) mayBeBelow(folder string) bool {
	return matchPrefix(p.segments, strings.Split(folder, "/"))
}

// match takes time in the product of both lengths, whatever a tenant writes: it
// keeps which beginnings of the name the segments so far match, by length.
func match(segments, name []string) bool {
	reached := make([]bool, len(name)+1)
	reached[0] = true
	for _, segment := range segments {
		reached = step(segment, name, reached)
	}
	return reached[len(name)]
}

// matchPrefix reports whether some of the segments match the folder, and others
// are left for what is in it.
func matchPrefix(segments, folder []string) bool {
	reached := make([]bool, len(folder)+1)
	reached[0] = true
	for _, segment := range segments {
		if segment == "**" { // It goes on below the folder.
			reached = step(segment, folder, reached)
		}
		if reached[len(folder)] {
			return true
		}
		if segment != "**" {
			reached = step(segment, folder, reached)
		}
	}
	return false
}

func step(segment string, name []string, reached []bool) []bool {
	next := make([]bool, len(reached))
	if segment == "**" {
		copy(next, reached)
	}
	for i, part := range name {
		if segment == "**" {
			next[i+1] = next[i+1] || next[i] && !hidden(part)
		} else {
			next[i+1] = reached[i] && matchSegment(segment, part)
		}
	}
	return next
}

func matchSegment(segment, name string) bool {
	if hidden(name) && !hidden(segment) {
		return false
	}
	ok, err := path.Match(segment, name)
	return ok && err == nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }
