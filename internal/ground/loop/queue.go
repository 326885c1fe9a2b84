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
	// Hint: a plugin says that something may have changed.
	Hint
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
	// Place is where a key notes its place in this queue, and in no other one;
	// nil: the queue has a map of them, which a million keys are too many for.
	Place func(K) *Place

	places map[K]*Place
	// heaps of those that are due, by priority, and of the others.
	heaps [later + 1]byDue[K]
	// length of the queue; most that it had since it was empty.
	length, most int
	turns        int
	// popped is when the key was due that left last.
	popped int64
}

// Place of a key in a queue; the zero one: it is not in.
type Place struct {
	// index in the heap that holds it, from 1 on.
	index int32
	// heap that it is in, and the key's priority.
	heap, priority Priority
}

// later is the heap of what is not due.
const later = Sweep + 1

// spare is how much room an empty queue keeps: what a start needed once is not
// held for ever.
const spare = 1024

// queued is kept small: there may be a million.
type queued[K comparable] struct {
	key   K
	place *Place
	// due in Unix nanoseconds.
	due int64
}

// Add puts the key in. A key that is in already keeps the earlier due time and
// the better priority.
func (q *Queue[K]) Add(key K, due time.Time, priority Priority) {
	place := q.place(key)
	if place == nil {
		if q.places == nil {
			q.places = map[K]*Place{}
		}
		place = &Place{}
		q.places[key] = place
	}
	if place.index == 0 {
		q.length++
		q.most = max(q.most, q.length)
		place.priority = priority
		q.push(later, queued[K]{key, place, nanoseconds(due)})
		return
	}
	h := &q.heaps[place.heap]
	item := &h.items[place.index-1]
	item.due = min(item.due, nanoseconds(due))
	if place.heap != later && priority < place.priority {
		place.priority = priority
		q.push(priority, q.cut(place))
		return
	}
	place.priority = min(place.priority, priority)
	heap.Fix(h, int(place.index-1))
}

// place of a key; nil: it is not in, and there is none of it yet.
func (q *Queue[K]) place(key K) *Place {
	if q.Place != nil {
		return q.Place(key)
	}
	return q.places[key]
}

// push puts an item into a heap. It goes to the end and is set right: heap.Push
// would allocate.
func (q *Queue[K]) push(priority Priority, item queued[K]) {
	h := &q.heaps[priority]
	h.compare = q.Compare
	h.items = append(h.items, item)
	item.place.index, item.place.heap = int32(len(h.items)), priority
	heap.Fix(h, len(h.items)-1)
}

// cut takes an item out of its heap.
func (q *Queue[K]) cut(place *Place) queued[K] {
	h, at := &q.heaps[place.heap], int(place.index-1)
	last := len(h.items) - 1
	h.Swap(at, last)
	item := h.items[last]
	h.items[last] = queued[K]{}
	if h.items = h.items[:last]; last == 0 && cap(h.items) > spare {
		h.items = nil
	}
	if at < last {
		heap.Fix(h, at)
	}
	return item
}

// leave takes a key out.
func (q *Queue[K]) leave(place *Place) queued[K] {
	item := q.cut(place)
	place.index = 0
	q.length--
	delete(q.places, item.key)
	if q.length == 0 {
		if q.most > spare {
			q.places = nil
		}
		q.most = 0
	}
	return item
}

// Remove takes the key out, if it is in.
func (q *Queue[K]) Remove(key K) {
	if place := q.place(key); place != nil && place.index > 0 {
		q.leave(place)
	}
}

// Pop takes out the best key that is due.
func (q *Queue[K]) Pop(now time.Time) (key K, priority Priority, ok bool) {
	q.ripen(now)
	for priority := range later {
		if q.Has(priority) {
			return q.take(priority), priority, true
		}
	}
	return key, 0, false
}

// Turn says of which priority the next key, or batch of keys, is to be taken:
// of the best; but each fourth time of the one whose first key is due longest,
// so that no key waits for ever, however many better ones come.
func (q *Queue[K]) Turn(now time.Time) (Priority, bool) {
	const share = 4
	best, longest, ok := Fresh, Fresh, false
	q.ripen(now)
	for priority := range later {
		switch items := q.heaps[priority].items; {
		case len(items) == 0:
		case !ok:
			best, longest, ok = priority, priority, true
		case items[0].due < q.heaps[longest].items[0].due:
			longest = priority
		}
	}
	if !ok {
		return 0, false
	}
	if q.turns++; q.turns%share == 0 {
		return longest, true
	}
	return best, true
}

// Has reports whether a key of that priority was due at the last call.
func (q *Queue[K]) Has(priority Priority) bool { return q.heaps[priority].Len() > 0 }

// PopOf takes out the key of that priority that is due longest.
func (q *Queue[K]) PopOf(now time.Time, priority Priority) (key K, ok bool) {
	q.ripen(now)
	if !q.Has(priority) {
		return key, false
	}
	return q.take(priority), true
}

func (q *Queue[K]) take(priority Priority) K {
	item := q.leave(q.heaps[priority].items[0].place)
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
	for priority := range later {
		if q.Has(priority) {
			return 0
		}
	}
	if items := q.heaps[later].items; len(items) > 0 {
		return time.Duration(items[0].due - nanoseconds(now))
	}
	return -1
}

// Due returns when the key is due; zero when it is not in.
func (q *Queue[K]) Due(key K) time.Time {
	if place := q.place(key); place != nil && place.index > 0 {
		return time.Unix(0, q.heaps[place.heap].items[place.index-1].due)
	}
	return time.Time{}
}

// Len counts the keys.
func (q *Queue[K]) Len() int { return q.length }

// ripen moves what is due to its heap.
func (q *Queue[K]) ripen(now time.Time) {
	for waiting := &q.heaps[later]; len(waiting.items) > 0 && waiting.items[0].due <= nanoseconds(now); {
		item := q.cut(waiting.items[0].place)
		q.push(item.place.priority, item)
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
	items   []queued[K]
	compare func(a, b K) int
}

func (h *byDue[K]) Len() int { return len(h.items) }
func (h *byDue[K]) Less(i, j int) bool {
	a, b := &h.items[i], &h.items[j]
	if a.due != b.due || h.compare == nil {
		return a.due < b.due
	}
	return h.compare(a.key, b.key) < 0
}
func (h *byDue[K]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].place.index, h.items[j].place.index = int32(i+1), int32(j+1)
}

// Push and Pop are for heap.Interface: nobody calls them.
func (h *byDue[K]) Push(any) { panic("a queue puts in by itself") }
func (h *byDue[K]) Pop() any { panic("a queue takes out by itself") }
