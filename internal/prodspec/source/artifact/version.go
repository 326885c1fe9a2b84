package artifact

import (
	"strings"

	"github.com/Masterminds/semver/v3"

	"lehr.dev/internal/ground/fault"
)

// Range is which versions of a chart are wanted.
type Range struct {
	text       string
	exact      bool
	constraint *semver.Constraints
}

// ParseRange reads a version, 1.2.3 or v1.2.3, or a constraint as Helm has them:
// ^1.2, ~1.2.0, ">=1.2 <2". Versions before a release (1.2.3-rc.1) count only
// where the constraint names one.
func ParseRange(text string) (Range, error) {
	if isVersion(text) {
		return Range{text: text, exact: true}, nil
	}
	constraint, err := semver.NewConstraint(text)
	if err != nil {
		return Range{}, fault.New(fault.Invalid, "%.100q is neither a version nor a constraint", text).
			WithHint(`write a version such as 1.2.3, or a constraint such as "~1.2" or ">=1.2 <2"`)
	}
	return Range{text: text, constraint: constraint}, nil
}

func isVersion(text string) bool {
	_, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	return err == nil
}

// IsVersion reports whether a tag promises to stay what it is: 1.2.3, v1.2.3.
func IsVersion(tag string) bool { return isVersion(VersionOfTag(tag)) }

// Exact reports whether it is one version.
func (r Range) Exact() bool { return r.exact }

func (r Range) String() string { return r.text }

// Has reports whether a version is wanted.
func (r Range) Has(version string) bool {
	if r.exact {
		return version == r.text || strings.TrimPrefix(version, "v") == strings.TrimPrefix(r.text, "v")
	}
	parsed, err := semver.NewVersion(version)
	return err == nil && r.constraint.Check(parsed)
}

// Newest is the newest version that is wanted; ok: there is one. Of equal ones, which
// differ in what they were built from only, it is the last in alphabetical order.
func (r Range) Newest(versions []string) (newest string, ok bool) {
	for _, version := range versions {
		if !r.Has(version) {
			continue
		}
		if c := CompareVersions(version, newest); newest == "" || c > 0 || c == 0 && version > newest {
			newest = version
		}
	}
	return newest, newest != ""
}

// CompareVersions is below zero where the first comes before the second. What is no
// version comes first.
func CompareVersions(a, b string) int {
	first, errFirst := semver.NewVersion(a)
	second, errSecond := semver.NewVersion(b)
	switch {
	case errFirst != nil && errSecond != nil:
		return strings.Compare(a, b)
	case errFirst != nil:
		return -1
	case errSecond != nil:
		return 1
	}
	return first.Compare(second)
}

// TagOf is the tag of a chart's version: registries take no "+".
func TagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

// VersionOfTag is the version of a chart's tag.
func VersionOfTag(tag string) string { return strings.ReplaceAll(tag, "_", "+") }
