package prodspec

import (
	"iter"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
)

// member is an asset's place in what was built.
type member struct {
	run *generate.Run
	// at is its index in the run's taken outputs.
	at int
}

func (m member) output() *generate.Output { return &m.run.Taken[m.at] }

// members are the assets that were built. There may be a million, so each is found by
// numbers: a pointer and an index are twice as many bytes.
type members struct {
	places map[intent.AssetID]place
	// runs by their numbers, of which the free ones are used again; none has the first.
	runs []*generate.Run
	free []uint32
}

// place is the number of a run, and the index of an output that was taken of it.
type place struct{ run, at uint32 }

func newMembers() *members {
	return &members{places: map[intent.AssetID]place{}, runs: []*generate.Run{nil}}
}

func (m *members) len() int { return len(m.places) }

func (m *members) get(id intent.AssetID) (member, bool) {
	p, ok := m.places[id]
	if !ok {
		return member{}, false
	}
	return m.at(p), true
}

func (m *members) at(p place) member { return member{m.runs[p.run], int(p.at)} }

// all of them, in no order.
func (m *members) all() iter.Seq2[intent.AssetID, member] {
	return func(yield func(intent.AssetID, member) bool) {
		for id, p := range m.places {
			if !yield(id, m.at(p)) {
				return
			}
		}
	}
}

// leave takes what was taken of a run away, which another run may have taken over.
func (m *members) leave(run *generate.Run) {
	for i := range run.Taken {
		if id := run.Taken[i].ID; m.places[id].run == run.Number {
			delete(m.places, id)
		}
	}
	if run.Number > 0 {
		m.runs[run.Number], m.free = nil, append(m.free, run.Number)
		run.Number = 0
	}
}

// take adds what was taken of a run that has left.
func (m *members) take(run *generate.Run) {
	switch last := len(m.free) - 1; {
	case len(run.Taken) == 0:
		return
	case last >= 0:
		run.Number, m.free = m.free[last], m.free[:last]
		m.runs[run.Number] = run
	default:
		run.Number = uint32(len(m.runs))
		m.runs = append(m.runs, run)
	}
	for i := range run.Taken {
		m.places[run.Taken[i].ID] = place{run.Number, uint32(i)}
	}
}
