package query

import (
	"container/list"
	"context"
	"sync"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

// memo remembers what was made for the keys that were asked for last. What
// several ask for at once is made once. Errors are not remembered.
type memo[K comparable, V any] struct {
	runtime loop.Runtime
	most    int

	lock     sync.Mutex
	order    list.List // of *made, the newest in front
	elements map[K]*list.Element
}

// memoEntry is a value, once done is closed.
type memoEntry[K comparable, V any] struct {
	key   K
	done  chan struct{}
	value V
	err   error
}

// get finds or makes. A caller that goes away does not end the making, which
// others may wait for.
func (m *memo[K, V]) get(ctx context.Context, key K, make func(context.Context) (V, error)) (V, error) {
	m.lock.Lock()
	if element := m.elements[key]; element != nil {
		m.order.MoveToFront(element)
		m.lock.Unlock()
		cached := element.Value.(*memoEntry[K, V])
		if err := m.runtime.Wait(ctx, -1, cached.done); err != nil {
			var none V
			return none, err
		}
		return cached.value, cached.err
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

func (m *memo[K, V]) add(key K) *memoEntry[K, V] {
	if m.elements == nil {
		m.elements = map[K]*list.Element{}
	}
	fresh := &memoEntry[K, V]{key: key, done: make(chan struct{})}
	m.elements[key] = m.order.PushFront(fresh)
	if m.order.Len() > m.most {
		delete(m.elements, m.order.Remove(m.order.Back()).(*memoEntry[K, V]).key)
	}
	return fresh
}

func (m *memo[K, V]) forget(failed *memoEntry[K, V]) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if element := m.elements[failed.key]; element != nil && element.Value == failed {
		m.order.Remove(element)
		delete(m.elements, failed.key)
	}
}
