package document

import (
	"fmt"
	"slices"
)

// Conflict is why a change was refused, where somebody else was faster. It is the
// cause of a fault of that kind.
type Conflict struct {
	// Revision is the newest.
	Revision string
	// Changed are the paths of the fields that were changed since the revision that
	// the refused change named, sorted; Conflicting those of them that it is about.
	// Both are bounded, for errors travel in headers.
	Changed, Conflicting []string
	// More was changed than is listed.
	More bool
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("the newest revision is %s, and of what changed since, these conflict: %q", c.Revision, c.Conflicting)
}

// NewConflict makes one of what was changed since, and of the paths that the refused
// change is about; nil: all.
func NewConflict(revision string, changes []Change, paths []string) (*Conflict, error) {
	c := &Conflict{Revision: revision}
	touched := changes
	if paths != nil {
		var err error
		if touched, err = Touches(changes, paths); err != nil {
			return nil, err
		}
	}
	var more [2]bool
	c.Changed, more[0] = pathsOf(changes)
	c.Conflicting, more[1] = pathsOf(touched)
	c.More = more[0] || more[1]
	return c, nil
}

// Bounds of each list of a conflict.
const (
	mostPaths     = 50
	mostPathBytes = 2000
)

func pathsOf(changes []Change) (paths []string, more bool) {
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	bytes := 0
	for i, path := range paths {
		if bytes += len(path); i == mostPaths || bytes > mostPathBytes {
			return paths[:i], true
		}
	}
	return paths, false
}

// Paths that its operations name.
func (e Edit) Paths() (paths []string) {
	for _, o := range e.Operations {
		paths = append(paths, o.Path)
	}
	return paths
}
