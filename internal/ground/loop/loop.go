// Package loop is what long-running actors are made of: the runtime through
// which they start goroutines, read the clock and wait; a queue of keys with
// due times, priorities and per-key exclusion; backoff. A simulator drives the
// real actors by handing them a Runtime of its own. Nothing here knows what is
// being looped over.
package loop

import (
	"context"
	"time"
)

// Runtime is time and concurrency for actors. Below the actors nothing reads
// a clock.
type Runtime interface {
	// Now is the wall clock.
	Now() time.Time
	// Go starts a goroutine; the name is for traces.
	Go(name string, f func())
	// Wait returns nil when d has passed or wake is readable or closed, and
	// the context's error when it ended. A nil wake never fires; d < 0 waits
	// for ever.
	Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error
	// Point marks a place where a crash, a pause or another goroutine may
	// come between two steps. It does nothing outside a simulation. No lock
	// is held across it.
	Point(name string)
}

// Real is the machine's own clock and goroutines.
func Real() Runtime { return real{} }

type real struct{}

func (real) Now() time.Time        { return time.Now() }
func (real) Go(_ string, f func()) { go f() }
func (real) Point(string)          {}

func (real) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	var passed <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-passed:
	case <-wake:
	}
	return nil
}
