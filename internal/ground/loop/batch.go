package loop

// Batch collects values for work that is done in groups, one group at a time:
// what arrives while one is under way makes up the next. It has one owner and
// no locks.
type Batch[T any] struct {
	// Max is the largest group; 0: no limit.
	Max     int
	waiting []T
	busy    bool
}

// Add puts values into the next group.
func (b *Batch[T]) Add(values ...T) { b.waiting = append(b.waiting, values...) }

// Take returns the next group, unless one is under way or nothing waits. The
// owner calls Done when the group is finished.
func (b *Batch[T]) Take() []T {
	if b.busy || len(b.waiting) == 0 {
		return nil
	}
	group := b.waiting
	b.waiting = nil
	if b.Max > 0 && len(group) > b.Max {
		b.waiting = append(b.waiting, group[b.Max:]...)
		group = group[:b.Max:b.Max]
	}
	b.busy = true
	return group
}

// Done lets the next group start.
func (b *Batch[T]) Done() { b.busy = false }
