package check

import (
	"fmt"
	"math"
	"strconv"

	"lehr.dev/internal/ground/intent"
)

// DefaultDimension of what is served, where none is named.
const DefaultDimension = "capacity"

// Amount of one dimension: what is there now, and what the target asks for.
type Amount struct {
	Current, Target float64
}

// Falls and Rises say where a push moves an amount.
func (a Amount) Falls() bool { return exceeds(a.Current, a.Target) }
func (a Amount) Rises() bool { return exceeds(a.Target, a.Current) }

// exceeds compares numbers that expressions made: a rounding error is no
// difference.
func exceeds(a, b float64) bool {
	const rounding = 1e-9
	return a-b > rounding*max(1, math.Abs(a), math.Abs(b))
}

// Supply is an edge along which one of two assets serves the other.
type Supply struct {
	// Neighbour is the other one; its Known says whether Other may be relied
	// on.
	Neighbour
	// Serving: the asset serves the neighbour; else the neighbour serves it.
	Serving bool
	// Serves is the dimension of the one that serves, Expects of the other.
	Serves, Expects string
	// Own is the asset's amount, Other the neighbour's.
	Own, Other Amount
	// Broken says why one of the two is not to be had.
	Broken error
}

// Endangers reports whether the push could break the edge: it takes away from
// what the asset serves, or adds to what it expects. Of other pushes the
// neighbour need not be looked at.
func (s Supply) Endangers() bool {
	if s.Serving {
		return s.Own.Falls()
	}
	return s.Own.Rises()
}

// capacity is the dependency solver's rule for amounts: an asset does not
// shrink below what another expects now, nor does it come to expect more than
// another serves now. It compares with what is there now only: where the other
// one is to move as well, it moves first, and this one is asked again.
func capacity(f Facts) intent.Verdict {
	var answer edges
	for _, s := range f.Capacity {
		answer.judge(f, s.Neighbour, s.obstacle(f.Asset))
	}
	return answer.verdict("capacity", intent.WaitCapacity, f)
}

// obstacle that the edge is to a push of the asset now.
func (s Supply) obstacle(asset intent.AssetID) obstacle {
	switch {
	case s.Broken != nil:
		return obstacle{broken: s.Broken}
	case !s.Endangers():
		return obstacle{idle: true}
	case !s.Known:
		return obstacle{reason: fmt.Sprintf("%s (%s)", s.Asset, s.State)}
	case s.Serving && exceeds(s.Other.Current, s.Own.Target):
		return obstacle{reason: fmt.Sprintf("%s still expects %s of %s from %s, which would serve %s",
			s.Asset, number(s.Other.Current), s.Expects, asset, number(s.Own.Target))}
	case !s.Serving && exceeds(s.Own.Target, s.Other.Current):
		return obstacle{reason: fmt.Sprintf("%s serves only %s of %s yet, and %s would expect %s",
			s.Asset, number(s.Other.Current), s.Serves, asset, number(s.Own.Target))}
	}
	return obstacle{}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
