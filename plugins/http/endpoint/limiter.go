package endpoint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// atOnce is how many requests one endpoint gets at a time.
const atOnce = 8

// limiter spreads requests to one endpoint evenly, and holds them back while the API
// has said that it is too busy.
type limiter struct {
	interval time.Duration
	slots    chan struct{}

	mutex sync.Mutex
	// next is when the next request may begin; paused until when none may.
	next, paused time.Time
}

func newLimiter(perSecond float64) *limiter {
	return &limiter{interval: time.Duration(float64(time.Second) / perSecond), slots: make(chan struct{}, atOnce)}
}

// Busy says that an API has too much to do, and for how long it is not to be asked.
type Busy struct {
	Err   error
	Pause time.Duration
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }

// enter waits for a request's turn. The caller calls leave when it has its answer.
func (l *limiter) enter(ctx context.Context, now time.Time) (leave func(), err error) {
	l.mutex.Lock()
	if wait := l.paused.Sub(now); wait > 0 {
		l.mutex.Unlock()
		return nil, &Busy{fmt.Errorf("the API said that it is too busy, and is not asked for %v more", wait.Round(time.Second)), wait}
	}
	begin := l.next
	if begin.Before(now) {
		begin = now
	}
	if deadline, ok := ctx.Deadline(); ok && begin.After(deadline) {
		l.mutex.Unlock()
		return nil, fmt.Errorf("the rate limit leaves no time for it now: raise requests_per_second, or wait for the next look")
	}
	l.next = begin.Add(l.interval)
	l.mutex.Unlock()
	if err := wait(ctx, begin.Sub(now)); err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pause holds all requests back for so long.
func (l *limiter) pause(now time.Time, pause time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if until := now.Add(pause); until.After(l.paused) {
		l.paused = until
	}
}

func wait(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
