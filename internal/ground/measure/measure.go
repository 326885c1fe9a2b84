// Package measure counts what Lehr does, for whoever runs it to look at. Actors
// add numbers, at the price of an atomic one; nobody decides anything by them, and
// nothing here knows in which format they are read. The zero values are ready. App
// hands them out and shows them.
package measure

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Counter only grows.
type Counter struct{ n atomic.Uint64 }

// Add adds to it.
func (c *Counter) Add(n int) { c.n.Add(uint64(n)) }

// Value is the sum.
func (c *Counter) Value() uint64 { return c.n.Load() }

// bounds of the buckets of a Histogram: of seconds, from what a push within this
// machine takes to what a build takes; and of sizes, up to those of batches.
var (
	secondBounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120}
	sizeBounds   = [...]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536, 262144}
)

// Histogram counts values in buckets. One is either of Seconds or of Sizes.
type Histogram struct {
	buckets [len(secondBounds) + 1]atomic.Uint64
	sum     atomic.Uint64
	sizes   atomic.Bool
}

// Took adds a time.
func (h *Histogram) Took(d time.Duration) { h.observe(secondBounds[:], max(0, d.Seconds())) }

// Size adds a number of things.
func (h *Histogram) Size(n int) {
	h.sizes.Store(true)
	h.observe(sizeBounds[:], float64(n))
}

func (h *Histogram) observe(bounds []float64, value float64) {
	bucket, _ := slices.BinarySearch(bounds, value)
	h.buckets[bucket].Add(1)
	for {
		before := h.sum.Load()
		if h.sum.CompareAndSwap(before, math.Float64bits(math.Float64frombits(before)+value)) {
			return
		}
	}
}

// Read returns how many values there are, their sum, and how many are at most each
// bound. While others are added they may differ by those.
func (h *Histogram) Read() (count uint64, sum float64, upTo map[float64]uint64) {
	bounds := secondBounds[:]
	if h.sizes.Load() {
		bounds = sizeBounds[:]
	}
	upTo = make(map[float64]uint64, len(bounds))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(bounds) {
			upTo[bounds[i]] = count
		}
	}
	return count, math.Float64frombits(h.sum.Load()), upTo
}

// Quantile returns the bound that a share of the values is at most; not ok: there are no values, or too few are within the bounds.
func (h *Histogram) Quantile(share float64) (bound float64, ok bool) {
	count, _, upTo := h.Read()
	for _, bound := range slices.Sorted(maps.Keys(upTo)) {
		if n := upTo[bound]; n > 0 && float64(n) >= share*float64(count) {
			return bound, true
		}
	}
	return 0, false
}

// Others is what a Named calls all beyond mostNames.
const Others = "others"

// mostNames bounds what a name that tenants choose can cost.
const mostNames = 200

// Named has a T for each name.
type Named[T any] struct {
	mutex  sync.RWMutex
	values map[string]*T
}

// Of is that of a name, made when there is none; with too many names, of Others.
func (n *Named[T]) Of(name string) *T {
	n.mutex.RLock()
	value := n.values[name]
	n.mutex.RUnlock()
	if value != nil {
		return value
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.values == nil {
		n.values = map[string]*T{}
	}
	if n.values[name] == nil && len(n.values) >= mostNames {
		name = Others
	}
	if n.values[name] == nil {
		n.values[name] = new(T)
	}
	return n.values[name]
}

// All lists them in the order of the names.
func (n *Named[T]) All() iter.Seq2[string, *T] {
	n.mutex.RLock()
	values := maps.Clone(n.values)
	n.mutex.RUnlock()
	return func(yield func(string, *T) bool) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !yield(name, values[name]) {
				return
			}
		}
	}
}

// Moment is a time that may not be.
type Moment struct{ nanoseconds atomic.Int64 }

// Set sets it; zero: it is none.
func (m *Moment) Set(at time.Time) {
	if at.IsZero() {
		m.nanoseconds.Store(0)
		return
	}
	m.nanoseconds.Store(at.UnixNano())
}

// Begin sets it, unless it is one already.
func (m *Moment) Begin(at time.Time) { m.nanoseconds.CompareAndSwap(0, at.UnixNano()) }

// At is zero when it is none.
func (m *Moment) At() time.Time {
	if n := m.nanoseconds.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Since is how long ago it was; 0 when it is none.
func (m *Moment) Since(now time.Time) time.Duration {
	if at := m.At(); !at.IsZero() {
		return max(0, now.Sub(at))
	}
	return 0
}
