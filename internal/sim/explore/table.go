package explore

import "hash/maphash"

// table numbers states in the order in which they are added. Its slots hold
// numbers only, so that a state is stored once.
type table[S comparable] struct {
	seed   maphash.Seed
	slots  []uint32 // a state's number + 1; 0: free
	chunks [][]S
	count  int
}

const chunkBits = 14

func newTable[S comparable]() *table[S] {
	const first = 1 << 12
	return &table[S]{seed: maphash.MakeSeed(), slots: make([]uint32, first)}
}

func (t *table[S]) len() int { return t.count }

func (t *table[S]) at(index uint32) S {
	return t.chunks[index>>chunkBits][index&(1<<chunkBits-1)]
}

// add returns the state's number, and whether it is new.
func (t *table[S]) add(s S) (index uint32, fresh bool) {
	if t.count*2 > len(t.slots) {
		t.grow()
	}
	slot := t.find(s)
	if t.slots[slot] != 0 {
		return t.slots[slot] - 1, false
	}
	if t.count>>chunkBits == len(t.chunks) {
		t.chunks = append(t.chunks, make([]S, 0, 1<<chunkBits))
	}
	last := len(t.chunks) - 1
	t.chunks[last] = append(t.chunks[last], s)
	t.count++
	t.slots[slot] = uint32(t.count)
	return uint32(t.count - 1), true
}

// find returns the slot that has the state, or is free for it.
func (t *table[S]) find(s S) int {
	mask := len(t.slots) - 1
	slot := int(maphash.Comparable(t.seed, s)) & mask
	for t.slots[slot] != 0 && t.at(t.slots[slot]-1) != s {
		slot = (slot + 1) & mask
	}
	return slot
}

func (t *table[S]) grow() {
	const factor = 4
	t.slots = make([]uint32, factor*len(t.slots))
	for index := range uint32(t.count) {
		t.slots[t.find(t.at(index))] = index + 1
	}
}
