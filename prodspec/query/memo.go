package query

import (
	"container/list"
	"context"
	"sync"

	"lehr.dev/fault"
	"lehr.dev/loop"
)

// memo remembers what was made for the keys that were asked for last. What
// several ask for at once is made once. Errors are not remembered.
type memo[K comparable, V any] struct {
	runtime loop.Runtime
	most    int

	lock  sync.Mutex
	order list.List // of *made, the newest in front
	by    map[K]*list.Element
}

// made is a value, once done is closed.
type made[K comparable, V any] struct {
	key   K
	done  chan struct{}
	value V
	err   error
}

// get finds or makes. A caller that goes away does not end the making, which
// others may wait for.
func (m *memo[K, V]) get(ctx context.Context, key K, make func(context.Context) (V, error)) (V, error) {
	m.lock.Lock()
	if found := m.by[key]; found != nil {
		m.order.MoveToFront(found)
		m.lock.Unlock()
		known := found.Value.(*made[K, V])
		if err := m.runtime.Wait(ctx, -1, known.done); err != nil {
			var none V
			return none, err
		}
		return known.value, known.err
	}
	fresh := m.add(key)
	m.lock.Unlock()
	// A panic goes on to whoever began; those who wait get an error.
	fresh.err = fault.New(fault.Internal, "reading for several at once failed")
	defer func() {
		if fresh.err != nil {
			m.forget(fresh)
		}
		close(fresh.done)
	}()
	fresh.value, fresh.err = make(context.WithoutCancel(ctx))
	return fresh.value, fresh.err
}

func (m *memo[K, V]) add(key K) *made[K, V] {
	if m.by == nil {
		m.by = map[K]*list.Element{}
	}
	fresh := &made[K, V]{key: key, done: make(chan struct{})}
	m.by[key] = m.order.PushFront(fresh)
	if m.order.Len() > m.most {
		delete(m.by, m.order.Remove(m.order.Back()).(*made[K, V]).key)
	}
	return fresh
}

func (m *memo[K, V]) forget(failed *made[K, V]) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if found := m.by[failed.key]; found != nil && found.Value == failed {
		m.order.Remove(found)
		delete(m.by, failed.key)
	}
}
