package subprocess

import (
	"context"
	"sync"
)

// queues bound how many programs of one name run at a time. A name of which none runs or
// waits takes no memory.
type queues struct {
	atOnce int
	mutex  sync.Mutex
	byName map[string]*queue
}

type queue struct {
	slots chan struct{}
	// users are those that run or wait.
	users int
}

func newQueues(atOnce int) *queues { return &queues{atOnce: atOnce, byName: map[string]*queue{}} }

// enter waits for a place, and returns what gives it back. The error is the cause of ctx.
func (q *queues) enter(ctx context.Context, name string) (leave func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	one := q.join(name)
	select {
	case one.slots <- struct{}{}:
		return func() { <-one.slots; q.part(name) }, nil
	case <-ctx.Done():
		q.part(name)
		return nil, context.Cause(ctx)
	}
}

func (q *queues) join(name string) *queue {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	one := q.byName[name]
	if one == nil {
		one = &queue{slots: make(chan struct{}, q.atOnce)}
		q.byName[name] = one
	}
	one.users++
	return one
}

func (q *queues) part(name string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.byName[name].users--; q.byName[name].users == 0 {
		delete(q.byName, name)
	}
}
