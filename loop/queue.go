package loop

import (
	"container/heap"
	"math"
	"time"
)

// Priority orders keys that are due at the same time; lower goes first.
type Priority uint8

const (
	// Fresh: intent, pin or approval changed, or a person asked.
	Fresh Priority = iota
	// Retry: something failed or was in the way.
	Retry
	// Sweep: a regular look.
	Sweep
)

// Queue holds each key at most once, with the time at which it is due. Keys
// that are due leave by priority, then by due time, or by turns. It has one
// owner and no locks. The zero value is empty and ready.
type Queue[K comparable] struct {
	// Compare orders keys that are due at the same time with the same
	// priority, so that they leave in the same order in every run; nil: in any.
	Compare func(a, b K) int

	items map[K]*queued[K]
	later byDue[K]
	// ready are due, by priority.
	ready [Sweep + 1]byDue[K]
	turns int
	// popped is when the key was due that left last.
	popped int64
}

// queued is kept small: there may be a million.
type queued[K comparable] struct {
	key K
	// due in Unix nanoseconds.
	due int64
	// index in the heap that holds it; ready says in which.
	index    int32
	priority Priority
	ready    bool
}

// Add puts the key in. A key that is in already keeps the earlier due time and
// the better priority.
func (q *Queue[K]) Add(key K, due time.Time, priority Priority) {
	item, in := q.items[key]
	if !in {
		if q.items == nil {
			q.items = map[K]*queued[K]{}
		}
		item = &queued[K]{key: key, due: nanoseconds(due), priority: priority}
		q.items[key] = item
		q.push(&q.later, item)
		return
	}
	item.due = min(item.due, nanoseconds(due))
	if item.ready && priority < item.priority {
		heap.Remove(q.heap(item), int(item.index))
		item.priority = priority
		q.push(q.heap(item), item)
		return
	}
	item.priority = min(item.priority, priority)
	heap.Fix(q.heap(item), int(item.index))
}

// heap that holds an item.
func (q *Queue[K]) heap(item *queued[K]) *byDue[K] {
	if item.ready {
		return &q.ready[item.priority]
	}
	return &q.later
}

func (q *Queue[K]) push(to *byDue[K], item *queued[K]) {
	to.compare = q.Compare
	heap.Push(to, item)
}

// Remove takes the key out, if it is in.
func (q *Queue[K]) Remove(key K) {
	item, in := q.items[key]
	if !in {
		return
	}
	delete(q.items, key)
	heap.Remove(q.heap(item), int(item.index))
}

// Pop takes out the best key that is due.
func (q *Queue[K]) Pop(now time.Time) (key K, priority Priority, ok bool) {
	q.ripen(now)
	for priority := range q.ready {
		if q.ready[priority].Len() > 0 {
			return q.take(Priority(priority)), Priority(priority), true
		}
	}
	return key, 0, false
}

// Turn says of which priority the next key, or batch of keys, is to be taken:
// of the best; but each fourth time of the one whose first key is due longest,
// so that no key waits for ever, however many better ones come.
func (q *Queue[K]) Turn(now time.Time) (Priority, bool) {
	const share = 4
	best, longest, found := Fresh, Fresh, false
	q.ripen(now)
	for priority := range q.ready {
		switch of := q.ready[priority].items; {
		case len(of) == 0:
		case !found:
			best, longest, found = Priority(priority), Priority(priority), true
		case of[0].due < q.ready[longest].items[0].due:
			longest = Priority(priority)
		}
	}
	if !found {
		return 0, false
	}
	if q.turns++; q.turns%share == 0 {
		return longest, true
	}
	return best, true
}

// Has reports whether a key of that priority was due at the last call.
func (q *Queue[K]) Has(priority Priority) bool { return q.ready[priority].Len() > 0 }

// PopOf takes out the key of that priority that is due longest.
func (q *Queue[K]) PopOf(now time.Time, priority Priority) (key K, ok bool) {
	q.ripen(now)
	if q.ready[priority].Len() == 0 {
		return key, false
	}
	return q.take(priority), true
}

func (q *Queue[K]) take(priority Priority) K {
	item := heap.Pop(&q.ready[priority]).(*queued[K])
	delete(q.items, item.key)
	q.popped = item.due
	return item.key
}

// Late is how long ago the key was due that left last.
func (q *Queue[K]) Late(now time.Time) time.Duration {
	return time.Duration(nanoseconds(now) - q.popped)
}

// Next is how long until a key is due: 0 when one is, -1 when there is none.
func (q *Queue[K]) Next(now time.Time) time.Duration {
	q.ripen(now)
	for priority := range q.ready {
		if q.ready[priority].Len() > 0 {
			return 0
		}
	}
	if q.later.Len() > 0 {
		return time.Duration(q.later.items[0].due - nanoseconds(now))
	}
	return -1
}

// Due returns when the key is due; zero when it is not in.
func (q *Queue[K]) Due(key K) time.Time {
	if item, in := q.items[key]; in {
		return time.Unix(0, item.due)
	}
	return time.Time{}
}

// Len counts the keys.
func (q *Queue[K]) Len() int { return len(q.items) }

// ripen moves what is due to the ready heaps.
func (q *Queue[K]) ripen(now time.Time) {
	for q.later.Len() > 0 && q.later.items[0].due <= nanoseconds(now) {
		item := heap.Pop(&q.later).(*queued[K])
		item.ready = true
		q.push(&q.ready[item.priority], item)
	}
}

// nanoseconds since 1970; what lies beyond their range (the year 2262) is at
// its end.
func nanoseconds(t time.Time) int64 {
	switch last := time.Unix(0, math.MaxInt64); {
	case t.After(last):
		return math.MaxInt64
	case t.Before(time.Unix(0, 0)):
		return 0
	}
	return t.UnixNano()
}

// byDue is a heap.
type byDue[K comparable] struct {
	items   []*queued[K]
	compare func(a, b K) int
}

func (h *byDue[K]) Len() int { return len(h.items) }
func (h *byDue[K]) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	if a.due != b.due || h.compare == nil {
		return a.due < b.due
	}
	return h.compare(a.key, b.key) < 0
}
func (h *byDue[K]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = int32(i), int32(j)
}

func (h *byDue[K]) Push(x any) {
	item := x.(*queued[K])
	item.index = int32(len(h.items))
	h.items = append(h.items, item)
}

func (h *byDue[K]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return item
}
