package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"lehr.dev/internal/ground/loop"
)

var _ loop.Runtime = (*Process)(nil)

// errGone is what a caller from another process gets when this one dies.
var errGone = errors.New("the process is gone")

// Process is a set of goroutines that die together and share a clock. It is
// their loop.Runtime. A goroutine of another process may call into it; that one
// goes on, with an error, when this one dies.
type Process struct {
	scheduler *Scheduler
	name      string
	mortal    bool
	dead      atomic.Bool
	ended     chan struct{}
	children  []*Process

	pausedUntil int64
	// The clock showed shown at the true time set, and has gone at rate since.
	set, shown int64
	rate       float64
	// zone in which its times are.
	zone *time.Location
	// drift is how much faster than true time its timers run.
	drift float64
}

// World returns a process that is never killed or paused, for what drives and
// watches the others. The hook is not asked about it.
func (s *Scheduler) World(name string) *Process { return s.process(name, false) }

// Start returns a process that may die. Its clock is right.
func (s *Scheduler) Start(name string) *Process { return s.process(name, true) }

func (s *Scheduler) process(name string, mortal bool) *Process {
	return &Process{
		scheduler: s, name: name, mortal: mortal, ended: make(chan struct{}),
		set: s.now, shown: s.now, rate: 1, drift: 1, zone: time.UTC,
	}
}

// Child returns a process that dies with this one, and has its clock now.
func (p *Process) Child(name string) *Process {
	child := p.scheduler.Start(name)
	child.set, child.shown, child.rate, child.drift, child.zone = p.set, p.shown, p.rate, p.drift, p.zone
	p.children = append(p.children, child)
	return child
}

// Abandon lets the children outlive this one.
func (p *Process) Abandon() { p.children = nil }

// Name of the process.
func (p *Process) Name() string { return p.name }

// Scheduler that runs the process.
func (p *Process) Scheduler() *Scheduler { return p.scheduler }

// Ended is closed when the process is dead.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive reports whether it is not dead.
func (p *Process) Alive() bool { return !p.dead.Load() }

// Paused reports whether it is stopped just now.
func (p *Process) Paused() bool { return p.pausedUntil > p.scheduler.now }

// Pause stops the process for that long. Its clock and timers go on.
func (p *Process) Pause(d time.Duration) {
	p.pausedUntil = max(p.pausedUntil, p.scheduler.now+int64(d))
	p.scheduler.Note("pause " + p.name + " " + d.String())
}

// Resume ends a pause of the process and of its children.
func (p *Process) Resume() {
	p.pausedUntil = 0
	for _, child := range p.children {
		child.Resume()
	}
}

// Jump sets the clock forward, or back.
func (p *Process) Jump(d time.Duration) {
	p.set, p.shown = p.scheduler.now, p.wall()+int64(d)
}

// Rate makes the clock go that much faster than true time; 0 freezes it.
func (p *Process) Rate(rate float64) {
	p.set, p.shown, p.rate = p.scheduler.now, p.wall(), rate
}

// Drift makes timers run that much faster than true time (1: as fast).
func (p *Process) Drift(drift float64) { p.drift = drift }

// Zone is the one in which the clock is read.
func (p *Process) Zone(zone *time.Location) { p.zone = zone }

// Correct sets the clock right.
func (p *Process) Correct() {
	p.set, p.shown, p.rate, p.drift = p.scheduler.now, p.scheduler.now, 1, 1
}

func (p *Process) wall() int64 {
	passed := p.scheduler.now - p.set
	if p.rate != 1 {
		passed = int64(float64(passed) * p.rate)
	}
	return p.shown + passed
}

// Now is the process's clock.
func (p *Process) Now() time.Time { return time.Unix(0, p.wall()).In(p.zone) }

// Go starts a goroutine of the process.
func (p *Process) Go(name string, f func()) {
	s := p.scheduler
	if p.dead.Load() {
		if s.running == nil || s.running.process == p {
			die()
		}
		return
	}
	s.started++
	t := &task{number: s.started, process: p, name: name, waiting: "wait of " + name, in: p, point: "start of " + name, parked: true, free: true, resume: make(chan bool)}
	s.tasks = append(s.tasks, t)
	go t.run(f)
}

// Wait is loop.Runtime's.
func (p *Process) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	t, err := p.caller()
	if err != nil {
		return err
	}
	t.free, t.fired, t.outcome = false, false, nil
	t.ctx, t.done, t.wake, t.due = ctx, ctx.Done(), wake, never
	if d >= 0 {
		if p.drift != 1 {
			d = time.Duration(float64(d) / p.drift)
		}
		if t.due = p.scheduler.now + int64(d); t.due < 0 {
			t.due = never
		}
	}
	t.in, t.point = p, t.waiting
	p.scheduler.park(t)
	return t.outcome
}

// Point is loop.Runtime's.
func (p *Process) Point(name string) {
	t, err := p.caller()
	if err != nil {
		return
	}
	t.free, t.in, t.point = true, p, name
	p.scheduler.park(t)
}

// caller is the task that runs. One of a dead process ends here.
func (p *Process) caller() (*task, error) {
	t := p.scheduler.running
	if t == nil {
		if p.dead.Load() {
			die()
		}
		panic("virtual: " + p.name + " is used by a goroutine that it did not start")
	}
	switch {
	case t.process.dead.Load():
		die()
	case p.dead.Load():
		return nil, errGone
	}
	return t, nil
}
