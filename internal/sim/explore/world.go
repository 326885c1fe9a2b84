package explore

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// Edge is a rule between the two assets: y comes after, is served by, or needs
// a version of x.
type Edge uint8

const (
	NoEdge Edge = iota
	OrderEdge
	CapacityEdge
	VersionEdge
)

// World is a small world, and what may happen in it. It leaves out what no
// small world shows: claims on resources, holds, modes, edges that only the
// last enforced content declares, batches of looks, pauses after failures. Of
// time it knows the order: what is over before what.
type World struct {
	Name string
	// Class of the targets.
	Class plugin.Guarantee
	// Intent lists, incarnation by incarnation, the contents of x and y. The
	// first is in production at the start.
	Intent [][assets]content
	// Removes are the contents with a Turndown.
	Removes [foreign]bool
	Edge    Edge
	// InFlight is the budget that both assets share; 0: none.
	InFlight uint8
	// Destroys: a push to a lower content destroys something.
	Destroys bool
	// Grouped: decisions wait for a group that is before the store already, as
	// they do in a partition with more assets than these.
	Grouped bool
	// Torn: intent asks for what the edges never allow at once, so that not
	// every asset gets there.
	Torn bool
	// EndingPins: pins may be given an end.
	EndingPins bool
	Left       Budget
	Unsafe     Unsafe
	// Only lists the properties that are judged, by number; empty: all.
	Only []string
}

// world is the model of one, with what it has asked of Lehr's pure functions.
type world struct {
	World
	targets map[targetKey]chosen
	answers map[question]answer
}

var _ Model[state] = (*world)(nil)

// New returns the model of a world.
func New(w World) Model[state] {
	return &world{World: w, targets: map[targetKey]chosen{}, answers: map[question]answer{}}
}

func (w *world) is(unsafe Unsafe) bool { return w.Unsafe&unsafe != 0 }

// Start: everything is as the first incarnation says, and nobody serves.
func (w *world) Start() []state {
	s := state{head: 1, left: w.Left}
	for a := range s.things {
		s.things[a].content = w.effectOf(w.Intent[0][a])
		s.enforced[a] = w.recorded(w.Intent[0][a])
	}
	for r := range s.replicas {
		s.power[r] = up
	}
	return []state{s}
}

// effectOf is what is there once a content is enforced.
func (w *world) effectOf(c content) content {
	if c < foreign && w.Removes[c] {
		return nothing
	}
	return c
}

// recorded: only worlds in which something leaves look at what was enforced.
func (w *world) recorded(c content) content {
	for _, removes := range w.Removes {
		if removes {
			return c
		}
	}
	return nothing
}

func (w *world) contentAt(incarnation uint8, asset int) content {
	if incarnation == 0 || int(incarnation) > len(w.Intent) {
		return nothing
	}
	return w.Intent[incarnation-1][asset]
}

type targetKey struct {
	head uint8
	pins [ranks]pin
}

// chosen is a target; pinned: by a pin, which may end.
type chosen struct {
	incarnation uint8
	pinned      bool
	ends        bool
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const partition intent.PartitionID = "shop"

// target asks intent.Target.
func (w *world) target(head uint8, pins [ranks]pin) chosen {
	key := targetKey{head, pins}
	if known, ok := w.targets[key]; ok {
		return known
	}
	id, by := intent.Target(intent.IncarnationID{Partition: partition, Sequence: intent.Sequence(head)}, pinsOf(pins), now)
	found := chosen{incarnation: uint8(id.Sequence), pinned: by != nil, ends: by != nil && !by.Until.IsZero()}
	w.targets[key] = found
	return found
}

func pinsOf(pins [ranks]pin) []intent.Pin {
	var all []intent.Pin
	for rank, p := range pins {
		if p == 0 {
			continue
		}
		real := intent.Pin{
			Incarnation: intent.IncarnationID{Partition: partition, Sequence: intent.Sequence(p & pinAt)},
			Rank:        rankOf(rank), Revision: uint64(rank) + 1,
		}
		switch {
		case p&pinEnded != 0:
			real.Until = now
		case p&pinEnds != 0:
			real.Until = now.Add(time.Hour)
		}
		all = append(all, real)
	}
	return all
}

func rankOf(rank int) intent.Rank {
	if rank == 0 {
		return intent.RankRollout
	}
	return intent.RankPerson
}

// wanted is what an asset must be now, by the store; nothing: nobody says.
func (w *world) wanted(s *state, asset int) (chosen, content) {
	t := w.target(s.head, s.pins[asset])
	return t, w.contentAt(t.incarnation, asset)
}

// believed is the same by a replica's view.
func (w *world) believed(r *replica, asset int) (chosen, content) {
	t := w.target(r.view.head, r.view.pins[asset])
	return t, w.contentAt(t.incarnation, asset)
}
