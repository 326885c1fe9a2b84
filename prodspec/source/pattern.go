package source

import (
	"path"
	"slices"
	"strings"

	"lehr.dev/fault"
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
	refuse := func(why string) (pattern, error) {
		return pattern{}, fault.New(fault.Invalid, "file pattern %q %s", text, why).
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

func match(segments, name []string) bool {
	for len(segments) > 0 {
		if segments[0] == "**" {
			if match(segments[1:], name) {
				return true
			}
			if len(name) == 0 || hidden(name[0]) {
				return false
			}
			name = name[1:]
			continue
		}
		if len(name) == 0 || !matchSegment(segments[0], name[0]) {
			return false
		}
		segments, name = segments[1:], name[1:]
	}
	return len(name) == 0
}

func matchPrefix(segments, folder []string) bool {
	if len(folder) == 0 {
		return len(segments) > 0
	}
	if len(segments) == 0 {
		return false
	}
	if segments[0] == "**" {
		return !hidden(folder[0]) && matchPrefix(segments, folder[1:]) || matchPrefix(segments[1:], folder)
	}
	return matchSegment(segments[0], folder[0]) && matchPrefix(segments[1:], folder[1:])
}

func matchSegment(segment, name string) bool {
	if hidden(name) && !hidden(segment) {
		return false
	}
	ok, err := path.Match(segment, name)
	return ok && err == nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }
