package loop

import "sync"

// Inbox is how goroutines hand values to the one that owns a state. Put never
// blocks. The order of puts is kept.
type Inbox[T any] struct {
	mu     sync.Mutex
	values []T
	wake   chan struct{}
}

// NewInbox returns an empty inbox.
func NewInbox[T any]() *Inbox[T] { return &Inbox[T]{wake: make(chan struct{}, 1)} }

// Put adds a value and wakes the owner.
func (i *Inbox[T]) Put(value T) {
	i.mu.Lock()
	i.values = append(i.values, value)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Take returns all values put since the last time.
func (i *Inbox[T]) Take() []T {
	i.mu.Lock()
	defer i.mu.Unlock()
	values := i.values
	i.values = nil
	return values
}

// Empty reports whether nothing was put since the last time.
func (i *Inbox[T]) Empty() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.values) == 0
}

// Wake is readable when there may be values.
func (i *Inbox[T]) Wake() <-chan struct{} { return i.wake }
