package promotion

import (
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
)

// Version is one that the source has, or had and that is still remembered.
type Version struct {
	ordering.Version
	Digest string
	// Commit that it was made of; empty: not known.
	Commit string
	// Withdrawn: the source has it no longer. It is promoted nowhere.
	Withdrawn bool
}

// VersionName is what it is known by.
func (v Version) VersionName() intent.VersionName {
	return intent.VersionName{Name: v.Name, Digest: v.Digest}
}

// Catalogue holds the versions of an application in their order. It is made when what is known
// of them changes, and is safe for concurrent use.
type Catalogue struct {
	// versions, the oldest first: a place is an index of it.
	versions []Version
	// withdrawn are the places of those that the source has no longer.
	withdrawn []int
	places    map[intent.VersionName]int
	// newestNamed is the place of the newest version of a name, which may have led to several digests.
	newestNamed map[string]int
	aside       []Aside
}

// Aside is a version without a place in the order: it is listed, and a candidate nowhere unless
// a person pins it.
type Aside struct {
	Version
	Cause ordering.Cause
}

// nowhere is the place of what has none.
const nowhere = -1

// NewCatalogue orders versions. Invalid: two of them have one name and one digest, or one name
// and both are there now.
func NewCatalogue(order *ordering.Order, versions []Version) (*Catalogue, error) {
	named := make([]ordering.Version, len(versions))
	present := make(map[string]bool, len(versions))
	c := &Catalogue{places: make(map[intent.VersionName]int, len(versions)), newestNamed: make(map[string]int, len(versions))}
	for i, v := range versions {
		named[i] = v.Version
		_, ok := c.places[v.VersionName()]
		if ok || present[v.Name] && !v.Withdrawn {
			return nil, fault.New(fault.Invalid, "there are two versions %s", v.Name).WithHint("a name leads to one version: mend the source of versions, or how it is read")
		}
		present[v.Name] = present[v.Name] || !v.Withdrawn
		c.places[v.VersionName()] = nowhere
	}
	newestFirst, aside := order.Sort(named)
	for i := len(newestFirst) - 1; i >= 0; i-- {
		v := versions[newestFirst[i]]
		c.places[v.VersionName()], c.newestNamed[v.Name] = len(c.versions), len(c.versions)
		if v.Withdrawn {
			c.withdrawn = append(c.withdrawn, len(c.versions))
		}
		c.versions = append(c.versions, v)
	}
	for _, a := range aside {
		c.aside = append(c.aside, Aside{versions[a.Index], a.Cause})
	}
	return c, nil
}

// Ordered are the versions that have a place, the oldest first.
func (c *Catalogue) Ordered() []Version { return c.versions }

// Aside are the versions that have none.
func (c *Catalogue) Aside() []Aside { return c.aside }

// Place of a version in the order, from 0 for the oldest; below 0: it has none.
func (c *Catalogue) Place(version intent.VersionName) int {
	place, _ := c.place(version)
	return place
}

// isWithdrawn reports whether the source has the version of a place no longer.
func (c *Catalogue) isWithdrawn(place int) bool {
	return place != nowhere && c.versions[place].Withdrawn
}

// newest of those that have a place; zero: there is none.
func (c *Catalogue) newest() intent.VersionName {
	if len(c.versions) == 0 {
		return intent.VersionName{}
	}
	return c.versions[len(c.versions)-1].VersionName()
}

// place of a version; nowhere: it has none. known: the catalogue has it.
func (c *Catalogue) place(r intent.VersionName) (place int, known bool) {
	place, known = c.places[r]
	if !known {
		return nowhere, false
	}
	return place, true
}

// oldestAfter is the place of the oldest version that may replace a version: the one after its own. A
// version that the catalogue does not have, but whose name it has, is replaced by the version of
// that name too: somebody set the name by hand and left the digest. ok: it can be compared.
func (c *Catalogue) oldestAfter(r intent.VersionName) (place int, ok bool) {
	if place, known := c.place(r); known {
		return place + 1, place != nowhere
	}
	place, ok = c.newestNamed[r.Name]
	return place, ok
}
