package generate

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"lehr.dev/internal/ground/intent"
)

const (
	// slice is how long a partition keeps a core while others wait, but for the
	// run under way.
	slice = 200 * time.Millisecond
	// long is how long a run takes that makes way for those of others.
	long = time.Second
	// lowPriority is the niceness of what makes way.
	lowPriority = 10
)

// Turns shares the cores among partitions whose programs are to run, each in
// children of its own: who has had least goes first (start-time fair queueing,
// Goyal, Guo and Vin 1996). A run that takes long gives its core back and goes
// on beside, at low priority; its partition gets no core again before a run of
// it ended in time. So neither many runs nor endless ones delay others, and the
// children that live, and with them memory, are bounded. It may be used by many
// goroutines; nil gives everybody a turn at once.
type Turns struct {
	mutex sync.Mutex
	// cores and beside are places that are free.
	cores, background int
	waiting           []*waiting
	// making are turns on cores whose runs take long, and have no place beside.
	making []*Turn
	// clock is when the turn began that was given last, in the time that each
	// partition was served; used is when the last turn of each ended.
	clock time.Duration
	used  map[intent.PartitionID]time.Duration
	// lingers: a run of the partition took long.
	lingers map[intent.PartitionID]bool
}

type waiting struct {
	turn    *Turn
	since   time.Time
	granted chan struct{}
}

// Turn is a place, until its end. It is used by one goroutine.
type Turn struct {
	turns     *Turns
	partition intent.PartitionID
	start     time.Duration
	// The rest belongs to the mutex of turns.
	startedAt    time.Time
	inBackground bool
	pid          int
	timer        *time.Timer
}

// NewTurns shares so many cores; 0: those that this process may use. Twice as
// many runs that take long go on beside.
func NewTurns(cores int) *Turns {
	if cores == 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	return &Turns{cores: cores, background: 2 * cores, used: map[intent.PartitionID]time.Duration{}, lingers: map[intent.PartitionID]bool{}}
}

// Take waits for the partition's turn, or for the end of the context.
func (t *Turns) Take(ctx context.Context, partition intent.PartitionID) (*Turn, error) {
	if t == nil {
		return nil, nil
	}
	w := &waiting{turn: &Turn{turns: t, partition: partition}, since: time.Now(), granted: make(chan struct{})}
	t.mutex.Lock()
	w.turn.start = max(t.clock, t.used[partition])
	t.waiting = append(t.waiting, w)
	t.give()
	t.mutex.Unlock()
	select {
	case <-w.granted:
		return w.turn, nil
	case <-ctx.Done():
	}
	t.mutex.Lock()
	at := slices.Index(t.waiting, w)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	t.mutex.Unlock()
	if at < 0 { // It was given at the same moment.
		w.turn.End()
	}
	return nil, context.Cause(ctx)
}

// Waiting says since when a partition waits for its turn, and how many go
// before it; zero: it does not wait.
func (t *Turns) Waiting(partition intent.PartitionID) (start time.Time, ahead int) {
	if t == nil {
		return start, 0
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at := slices.IndexFunc(t.waiting, func(w *waiting) bool { return w.turn.partition == partition })
	if at < 0 {
		return start, 0
	}
	for i, w := range t.waiting {
		if w.turn.start < t.waiting[at].turn.start || w.turn.start == t.waiting[at].turn.start && i < at {
			ahead++
		}
	}
	return t.waiting[at].since, ahead
}

// give hands out what is free.
func (t *Turns) give() {
	for {
		next := -1
		for i, w := range t.waiting {
			free := t.cores
			if t.lingers[w.turn.partition] {
				free = t.background
			}
			if free > 0 && (next < 0 || w.turn.start < t.waiting[next].turn.start) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		if w.turn.inBackground = t.lingers[w.turn.partition]; w.turn.inBackground {
			t.background--
		} else {
			t.cores--
		}
		w.turn.startedAt = time.Now()
		t.clock = max(t.clock, w.turn.start)
		close(w.granted)
	}
}

// Begin says that a child begins a run: the process, which leads its group.
func (t *Turn) Begin(pid int) {
	if t == nil {
		return
	}
	t.turns.mutex.Lock()
	defer t.turns.mutex.Unlock()
	t.pid = pid
	if t.inBackground {
		t.makeWay()
	}
	t.timer = time.AfterFunc(long, t.linger)
}

// linger: the run takes long.
func (t *Turn) linger() {
	t.turns.mutex.Lock()
	defer t.turns.mutex.Unlock()
	if t.timer == nil {
		return
	}
	t.turns.lingers[t.partition] = true
	if t.inBackground {
		return
	}
	t.makeWay()
	t.turns.making = append(t.turns.making, t)
	t.turns.move()
	t.turns.give()
}

// makeWay lowers the priority of the child. What is gone needs none.
func (t *Turn) makeWay() {
	if t.pid > 0 {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, t.pid, lowPriority)
	}
}

// move takes runs that take long from cores, while there are places beside.
func (t *Turns) move() {
	for t.background > 0 && len(t.making) > 0 {
		moved := t.making[0]
		t.making = t.making[1:]
		moved.inBackground = true
		t.background--
		t.cores++
	}
}

// Done says that the run has ended.
func (t *Turn) Done() {
	if t == nil {
		return
	}
	t.turns.mutex.Lock()
	defer t.turns.mutex.Unlock()
	if t.timer == nil {
		return
	}
	if t.timer.Stop() {
		delete(t.turns.lingers, t.partition)
	}
	t.timer = nil
}

// Over: it is another's turn now.
func (t *Turn) Over() bool {
	if t == nil {
		return false
	}
	t.turns.mutex.Lock()
	defer t.turns.mutex.Unlock()
	return len(t.turns.waiting) > 0 && time.Since(t.startedAt) >= slice
}

// End gives the place back.
func (t *Turn) End() {
	if t == nil {
		return
	}
	t.Done()
	s := t.turns
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.used[t.partition] = t.start + time.Since(t.startedAt)
	if t.inBackground {
		s.background++
		s.move()
	} else {
		s.cores++
		s.making = slices.DeleteFunc(s.making, func(other *Turn) bool { return other == t })
	}
	for partition, end := range s.used {
		if end <= s.clock {
			delete(s.used, partition)
		}
	}
	s.give()
}
