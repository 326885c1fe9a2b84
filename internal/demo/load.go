package demo

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// load asks the balancer before all clusters, all the time, as people would.
type load struct {
	mu       sync.Mutex
	served   int
	failures []string
	// worst is the largest number of tasks of one cluster that were not
	// healthy at one moment.
	worst int
	stop  func()
}

// startLoad begins a steady load.
func (s *stage) startLoad(ctx context.Context) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{}
	var running sync.WaitGroup
	running.Go(func() {
		for sleep(ctx, 10*time.Millisecond) {
			_, err := search(ctx, s.port)
			l.count(ctx, err)
		}
	})
	for _, w := range s.manifest.clusters {
		running.Go(func() {
			for sleep(ctx, 25*time.Millisecond) {
				l.probe(ctx, w)
			}
		})
	}
	l.stop = func() { cancel(); running.Wait() }
	return l
}

// probe counts the tasks of a cluster that are not healthy.
func (l *load) probe(ctx context.Context, w wanted) {
	down := 0
	for i := range w.replicas {
		if !healthy(ctx, w.port+i) {
			down++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.worst = max(l.worst, down)
	}
}

func (l *load) count(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.failures = append(l.failures, err.Error())
	default:
		l.served++
	}
}

// end stops the load; every request must have been served.
func (s *stage) end(l *load) error {
	l.stop()
	if len(l.failures) > 0 || l.served == 0 {
		const shown = 3
		return fmt.Errorf("%d requests served, %d failed: %v", l.served, len(l.failures), l.failures[:min(shown, len(l.failures))])
	}
	s.so("%d requests served meanwhile through the global balancer, 0 failed", l.served)
	return nil
}
