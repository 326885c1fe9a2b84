// Package recent is a map bounded by weight that forgets what was not used
// lately: two generations, the older dropped whole when the younger is full.
// Both ends of the plugin protocol keep intent in it. It is safe for
// concurrent use and knows nothing of what it holds.
package recent

import "sync"

// Map holds values up to a total weight.
type Map[K comparable, V any] struct {
	mutex sync.Mutex
	// limit is that of one generation: half of the whole.
	limit, weight int
	young, old    map[K]entry[V]
}

type entry[V any] struct {
	value  V
	weight int
}

// New returns a map that holds values of at most the total weight.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit / 2, young: map[K]entry[V]{}}
}

// Get returns the value of the key, if it is still held.
func (m *Map[K, V]) Get(key K) (V, bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	e, ok := m.young[key]
	if !ok {
		if e, ok = m.old[key]; ok {
			delete(m.old, key)
			m.put(key, e)
		}
	}
	return e.value, ok
}

// Put holds a value of the weight. One heavier than a half of the map is not
// held.
func (m *Map[K, V]) Put(key K, value V, weight int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.old, key)
	m.weight -= m.young[key].weight
	delete(m.young, key)
	if weight <= m.limit {
		m.put(key, entry[V]{value, weight})
	}
}

func (m *Map[K, V]) put(key K, e entry[V]) {
	if m.weight+e.weight > m.limit {
		m.old, m.young, m.weight = m.young, map[K]entry[V]{}, 0
	}
	m.young[key] = e
	m.weight += e.weight
}

// Clear forgets all.
func (m *Map[K, V]) Clear() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.young, m.old, m.weight = map[K]entry[V]{}, nil, 0
}
