package enforcer

import (
	"context"
	"iter"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// orphan is what an asset that left intent was enforced with.
type orphan struct {
	at        intent.Sequence
	effective intent.Digest
	// absent: it was turned down, and nothing of it is there. What is not is
	// an orphan: it goes on running, with what it needs and serves.
	absent bool
}

func orphanOf(record store.Enforced) orphan {
	return orphan{record.Incarnation.Sequence, record.Effective, record.Absent}
}

// markOrphaned remembers an asset that is not in intent any more. What an orphan
// declared is looked for where it was enforced.
func (e *Enforcer) markOrphaned(id intent.AssetID, record orphan) {
	e.unmarkOrphaned(id)
	e.orphans[id] = record
	if !record.absent {
		e.count(record.at, 1)
	}
}

// restoreEnforced takes up again what an asset that left intent was enforced with.
func (e *Enforcer) restoreEnforced(a *asset) {
	if record, ok := e.orphans[a.id]; ok {
		e.unmarkOrphaned(a.id)
		a.setEnforced(record.at, record.effective, record.absent)
		e.relag(a, e.now())
	}
}

// unmarkOrphaned forgets one that left intent.
func (e *Enforcer) unmarkOrphaned(id intent.AssetID) {
	if record, ok := e.orphans[id]; ok && !record.absent {
		e.count(record.at, -1)
	}
	delete(e.orphans, id)
}

// solveOrphan gathers the edges that an orphan declares to the asset. Nothing
// removed it, so a commit that only drops it disarms none of them (S23). An
// approval lets go those of capacity and version.
func (e *Enforcer) solveOrphan(a *asset, id intent.AssetID, record orphan, facts *check.Facts) {
	const state = "an orphan: it left intent, and nobody removed it; put it back, with a Turndown if it is to go, or disown it"
	inbound := a.requirements.inward
	refers := inbound.refers[record.effective]
	n := check.Neighbour{Asset: id, Loosened: true, State: state}
	for _, edge := range inbound.edges[record.effective] {
		switch {
		case edge.rule == intentpb.Dependency_RULE_CAPACITY:
			s := check.Supply{Neighbour: n, Serves: edge.serves, Expects: edge.expects}
			switch mine, ok := a.requirements.standing.amount(edge.expects); {
			case ok:
				s.Own, s.Broken = mine.Amount, mine.err
			case facts.Turndown == nil: // What goes ends to expect anything.
				s.Broken = unknownAmount(a.id, edge.expects)
			}
			facts.Capacity = append(facts.Capacity, s)
		case facts.Turndown != nil:
			refers = true
		case edge.rule == intentpb.Dependency_RULE_VERSION && a.requirements.standing.moves:
			facts.Version = append(facts.Version, stillNeeds(a, check.Neighbour{Asset: id, Known: true, Loosened: true}, edge))
		}
	}
	if facts.Turndown != nil && refers {
		n.Loosened = false // Of a removal no approval lets go.
		facts.Turndown.Dependants = append(facts.Turndown.Dependants, n)
	}
}

// recheckOrphans reads again those orphans that others wait for: they may have been
// disowned, or live on by another name.
func (e *Enforcer) recheckOrphans(ctx context.Context, awaited iter.Seq[intent.AssetID]) {
	const most = 100
	var ids []intent.AssetID
	for id := range awaited {
		if record, ok := e.orphans[id]; ok && !record.absent {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	// Where there are many, each time the next ones.
	slices.Sort(ids)
	if next, _ := slices.BinarySearch(ids, e.revisited); len(ids) > most {
		ids = append(ids[next:], ids[:next]...)[:most]
		e.revisited = ids[most-1] + "\x00"
	}
	e.Runtime.Go("revisit", func() {
		ids = slices.DeleteFunc(ids, func(id intent.AssetID) bool {
			_, found, err := e.record(ctx, id)
			return found || err != nil
		})
		e.inbox.Put(func() {
			for _, id := range ids {
				if record, ok := e.orphans[id]; ok && !record.absent {
					e.unmarkOrphaned(id)
					e.wakeWaiters(id, false)
				}
			}
		})
	})
}

// record reads the enforced record of one asset.
func (e *Enforcer) record(ctx context.Context, id intent.AssetID) (store.Enforced, bool, error) {
	// The text after which no other id comes before this one.
	last := len(id) - 1
	cursor := id[:last] + intent.AssetID(id[last]-1) + "\x7f"
	records, err := e.Store.EnforcedPage(ctx, e.Partition, cursor, 1)
	if err != nil || len(records) == 0 || records[0].Asset != id {
		return store.Enforced{}, false, err
	}
	return records[0], true, nil
}
