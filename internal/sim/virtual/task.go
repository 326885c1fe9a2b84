package virtual

import (
	"context"
	"fmt"
	"runtime/debug"
)

// task is one goroutine of a process. While it is parked, its fields belong to
// the scheduler.
type task struct {
	number  uint64
	process *Process
	name    string
	waiting string
	// in is the process through whose runtime it is parked: its own, or that
	// of a process that it calls.
	in     *Process
	point  string
	parked bool
	// resume gets true to go on, false to end.
	resume chan bool
	doomed bool

	// What it waits for: nothing but its turn when free.
	free      bool
	ctx       context.Context
	done      <-chan struct{}
	wake      <-chan struct{}
	due       int64
	notBefore int64
	outcome   error
	fired     bool
}

// canGoOn reports whether the task could run now, and settles with what.
func (t *task) canGoOn(now int64) bool {
	if !t.parked || t.in.pausedUntil > now || t.process.pausedUntil > now || t.notBefore > now {
		return false
	}
	if t.free || t.fired {
		return true
	}
	if t.in.dead.Load() {
		t.outcome, t.fired = errGone, true
		return true
	}
	select {
	case <-t.done:
		t.outcome, t.fired = t.ctx.Err(), true
		return true
	default:
	}
	select {
	case <-t.wake:
		t.fired = true
		return true
	default:
	}
	if t.due <= now {
		t.fired = true
		return true
	}
	return false
}

// dueAt is when time alone lets the task go on.
func (t *task) dueAt(now int64) int64 {
	if !t.parked {
		return never
	}
	held := max(t.in.pausedUntil, t.process.pausedUntil, t.notBefore)
	// What it waits for may be there already: look when it can run.
	if t.free || t.fired || held > now {
		return held
	}
	return t.due
}

// run is the task's goroutine.
func (t *task) run(f func()) {
	s := t.process.scheduler
	defer func() {
		cause := recover()
		if t.doomed {
			s.buried <- struct{}{}
			return
		}
		if cause != nil {
			s.panics = append(s.panics, fmt.Sprintf("%s, %s: %v\n%s", t.process.name, t.name, cause, debug.Stack()))
			s.halted = true
		}
		s.remove(t)
		s.yielded <- struct{}{}
	}()
	if !<-t.resume {
		return
	}
	f()
}

func (s *Scheduler) remove(t *task) {
	for i, other := range s.tasks {
		if other == t {
			s.tasks = append(s.tasks[:i], s.tasks[i+1:]...)
			return
		}
	}
}

// park hands control back until the scheduler lets the task go on.
func (s *Scheduler) park(t *task) {
	t.parked = true
	s.yielded <- struct{}{}
	if !<-t.resume {
		die()
	}
}
