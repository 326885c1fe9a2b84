package check

import (
	"fmt"
	"strconv"

	"github.com/Masterminds/semver/v3"

	"lehr.dev/internal/ground/intent"
)

// Need is an edge along which one of two assets needs a version of the other.
type Need struct {
	// Neighbour is the other one. Known: what the rule rests on is so, and
	// holds; see there.
	Neighbour
	// Needed: the neighbour needs the asset; else the asset needs the
	// neighbour.
	Needed bool
	// AtLeast is the version needed, and Declares what the one needed
	// declares at its target.
	AtLeast, Declares string
	// Broken says why the version is not to be had.
	Broken error
}

// version is the dependency solver's rule for versions: an asset waits until
// what it needs is in sync and declares enough, and does not go below what
// another, as it runs now, still needs.
func version(f Facts) intent.Verdict {
	var answer edges
	for _, n := range f.Version {
		answer.judge(f, n.Neighbour, n.obstacle(f.Asset))
	}
	return answer.verdict("version", intent.WaitVersion, f)
}

// obstacle that the edge is to a push of the asset now.
func (n Need) obstacle(asset intent.AssetID) obstacle {
	switch {
	case n.Broken != nil:
		return obstacle{broken: n.Broken}
	case !n.Known:
		return obstacle{reason: fmt.Sprintf("%s (%s)", n.Asset, n.State)}
	}
	order, err := Compare(n.Declares, n.AtLeast)
	switch {
	case err != nil && n.Needed:
		return obstacle{broken: fmt.Errorf("what %s needs of %s cannot be compared: %w", n.Asset, asset, err)}
	case err != nil:
		return obstacle{broken: fmt.Errorf("the version of %s cannot be compared: %w", n.Asset, err)}
	case order >= 0:
		return obstacle{}
	case n.Needed:
		return obstacle{reason: fmt.Sprintf("%s still needs at least %s of %s, which would declare %s", n.Asset, n.AtLeast, asset, n.Declares)}
	}
	return obstacle{reason: fmt.Sprintf("%s declares %s, and %s needs at least %s", n.Asset, n.Declares, asset, n.AtLeast)}
}

// Compare compares two versions as semantic ones, of which parts may be
// missing, or else as numbers: negative when a is the lower one.
func Compare(a, b string) (int, error) {
	left, errLeft := semver.NewVersion(a)
	right, errRight := semver.NewVersion(b)
	if errLeft == nil && errRight == nil {
		return left.Compare(right), nil
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX != nil || errY != nil || x != x || y != y:
		return 0, fmt.Errorf("%q and %q are not both versions such as 1.4.2, nor both numbers", intent.Shown(a), intent.Shown(b))
	case x < y:
		return -1, nil
	case x > y:
		return 1, nil
	}
	return 0, nil
}
