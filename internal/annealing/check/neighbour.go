package check

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// Neighbour is another asset that a verdict rests on.
type Neighbour struct {
	Asset intent.AssetID
	// Known: what the edge's rule asks about it was seen a moment ago, and no
	// push of it is under way. For the rule order that is that it is in sync
	// at its own target.
	Known bool
	// Until is how long that fact holds; zero: until something changes.
	Until time.Time
	// Absent: it is turned down, and nothing of it is there.
	Absent bool
	// Missing: intent does not have it, so nobody looks at it.
	Missing bool
	// State in plain words when it is not Known.
	State string
	// Quotes: State quotes what a protection said.
	Quotes bool
	// Loosened: only the last enforced content asks for this edge; the target
	// does not any more. An approval of the plan lets it go.
	Loosened bool
	// WaitsForThis: by the order, it is to come after this asset, or after one that is, and
	// so on. It cannot be in sync first, so the edge would hold for ever.
	WaitsForThis bool
}

// Relied lists the neighbours that a decision to push rests on: while it is
// admitted, none of them may be pushed.
func (f Facts) Relied() []intent.AssetID {
	var relied []intent.AssetID
	visited := map[intent.AssetID]bool{}
	add := func(n Neighbour) {
		if n.Known && !visited[n.Asset] {
			visited[n.Asset] = true
			relied = append(relied, n.Asset)
		}
	}
	for _, n := range f.Order {
		add(n)
	}
	for _, s := range f.Capacity {
		if s.Endangers() {
			add(s.Neighbour)
		}
	}
	for _, n := range f.Version {
		add(n.Neighbour)
	}
	if f.Turndown != nil {
		for _, n := range f.Turndown.Dependants {
			add(n)
		}
	}
	for _, id := range f.Beside {
		add(Neighbour{Asset: id, Known: true})
	}
	return relied
}

// GoesPast reports whether the push goes past a loosened edge or check by an approval,
// which it then consumes.
func (f Facts) GoesPast() bool { return f.letsGo() && f.heldByLoosened() }

// heldByLoosened reports whether a loosened edge or check is in the way.
func (f Facts) heldByLoosened() bool {
	for _, c := range f.Checks {
		if v, _ := f.verdictOf(c); c.Loosened && v.Answer != intent.Pass {
			return true
		}
	}
	for _, n := range f.Order {
		if n.Loosened && n.obstacle().blocks() {
			return true
		}
	}
	for _, s := range f.Capacity {
		if s.Loosened && s.obstacle(f.Asset).blocks() {
			return true
		}
	}
	for _, n := range f.Version {
		if n.Loosened && n.obstacle(f.Asset).blocks() {
			return true
		}
	}
	return false
}
