// Package virtual is time and concurrency that a seed decides: goroutines that
// run one at a time, chosen among those that could run, in a time that passes
// only when all of them wait. Processes can be killed, paused and given wrong
// clocks. Whatever is driven through it must start goroutines, wait and read
// the clock by its loop.Runtime alone; then the same seed gives the same run,
// in this process and in another. It knows nothing of Lehr. Package sim calls
// it.
package virtual

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"
)

// Act is what befalls a task that is about to go on.
type Act struct {
	// Kill ends its process here, as kill -9 does.
	Kill bool
	// Pause stops its whole process for that long, as SIGSTOP does.
	Pause time.Duration
	// Delay lets everyone else go first for that long.
	Delay time.Duration
}

// Scheduler runs tasks one at a time. It is used by one goroutine, and by the
// task that runs.
type Scheduler struct {
	// Hook, if any, decides at every point of every process that can die.
	Hook func(p *Process, point string) Act
	// Log, if any, is told every step.
	Log io.Writer

	// now is the true time, in nanoseconds since 1970, as are all times here: they
	// are compared with it for every task at every step.
	now     int64
	random  *rand.Rand
	tasks   []*task
	running *task
	ready   []*task
	// yielded says that the running task has parked or ended.
	yielded chan struct{}
	buried  chan struct{}
	started uint64
	steps   atomic.Uint64
	hash    uint64
	halted  bool
	panics  []string
	// condemned are to be killed when the running task has parked.
	condemned []*Process
}

// Latency is the most virtual time that passes from one step to the next.
const Latency = 100 * time.Microsecond

// New returns a scheduler whose choices follow from the seed.
func New(seed uint64, start time.Time) *Scheduler {
	return &Scheduler{
		now: start.UnixNano(), random: rand.New(rand.NewPCG(seed, 0x5eed)), hash: fnv64offset,
		yielded: make(chan struct{}), buried: make(chan struct{}),
	}
}

// Now is the true time; processes may believe another.
func (s *Scheduler) Now() time.Time { return moment(s.now) }

func moment(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// Steps counts how often a task went on.
func (s *Scheduler) Steps() uint64 { return s.steps.Load() }

// Hash is that of all steps: who went on where, and when.
func (s *Scheduler) Hash() uint64 { return s.hash }

// Panics are those that nothing contained.
func (s *Scheduler) Panics() []string { return s.panics }

// Halt makes Run return after this step.
func (s *Scheduler) Halt() { s.halted = true }

// Note adds something to the trace, so that two runs that differ in it differ
// in their hash.
func (s *Scheduler) Note(what string) {
	s.mix([]byte(what))
	if s.Log != nil {
		fmt.Fprintf(s.Log, "%s   . %s\n", s.Now().Format("15:04:05.000000"), what)
	}
}

// Run runs tasks until that time, or until Halt.
func (s *Scheduler) Run(end time.Time) {
	until := end.UnixNano()
	s.halted = false
	stop := s.guard()
	defer stop()
	for !s.halted {
		s.bury()
		s.gather()
		if len(s.ready) == 0 {
			next := s.next()
			if next == never || next > until {
				s.now = until
				return
			}
			s.now = max(s.now, next)
			continue
		}
		if s.now > until {
			return
		}
		s.step(s.ready[s.random.IntN(len(s.ready))])
	}
}

// step lets one task go on until it parks or ends.
func (s *Scheduler) step(t *task) {
	s.now += s.random.Int64N(int64(Latency))
	p := t.in
	if s.Hook != nil && p.mortal {
		act := s.Hook(p, t.point)
		switch {
		case act.Kill:
			s.Kill(p)
			return
		case act.Pause > 0:
			p.Pause(act.Pause)
			return
		case act.Delay > 0:
			t.notBefore = s.now + int64(act.Delay)
			return
		}
	}
	s.steps.Add(1)
	s.record(t)
	t.parked = false
	s.running = t
	t.resume <- true
	<-s.yielded
	s.running = nil
}

func (s *Scheduler) record(t *task) {
	var bytes [16]byte
	at := uint64(s.now)
	for i := range 8 {
		bytes[i] = byte(at >> (8 * i))
		bytes[8+i] = byte(t.number >> (8 * i))
	}
	s.mix(bytes[:])
	s.mix([]byte(t.point))
	if s.Log != nil {
		fmt.Fprintf(s.Log, "%s %3d %s: %s\n", s.Now().Format("15:04:05.000000"), t.number, t.process.name, t.point)
	}
}

const (
	fnv64offset = 14695981039346656037
	fnv64prime  = 1099511628211
)

func (s *Scheduler) mix(bytes []byte) {
	for _, b := range bytes {
		s.hash = (s.hash ^ uint64(b)) * fnv64prime
	}
}

// gather finds the tasks that can go on.
func (s *Scheduler) gather() {
	s.ready = s.ready[:0]
	for _, t := range s.tasks {
		if t.canGoOn(s.now) {
			s.ready = append(s.ready, t)
		}
	}
}

// never is a time that does not come.
const never = math.MaxInt64

// next is when a task can go on by time alone.
func (s *Scheduler) next() int64 {
	next := int64(never)
	for _, t := range s.tasks {
		next = min(next, t.dueAt(s.now))
	}
	return next
}

// Kill ends a process and its children: none of their goroutines goes on, but
// what they deferred runs, as far as it touches nothing but memory. Asked for
// by a task, it happens when that one parks.
func (s *Scheduler) Kill(p *Process) {
	s.condemned = append(s.condemned, p)
	if s.running == nil {
		s.bury()
	}
}

// End kills every process: no goroutine is left. It is not for tasks to call.
func (s *Scheduler) End() {
	for _, t := range s.tasks {
		s.condemned = append(s.condemned, t.process)
	}
	s.bury()
}

// bury ends the goroutines of the condemned.
func (s *Scheduler) bury() {
	if len(s.condemned) == 0 {
		return
	}
	for i := 0; i < len(s.condemned); i++ {
		p := s.condemned[i]
		if !p.dead.Swap(true) {
			close(p.ended)
			s.Note("kill " + p.name)
			s.condemned = append(s.condemned, p.children...)
		}
	}
	s.condemned = s.condemned[:0]
	var doomed []*task
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool {
		if t.process.dead.Load() {
			doomed = append(doomed, t)
			return true
		}
		return false
	})
	for _, t := range doomed {
		t.doomed = true
		t.resume <- false
		<-s.buried
	}
}

// guard ends this program with all stacks when a step takes a minute of real
// time: something blocks outside the runtime.
func (s *Scheduler) guard() (stop func()) {
	const patience = time.Minute
	var timer *time.Timer
	last := s.steps.Load()
	timer = time.AfterFunc(patience, func() {
		if now := s.steps.Load(); now != last {
			last = now
			timer.Reset(patience)
			return
		}
		fmt.Fprintf(os.Stderr, "virtual time stands still: a goroutine blocks outside its runtime\n")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		os.Exit(2)
	})
	return func() { timer.Stop() }
}

// die ends the calling goroutine.
func die() { runtime.Goexit() }
