package versionlist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/ordering"
)

// mostWithdrawn are remembered beside those that are kept.
const mostWithdrawn = 100

// Found is what a look at a source brought.
type Found struct {
	// Versions that passed all filters, in any order. One without a digest that had one before was
	// not looked at, for it is beyond the limit.
	Versions []Version
	Refused  []Aside
	// Unmatched counts names that were not asked for.
	Unmatched int
}

// Rules say how a list is made of what was found.
type Rules struct {
	Order *ordering.Order
	// Limit of versions that can be deployed, and of each other list; at least 1.
	Limit int
	// Keep are names or version texts that no limit leaves out: what is deployed, pinned or
	// approved.
	Keep []string
}

// kept reports whether no limit leaves the version out.
func (r Rules) kept(v Version) bool {
	return slices.Contains(r.Keep, v.Name) || slices.Contains(r.Keep, v.Version)
}

// Arrange makes the list of what was found, with what the list before had and the source has no
// longer. Warnings name tags that moved and versions that were withdrawn since that list.
func Arrange(found Found, rules Rules, previous List, now time.Time) (list List, warnings []string) {
	single, ambiguous := unambiguous(found.Versions)
	list.Refused = append(ambiguous, found.Refused...)
	list.Unmatched = found.Unmatched

	named := make([]ordering.Version, len(single))
	for i, v := range single {
		named[i] = v.Ordered()
	}
	newestFirst, aside := rules.Order.Sort(named)
	for _, at := range newestFirst {
		v := single[at]
		if len(list.Versions) < rules.Limit || rules.kept(v) {
			list.Versions = append(list.Versions, v)
			continue
		}
		list.Older++
	}
	for _, a := range aside {
		list.Unordered = append(list.Unordered, Aside{single[a.Index], NotInOrder, reasonOf(a.Cause)})
	}
	present := presentOf(found.Versions, list.Refused)
	list.Unordered, list.MoreUnordered = rules.bound(list.Unordered)
	list.Refused, list.MoreRefused = rules.bound(list.Refused)
	var fresh []string
	list.Withdrawn, fresh = rules.withdrawn(previous, present, now)
	for _, a := range ambiguous {
		warnings = append(warnings, fmt.Sprintf("%s: %s", a.Name, a.Reason))
	}
	return list, append(slices.Compact(warnings), fresh...)
}

// reasonOf a version without a place, for people.
func reasonOf(cause ordering.Cause) string {
	switch cause {
	case ordering.NoMatch:
		return "its name does not match the order's regular expression"
	case ordering.Prerelease:
		return "it comes before a release, and the order counts none such"
	case ordering.NotKnown:
		return "when it was made, or by which build, is not known"
	}
	return "its name is no version of the order's kind"
}

// unambiguous sets aside all that are one version with several digests, whether their names differ
// (v1.2.3 and 1.2.3) or not. Of several with one digest it takes the first.
func unambiguous(versions []Version) (single []Version, aside []Aside) {
	digests := map[string][]string{}
	for _, v := range versions {
		if !slices.Contains(digests[v.Version], v.Digest) {
			digests[v.Version] = append(digests[v.Version], v.Digest)
		}
	}
	taken := map[string]bool{}
	for _, v := range versions {
		if several := digests[v.Version]; len(several) > 1 {
			slices.Sort(several)
			aside = append(aside, Aside{v, Ambiguous, "the source has it more than once, with different content: " + strings.Join(several, ", ")})
			continue
		}
		if !taken[v.Version] {
			single = append(single, v)
		}
		taken[v.Version] = true
	}
	return single, aside
}

// bound leaves those that were made last and those that are kept, and counts the others.
func (r Rules) bound(all []Aside) (list []Aside, more int) {
	slices.SortStableFunc(all, func(a, b Aside) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name), strings.Compare(b.Digest, a.Digest))
	})
	for _, a := range all {
		if len(list) < r.Limit || r.kept(a.Version) {
			list = append(list, a)
			continue
		}
		more++
	}
	return list, more
}

// presentOf are the digests that each name leads to now.
func presentOf(versions []Version, refused []Aside) map[string][]string {
	present := map[string][]string{}
	for _, v := range versions {
		present[v.Name] = append(present[v.Name], v.Digest)
	}
	for _, a := range refused {
		present[a.Name] = append(present[a.Name], a.Digest)
	}
	return present
}

// withdrawn are those of the list before that are not there any more.
func (r Rules) withdrawn(previous List, present map[string][]string, now time.Time) (list []Withdrawn, warnings []string) {
	gone := func(v Version) bool {
		digests, ok := present[v.Name]
		return !ok || v.Digest != "" && !slices.Contains(digests, v.Digest) && !slices.Contains(digests, "")
	}
	earlier := slices.Clone(previous.Versions)
	for _, a := range previous.Unordered {
		earlier = append(earlier, a.Version)
	}
	for _, v := range earlier {
		if !gone(v) {
			continue
		}
		w := Withdrawn{Version: v, Since: now.UTC().Truncate(time.Second)}
		if digests := present[v.Name]; len(digests) > 0 {
			w.MovedTo = digests[0]
			warnings = append(warnings, fmt.Sprintf("%s moved from %s to %s: it is another version now, which nobody approved", v.Name, v.Digest, w.MovedTo))
		} else {
			warnings = append(warnings, fmt.Sprintf("%s was withdrawn: the source has it no longer", v.Name))
		}
		list = append(list, w)
	}
	for _, w := range previous.Withdrawn {
		if gone(w.Version) {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b Withdrawn) int { return b.Since.Compare(a.Since) })
	bounded := 0
	list = slices.DeleteFunc(list, func(w Withdrawn) bool {
		bounded++
		return bounded > mostWithdrawn && !r.kept(w.Version)
	})
	return list, warnings
}
