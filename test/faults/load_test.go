package faults

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// load asks the balancer before all clusters, all the time, as people would.
type load struct {
	*service
	done     chan struct{}
	stopOnce sync.Once
	running  sync.WaitGroup

	mutex  sync.Mutex
	served int
	failed []failure
}

// failure is a request that was not served.
type failure struct {
	began, ended time.Time
	err          error
}

func startLoad(s *service) *load {
	l := &load{service: s, done: make(chan struct{})}
	const people, pause = 2, 15 * time.Millisecond
	for range people {
		l.running.Go(func() {
			for {
				select {
				case <-l.done:
					return
				case <-time.After(pause):
					l.ask()
				}
			}
		})
	}
	s.Cleanup(l.stop)
	return l
}

func (l *load) ask() {
	began := time.Now()
	_, err := search(l.port)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err == nil {
		l.served++
		return
	}
	l.failed = append(l.failed, failure{began, time.Now(), err})
}

func (l *load) stop() {
	l.stopOnce.Do(func() { close(l.done) })
	l.running.Wait()
}

// span is a time in which requests may fail: a cluster's proxy, or the global
// one, was killed and is not back.
type span struct {
	cluster      string
	began, ended time.Time
}

// judge wants all requests served that were not under way in one of the spans,
// and says how many there were.
func (l *load) judge(spans []span) string {
	l.Helper()
	l.stop()
	global, within := 0, 0
	for _, f := range l.failed {
		meets := func(global bool) bool {
			return slices.ContainsFunc(spans, func(s span) bool {
				return (s.cluster == "global") == global && f.began.Before(s.ended) && f.ended.After(s.began)
			})
		}
		switch {
		case meets(true):
			global++
		case meets(false):
			within++
		default:
			l.Errorf("a request from %s to %s failed: %v", f.began.Format("15:04:05.000"), f.ended.Format("15:04:05.000"), f.err)
		}
	}
	if l.served == 0 {
		l.Error("no request was served")
	}
	return fmt.Sprintf("%d requests served; failed while a proxy that was killed came back: %d for the global one, %d for a cluster's", l.served, global, within)
}
