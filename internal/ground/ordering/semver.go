package ordering

import (
	"cmp"
	"strings"
)

// semantic is a version of Semantic Versioning 2.0.0. Numbers are digits of any length.
type semantic struct {
	core       [3]string
	prerelease []string
}

// IsSemver reports whether a text is a version of semver.org, strictly: no leading "v", three
// numbers, none with a leading zero.
func IsSemver(text string) bool {
	_, ok := parseSemver(text)
	return ok
}

// CompareSemver orders versions by their precedence (semver.org, 11): below zero where a comes
// before b; metadata counts for nothing. What is no version comes before all that are, in
// alphabetical order.
func CompareSemver(a, b string) int {
	first, firstOK := parseSemver(a)
	second, secondOK := parseSemver(b)
	switch {
	case !firstOK && !secondOK:
		return strings.Compare(a, b)
	case !firstOK:
		return -1
	case !secondOK:
		return 1
	}
	return first.compare(second)
}

func (s semantic) compare(other semantic) int {
	for i := range s.core {
		if c := compareDigits(s.core[i], other.core[i]); c != 0 {
			return c
		}
	}
	switch {
	case len(s.prerelease) == 0 && len(other.prerelease) == 0:
		return 0
	case len(s.prerelease) == 0:
		return 1
	case len(other.prerelease) == 0:
		return -1
	}
	for i := range min(len(s.prerelease), len(other.prerelease)) {
		if c := compareIdentifier(s.prerelease[i], other.prerelease[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(s.prerelease), len(other.prerelease))
}

// compareIdentifier of prereleases: numbers come before words.
func compareIdentifier(a, b string) int {
	numberA, numberB := digits(a) == a, digits(b) == b
	switch {
	case numberA && numberB:
		return compareDigits(a, b)
	case numberA:
		return -1
	case numberB:
		return 1
	}
	return strings.Compare(a, b)
}

// parseSemver reads a version by the grammar of semver.org; ok: it is one.
func parseSemver(text string) (s semantic, ok bool) {
	rest, metadata, hasMetadata := strings.Cut(text, "+")
	core, prerelease, hasPrerelease := strings.Cut(rest, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != len(s.core) {
		return s, false
	}
	for i, number := range numbers {
		if !isNumber(number) {
			return s, false
		}
		s.core[i] = number
	}
	if hasPrerelease {
		s.prerelease = strings.Split(prerelease, ".")
		for _, identifier := range s.prerelease {
			if !isIdentifier(identifier) || digits(identifier) == identifier && !isNumber(identifier) {
				return s, false
			}
		}
	}
	if hasMetadata {
		for identifier := range strings.SplitSeq(metadata, ".") {
			if !isIdentifier(identifier) {
				return s, false
			}
		}
	}
	return s, true
}

// isNumber reports whether it is digits without a leading zero.
func isNumber(s string) bool {
	return s != "" && digits(s) == s && (s == "0" || s[0] != '0')
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		letter := s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z'
		if !letter && !digit(s[i]) && s[i] != '-' {
			return false
		}
	}
	return s != ""
}
