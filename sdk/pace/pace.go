// Package pace keeps what a plugin asks of its targets within bounds: so many requests a
// second and at a time for each target, none while the target has said that it is too busy,
// and reads again that met a fault which may pass. It never repeats what may change something
// unless the plugin says that to do it twice is to do it once. What cannot be had in time
// becomes serve.Busy, so that Lehr waits in the plugin's place.
package pace

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"lehr.dev/sdk/serve"
)

const (
	// DefaultAtOnce is how many requests one target gets at a time unless Limits say else.
	DefaultAtOnce = 8
	// DefaultPause is how long a target is left alone that is too busy and does not say
	// until when; MaxPause the most that is believed, as Lehr believes no more.
	DefaultPause = 10 * time.Second
	MaxPause     = 5 * time.Minute
	// manyTargets are so many that those are forgotten of which nothing is to be known.
	manyTargets = 1000
)

// Limits of each target.
type Limits struct {
	// PerSecond is how many requests may begin in a second, in the long run. 0: any number.
	PerSecond float64
	// Burst is how many may begin at once after a rest; default 1.
	Burst int
	// AtOnce is how many may be under way; default DefaultAtOnce.
	AtOnce int
}

// Pacer bounds requests by target. Its methods may be called from many goroutines.
type Pacer struct {
	limits  Limits
	mutex   sync.Mutex
	targets map[string]*target
}

// target is one that is asked. It is a token bucket that may owe tokens: each that enters
// takes one, and waits until the bucket no longer owes it.
type target struct {
	slots chan struct{}
	// users are those that wait or are under way.
	users int
	// tokens there were at the time of counting.
	tokens  float64
	counted time.Time
	// paused is until when nothing may begin.
	paused time.Time
}

// New returns a pacer. Limits below 0 are those of 0.
func New(limits Limits) *Pacer {
	limits.PerSecond, limits.Burst = max(limits.PerSecond, 0), max(limits.Burst, 1)
	if limits.AtOnce <= 0 {
		limits.AtOnce = DefaultAtOnce
	}
	return &Pacer{limits: limits, targets: map[string]*target{}}
}

// Enter waits until a request to the target may begin; leave tells that it has ended. The
// error is serve.Busy when the target is paused, or the rate leaves no time for it before
// the deadline of ctx; then nothing was waited for. Else it is the cause of ctx.
func (p *Pacer) Enter(ctx context.Context, name string) (leave func(), err error) {
	one, wait, err := p.reserve(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, wait); err != nil {
		p.leave(one, true)
		return nil, err
	}
	select {
	case one.slots <- struct{}{}:
		return func() { <-one.slots; p.leave(one, false) }, nil
	case <-ctx.Done():
		p.leave(one, true)
		return nil, context.Cause(ctx)
	}
}

// reserve takes a token of the target, and tells how long it is until that is there.
func (p *Pacer) reserve(ctx context.Context, name string) (one *target, wait time.Duration, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	one = p.find(name, now)
	if pause := one.paused.Sub(now); pause > 0 {
		return nil, 0, serve.Busy(fmt.Errorf("%s said that it is too busy, and is asked again in %v", name, pause.Round(time.Millisecond)), pause)
	}
	p.refill(one, now)
	if owed := 1 - one.tokens; owed > 0 && p.limits.PerSecond > 0 {
		wait = time.Duration(owed / p.limits.PerSecond * float64(time.Second))
	}
	if deadline, ok := ctx.Deadline(); ok && wait > 0 && now.Add(wait).After(deadline) {
		return nil, 0, serve.Busy(fmt.Errorf("%v requests a second to %s leave no time for this one now: it could begin in %v", p.limits.PerSecond, name, wait.Round(time.Millisecond)), wait)
	}
	one.tokens--
	one.users++
	return one, wait, nil
}

// find returns the target of a name. Those of which nothing is to be known go when there
// are many.
func (p *Pacer) find(name string, now time.Time) *target {
	if one := p.targets[name]; one != nil {
		return one
	}
	if len(p.targets) >= manyTargets {
		for other, one := range p.targets {
			p.refill(one, now)
			if one.users == 0 && !one.paused.After(now) && one.tokens >= float64(p.limits.Burst) {
				delete(p.targets, other)
			}
		}
	}
	one := &target{slots: make(chan struct{}, p.limits.AtOnce), tokens: float64(p.limits.Burst), counted: now}
	p.targets[name] = one
	return one
}

func (p *Pacer) refill(one *target, now time.Time) {
	burst := float64(p.limits.Burst)
	if p.limits.PerSecond == 0 {
		one.tokens = burst
		return
	}
	one.tokens = math.Min(burst, one.tokens+now.Sub(one.counted).Seconds()*p.limits.PerSecond)
	one.counted = now
}

// leave gives the token back of what never began.
func (p *Pacer) leave(one *target, unused bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	one.users--
	if unused {
		one.tokens = math.Min(float64(p.limits.Burst), one.tokens+1)
	}
}

// Pause lets nothing begin at a target for so long, at most MaxPause. A pause never makes
// one shorter that is under way.
func (p *Pacer) Pause(name string, pause time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	one := p.find(name, now)
	if end := now.Add(min(pause, MaxPause)); end.After(one.paused) {
		one.paused = end
	}
}

// sleep returns the cause of ctx when that ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
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
