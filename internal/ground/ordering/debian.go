package ordering

import "strings"

// CompareDebian orders versions as dpkg does (deb-version(7)): below zero where a comes
// before b. Any text has a place; IsDebian says which are versions.
func CompareDebian(a, b string) int {
	epochA, restA := epoch(a)
	epochB, restB := epoch(b)
	if c := compareDigits(epochA, epochB); c != 0 {
		return c
	}
	upstreamA, revisionA := revision(restA)
	upstreamB, revisionB := revision(restB)
	if c := comparePart(upstreamA, upstreamB); c != 0 {
		return c
	}
	return comparePart(revisionA, revisionB)
}

// IsDebian reports whether a text is a version as dpkg takes them: an epoch of digits, a
// version that begins with a digit, and a revision, each of the characters that they may have.
func IsDebian(text string) bool {
	number, rest := epoch(text)
	upstream, last := revision(rest)
	plain := func(s, signs string) bool {
		for i := range len(s) {
			letter := s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z'
			if !digit(s[i]) && !letter && strings.IndexByte(signs, s[i]) < 0 {
				return false
			}
		}
		return true
	}
	const longestEpoch = 9
	return number != "" && len(number) <= longestEpoch && digits(number) == number &&
		upstream != "" && digit(upstream[0]) && plain(upstream, ".+-~:") && plain(last, ".+~") &&
		!strings.HasSuffix(rest, "-")
}

func epoch(version string) (string, string) {
	number, rest, ok := strings.Cut(version, ":")
	if !ok {
		return "0", version
	}
	return number, rest
}

func revision(version string) (upstream, revision string) {
	at := strings.LastIndexByte(version, '-')
	if at < 0 {
		return version, ""
	}
	return version[:at], version[at+1:]
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// weight of a character outside digits: ~ comes before the end, letters before
// the others.
func weight(s string) int {
	switch {
	case s == "" || digit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

func comparePart(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !digit(a[0]) || b != "" && !digit(b[0]) {
			if c := weight(a) - weight(b); c != 0 {
				return sign(c)
			}
			a, b = a[1:], b[1:]
		}
		numberA, numberB := digits(a), digits(b)
		if c := compareDigits(numberA, numberB); c != 0 {
			return c
		}
		a, b = a[len(numberA):], b[len(numberB):]
	}
	return 0
}

func digits(s string) string {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return s[:n]
}

// compareDigits compares numbers of any length.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return sign(len(a) - len(b))
	}
	return strings.Compare(a, b)
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
