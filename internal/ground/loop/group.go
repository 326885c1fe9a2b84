package loop

import (
	"context"
	"sync"
)

// Group is goroutines whose ends can be waited for, in their runtime. The zero
// value is empty and ready.
type Group struct {
	mutex   sync.Mutex
	running int
	// idle is closed when the last one has ended; nil while nobody waits.
	idle chan struct{}
}

// Go starts a goroutine of the group.
func (g *Group) Go(runtime Runtime, name string, f func()) {
	g.mutex.Lock()
	g.running++
	g.mutex.Unlock()
	runtime.Go(name, func() {
		defer g.done()
		f()
	})
}

func (g *Group) done() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns nil when none runs, and the context's error when that ends
// before.
func (g *Group) Wait(ctx context.Context, runtime Runtime) error {
	for {
		g.mutex.Lock()
		if g.running == 0 {
			g.mutex.Unlock()
			return nil
		}
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mutex.Unlock()
		if err := runtime.Wait(ctx, -1, idle); err != nil {
			return err
		}
	}
}
