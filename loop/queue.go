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
// that are due leave by priority, then by due time. It has one owner and no
// locks. The zero value is empty and ready.
type Queue[K comparable] struct {
	// Compare orders keys that are due at the same time with the same
	// priority, so that they leave in the same order in every run; nil: in any.
	Compare func(a, b K) int

	items map[K]*queued[K]
	later byDue[K]
	ready byPriority[K]
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
		q.later.compare, q.ready.compare = q.Compare, q.Compare
		heap.Push(&q.later, item)
		return
	}
	item.due = min(item.due, nanoseconds(due))
	item.priority = min(item.priority, priority)
	if item.ready {
		heap.Fix(&q.ready, int(item.index))
	} else {
		heap.Fix(&q.later, int(item.index))
	}
}

// Remove takes the key out, if it is in.
func (q *Queue[K]) Remove(key K) {
	item, in := q.items[key]
	if !in {
		return
	}
	delete(q.items, key)
	if item.ready {
		heap.Remove(&q.ready, int(item.index))
	} else {
		heap.Remove(&q.later, int(item.index))
	}
}

// Pop takes out the best key that is due.
func (q *Queue[K]) Pop(now time.Time) (key K, priority Priority, ok bool) {
	q.ripen(now)
	if q.ready.Len() == 0 {
		return key, 0, false
	}
	item := heap.Pop(&q.ready).(*queued[K])
	delete(q.items, item.key)
	q.popped = item.due
	return item.key, item.priority, true
}

// Late is how long ago the key was due that left last.
func (q *Queue[K]) Late(now time.Time) time.Duration {
	return time.Duration(nanoseconds(now) - q.popped)
}

// Next is how long until a key is due: 0 when one is, -1 when there is none.
func (q *Queue[K]) Next(now time.Time) time.Duration {
	q.ripen(now)
	switch {
	case q.ready.Len() > 0:
		return 0
	case q.later.Len() > 0:
		return time.Duration(q.later.items[0].due - nanoseconds(now))
	default:
		return -1
	}
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

// ripen moves what is due to the ready heap.
func (q *Queue[K]) ripen(now time.Time) {
	for q.later.Len() > 0 && q.later.items[0].due <= nanoseconds(now) {
		item := heap.Pop(&q.later).(*queued[K])
		item.ready = true
		heap.Push(&q.ready, item)
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

// byDue and byPriority are heaps.
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
func (h *byDue[K]) Swap(i, j int) { swap(h.items, i, j) }
func (h *byDue[K]) Push(x any)    { push(&h.items, x) }
func (h *byDue[K]) Pop() any      { return pop(&h.items) }

type byPriority[K comparable] struct {
	items   []*queued[K]
	compare func(a, b K) int
}

func (h *byPriority[K]) Len() int { return len(h.items) }
func (h *byPriority[K]) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	switch {
	case a.priority != b.priority:
		return a.priority < b.priority
	case a.due != b.due || h.compare == nil:
		return a.due < b.due
	}
	return h.compare(a.key, b.key) < 0
}
func (h *byPriority[K]) Swap(i, j int) { swap(h.items, i, j) }
func (h *byPriority[K]) Push(x any)    { push(&h.items, x) }
func (h *byPriority[K]) Pop() any      { return pop(&h.items) }

func swap[K comparable](items []*queued[K], i, j int) {
	items[i], items[j] = items[j], items[i]
	items[i].index, items[j].index = int32(i), int32(j)
}

func push[K comparable](items *[]*queued[K], x any) {
	item := x.(*queued[K])
	item.index = int32(len(*items))
	*items = append(*items, item)
}

func pop[K comparable](items *[]*queued[K]) any {
	last := len(*items) - 1
	item := (*items)[last]
	(*items)[last] = nil
	*items = (*items)[:last]
	return item
}
