package enforcer

import (
	"iter"
	"slices"

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

// orphanOf takes over an enforced record.
func orphanOf(record store.Enforced) orphan {
	return orphan{record.Incarnation.Sequence, record.Effective, record.Absent}
}

// orphans are the assets out of intent with an enforced record. It only holds state.
type orphans struct {
	byID map[intent.AssetID]orphan
	// incarnations counts where the orphans were enforced.
	incarnations *incarnationUse
	// next is where the next look at those that are awaited begins.
	next intent.AssetID
}

// mark remembers an asset that is not in intent any more. What an orphan
// declared is looked for where it was enforced.
func (o *orphans) mark(id intent.AssetID, record orphan) {
	o.unmark(id)
	o.byID[id] = record
	if !record.absent {
		o.incarnations.count(record.at, 1)
	}
}

// unmark forgets one that left intent.
func (o *orphans) unmark(id intent.AssetID) {
	if record, ok := o.byID[id]; ok && !record.absent {
		o.incarnations.count(record.at, -1)
	}
	delete(o.byID, id)
}

// remains reports whether an asset is an orphan of which something may still be there.
func (o *orphans) remains(id intent.AssetID) bool {
	record, ok := o.byID[id]
	return ok && !record.absent
}

// toRecheck picks the orphans among those that are awaited. Where there are many, each call
// picks the next ones.
func (o *orphans) toRecheck(awaited iter.Seq[intent.AssetID]) (ids []intent.AssetID) {
	const most = 100
	for id := range awaited {
		if o.remains(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if next, _ := slices.BinarySearch(ids, o.next); len(ids) > most {
		ids = append(ids[next:], ids[:next]...)[:most]
		o.next = ids[most-1] + "\x00"
	}
	return ids
}
