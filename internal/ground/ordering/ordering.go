// Package ordering says which of two versions of an artifact is newer: by semver, by the rules
// of dpkg, by numbers or dates in their names, by when they were made or by the number of their
// build. What has no place in an order is set aside with the reason, and is never newest. It is
// pure; the source of versions and delivery ask it.
package ordering

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
)

// Version is what an order reads of a version.
type Version struct {
	// Name as it is written where the version was found: a tag, a package's version.
	Name string
	// Created is when it was made; zero: not known.
	Created time.Time
	// Build is the number of the build that made it; 0: not known.
	Build uint64
}

// Cause is why a version has no place in an order.
type Cause int

// Causes for which a version is set aside.
const (
	// NoMatch: its name is not one of those that are asked for.
	NoMatch Cause = iota + 1
	// NotAVersion: what its name holds is no version of the order's kind.
	NotAVersion
	// Prerelease: it comes before a release, and such do not count.
	Prerelease
	// NotKnown: when it was made, or by which build, is not known.
	NotKnown
)

// Aside is a version without a place in the order.
type Aside struct {
	// Index of the version among those that were given.
	Index int
	Cause Cause
}

// Order puts versions in order. It is safe for concurrent use.
type Order struct {
	by     intentpb.VersionOrder_By
	match  *regexp.Regexp
	layout string
	// prereleases that count, by their first word.
	prereleases []string
}

// mostDigits of a number or a build in a name.
const mostDigits = 100

// New reads an order. Invalid says what is wrong with it.
func New(spec *intentpb.VersionOrder) (*Order, error) {
	o := &Order{by: spec.GetBy(), prereleases: spec.GetPrereleases()}
	if text := spec.GetMatch(); text != "" {
		match, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is no regular expression: %w", text, err).WithHint("write one of RE2, as v([0-9]+)-stable")
		}
		if match.NumSubexp() > 1 && o.by != intentpb.VersionOrder_BY_NUMBER {
			return nil, fault.New(fault.Invalid, "%q has %d groups, of which one can hold what is ordered", text, match.NumSubexp()).
				WithHint("write (?:…) for groups that hold nothing; several are for numbers")
		}
		o.match = match
	}
	byDate := o.by == intentpb.VersionOrder_BY_DATE
	switch {
	case byDate && !strings.Contains(spec.GetLayout(), "YYYY"):
		return nil, fault.New(fault.Invalid, "the layout %q has no year", spec.GetLayout()).WithHint("write layout: YYYYMMDD-hhmm, of YYYY, MM, DD, hh, mm and ss")
	case !byDate && spec.GetLayout() != "":
		return nil, fault.New(fault.Invalid, "a layout is of dates only").WithHint("remove it, or order by date")
	case o.by != intentpb.VersionOrder_BY_SEMVER && len(o.prereleases) > 0:
		return nil, fault.New(fault.Invalid, "prereleases are of semver only").WithHint("remove them, or order by semver")
	}
	if byDate {
		o.layout = strings.NewReplacer("YYYY", "2006", "MM", "01", "DD", "02", "hh", "15", "mm", "04", "ss", "05").Replace(spec.GetLayout())
	}
	return o, nil
}

// key is what a version is ordered by.
type key struct {
	semantic semantic
	text     string
	numbers  []string
	time     time.Time
	number   uint64
}

// Sort returns the indices of the versions that have a place, the newest first, and those that
// have none, as they were given. Of equal ones that which was made last is the newest, and of
// those the last in alphabetical order: so the order is the same, whatever order they come in.
func (o *Order) Sort(versions []Version) (newestFirst []int, aside []Aside) {
	keys := make([]key, len(versions))
	for i, version := range versions {
		k, cause := o.key(version)
		if cause != 0 {
			aside = append(aside, Aside{i, cause})
			continue
		}
		keys[i] = k
		newestFirst = append(newestFirst, i)
	}
	slices.SortStableFunc(newestFirst, func(a, b int) int {
		return cmp.Or(o.compare(keys[b], keys[a]), versions[b].Created.Compare(versions[a].Created), strings.Compare(versions[b].Name, versions[a].Name))
	})
	return newestFirst, aside
}

// Compare two versions that both have a place: below zero where a is older than b; 0 where
// neither is. ok: both have one.
func (o *Order) Compare(a, b Version) (order int, ok bool) {
	first, causeA := o.key(a)
	second, causeB := o.key(b)
	if causeA != 0 || causeB != 0 {
		return 0, false
	}
	return o.compare(first, second), true
}

func (o *Order) key(v Version) (k key, cause Cause) {
	groups := []string{v.Name}
	if o.match != nil {
		matches := o.match.FindStringSubmatch(v.Name)
		if matches == nil {
			return k, NoMatch
		}
		if groups = matches[1:]; len(groups) == 0 {
			groups = matches
		}
	}
	switch o.by {
	case intentpb.VersionOrder_BY_DEBIAN:
		k.text = groups[0]
		return k, causeUnless(IsDebian(k.text), NotAVersion)
	case intentpb.VersionOrder_BY_NUMBER:
		k.numbers = groups
		return k, causeUnless(!slices.ContainsFunc(groups, func(s string) bool { return s == "" || digits(s) != s || len(s) > mostDigits }), NotAVersion)
	case intentpb.VersionOrder_BY_DATE:
		at, err := time.Parse(o.layout, groups[0])
		k.time = at
		return k, causeUnless(err == nil, NotAVersion)
	case intentpb.VersionOrder_BY_CREATED:
		k.time = v.Created
		return k, causeUnless(!v.Created.IsZero(), NotKnown)
	case intentpb.VersionOrder_BY_BUILD:
		k.number = v.Build
		return k, causeUnless(v.Build > 0, NotKnown)
	}
	return o.semverKey(strings.TrimPrefix(groups[0], "v"))
}

func (o *Order) semverKey(text string) (k key, cause Cause) {
	parsed, ok := parseSemver(text)
	if !ok {
		return k, NotAVersion
	}
	k.semantic = parsed
	counts := len(parsed.prerelease) == 0 || slices.ContainsFunc(o.prereleases, func(word string) bool { return word == "*" || word == parsed.prerelease[0] })
	return k, causeUnless(counts, Prerelease)
}

func causeUnless(ok bool, cause Cause) Cause {
	if ok {
		return 0
	}
	return cause
}

func (o *Order) compare(a, b key) int {
	switch o.by {
	case intentpb.VersionOrder_BY_DEBIAN:
		return CompareDebian(a.text, b.text)
	case intentpb.VersionOrder_BY_NUMBER:
		return slices.CompareFunc(a.numbers, b.numbers, compareDigits)
	case intentpb.VersionOrder_BY_BUILD:
		return cmp.Compare(a.number, b.number)
	case intentpb.VersionOrder_BY_DATE, intentpb.VersionOrder_BY_CREATED:
		return a.time.Compare(b.time)
	}
	return a.semantic.compare(b.semantic)
}
