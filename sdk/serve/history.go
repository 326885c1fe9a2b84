package serve

import (
	"slices"
	"sync"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
	"lehr.dev/internal/pluginhost/plugin"
)

// historyKey names a partition, as one connection knows it.
type historyKey struct {
	connection uint64
	partition  intent.PartitionID
}

const (
	// historiesBytes bounds what is known of what changed, of all partitions.
	historiesBytes = 16 << 20
	// historyChanges bounds it for one partition: what is older is asked for again.
	historyChanges = 1 << 16
	// changeWeight is about what a change weighs.
	changeWeight = 64
)

// history is how a partition's incarnations differ, each from the one before it in the
// list, as Lehr said.
type history struct {
	mutex sync.Mutex
	// sequences incarnations, in their order: one more than there are steps.
	sequences []intent.Sequence
	steps     [][]uint64
	// last is when an asset of that number changed last.
	last    map[uint64]intent.Sequence
	changes int
}

// recordChanges keeps what Lehr says of changes, before the batch that it came with is answered.
func (a *asker) recordChanges(batch *pluginpb.DiffBatch) {
	if batch.Changes == nil {
		return
	}
	older, err := intent.ParseIncarnationID(batch.Changes.Older)
	if err != nil {
		return
	}
	newer, err := intent.ParseIncarnationID(batch.Incarnation)
	if err != nil || older.Partition != newer.Partition || older.Sequence >= newer.Sequence {
		return
	}
	h := a.historyOf(newer.Partition)
	a.histories.Put(historyKey{a.connection, newer.Partition}, h, h.extend(older.Sequence, newer.Sequence, batch.Changes.Changed))
}

// extend adds a step, and returns what all weighs now. One that does not go on from the
// last begins anew.
func (h *history) extend(older, newer intent.Sequence, changed []uint64) (weight int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.sequences) == 0 || h.sequences[len(h.sequences)-1] != older {
		h.sequences, h.steps, h.last, h.changes = []intent.Sequence{older}, nil, map[uint64]intent.Sequence{}, 0
	}
	h.sequences, h.steps = append(h.sequences, newer), append(h.steps, changed)
	for _, asset := range changed {
		h.last[asset] = newer
	}
	// A step weighs also where nothing changed.
	h.changes += len(changed) + 1
	for h.changes > historyChanges && len(h.steps) > 0 {
		h.forgetOldest()
	}
	return (h.changes + 1) * changeWeight
}

func (h *history) forgetOldest() {
	for _, asset := range h.steps[0] {
		if h.last[asset] == h.sequences[1] {
			delete(h.last, asset)
		}
	}
	h.changes -= len(h.steps[0]) + 1
	h.sequences, h.steps = slices.Delete(h.sequences, 0, 1), slices.Delete(h.steps, 0, 1)
}

// isUnchanged reports whether an asset is known to have the same content as of both
// incarnations. False says nothing.
func (h *history) isUnchanged(asset AssetID, older, newer intent.Sequence) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if older > newer || !h.has(older) || !h.has(newer) {
		return false
	}
	changed, ok := h.last[plugin.NumberOf(asset)]
	return !ok || changed <= older
}

func (h *history) has(sequence intent.Sequence) bool {
	_, ok := slices.BinarySearch(h.sequences, sequence)
	return ok
}

// historyOf returns what is known of a partition; never nil.
func (a *asker) historyOf(partition intent.PartitionID) *history {
	if h, ok := a.histories.Get(historyKey{a.connection, partition}); ok {
		return h
	}
	return &history{}
}

func newHistories() *recent.Map[historyKey, *history] {
	return recent.New[historyKey, *history](historiesBytes)
}
