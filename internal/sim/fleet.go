package sim

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// In a run with several replicas, each is a process with a store of its own
// over the one database, whose clock is true, and by which leases end.

// Disturbances of replicas.
const (
	LeaderDies   Kind = "the replica that acts dies"
	LeaderSleeps Kind = "the replica that acts stands still"
	Unreachable  Kind = "a replica cannot reach the store"
	Rolling      Kind = "all replicas are restarted, one by one"
)

var fleetKinds = []weighed{{LeaderDies, 5}, {LeaderSleeps, 5}, {Unreachable, 8}, {Rolling, 1}}

// failoverFleet is how long a partition may be without a replica that acts for
// it while another can (L5).
const failoverFleet = 10 * time.Second

// fleet reports whether several replicas share the store in this run.
func (l *Lab) fleet() bool { return l.options.Replicas > 1 }

// crowded reports whether another process would be one too many for a
// situation.
func (l *Lab) crowded(most int) bool {
	if l.fleet() {
		most = l.options.Replicas
	}
	return len(l.replicas) > most
}

// relieve begins a process that takes over, where none stands by.
func (l *Lab) relieve() {
	if !l.fleet() {
		l.Begin()
	}
}

// clocks of the databases of runs, by number.
var (
	clocks  sync.Map
	numbers atomic.Int64
)

func init() {
	sqlite.MustRegisterScalarFunction("lehr_sim_now", 1, func(_ *sqlite.FunctionContext, arguments []driver.Value) (driver.Value, error) {
		number, _ := arguments[0].(int64)
		now, ok := clocks.Load(number)
		if !ok {
			return nil, fmt.Errorf("there is no clock %d", number)
		}
		return now.(func() time.Time)().UnixNano(), nil
	})
}

// databaseClock is the SQL expression of the database's time; "" where one
// process has the store for itself.
func (l *Lab) databaseClock() string {
	if !l.fleet() {
		return ""
	}
	if l.databaseNumber == 0 {
		l.databaseNumber = numbers.Add(1)
		clocks.Store(l.databaseNumber, l.Now)
	}
	return fmt.Sprintf("lehr_sim_now(%d)", l.databaseNumber)
}

// leading is the replica that acts for the partition, if it lives.
func (l *Lab) leading() *Replica {
	if l.leader != nil && l.leader.Alive() {
		return l.leader
	}
	return nil
}

// anyone of the replicas that serve, as a balancer chooses.
func (l *Lab) anyone() *Replica {
	if !l.fleet() {
		return l.replica()
	}
	serving := slices.DeleteFunc(slices.Clone(l.replicas), func(r *Replica) bool { return !r.Alive() || r.Client == nil })
	if len(serving) == 0 {
		return nil
	}
	return serving[l.stream("balancer").IntN(len(serving))]
}

// able reports whether nothing keeps a replica from acting.
func (r *Replica) able() bool {
	return r.Alive() && !r.Paused() && r.Client != nil && !r.told && !r.unreachable()
}

func (r *Replica) unreachable() bool { return r.cut.until.After(r.lab.Now()) }

// led asks whether the partition has been without a replica that acts for it,
// while another could have for all that time (L5).
func (l *Lab) led() {
	now := l.Now()
	s := l.store
	troubled := s.left > 0 || s.full.After(now) || l.heldUp.After(now) || len(l.armed) > 0
	leads := l.leader != nil && l.leader.able()
	for _, r := range l.replicas {
		switch {
		case troubled || leads || !r.able() || !r.Now().Equal(now):
			r.idle = time.Time{}
		case r.idle.IsZero():
			r.idle = now
		case now.Sub(r.idle) > failoverFleet:
			l.wrong("L5", "%s could have acted for %s, and nobody does", r.Name(), now.Sub(r.idle))
			return
		}
	}
}

// cut is what is wrong with a replica's connection.
type cut struct {
	until time.Time
	// once: what is asked first is still carried out.
	once bool
	// silent: there is no answer, not even a refusal.
	silent bool
}

// severed is the error of a call over a connection that is cut, and whether it
// is carried out all the same.
func (l *link) severed(ctx context.Context, call string) (err error, carried bool) {
	c := &l.replica.cut
	if !l.replica.unreachable() {
		return nil, true
	}
	l.lab.mark("replica: a call did not reach the store")
	carried = c.once
	c.once = false
	if c.silent {
		_ = l.replica.Wait(ctx, c.until.Sub(l.lab.Now()), nil)
	}
	return fault.New(fault.Unavailable, "%s: the store cannot be reached", call), carried
}

// Renew notes until when the replica's leases run at least.
func (l *link) Renew(ctx context.Context, holder string, period time.Duration) error {
	return wrote(ctx, l, "Renew", func() error {
		start := l.lab.Now()
		err := l.All.Renew(ctx, holder, period)
		if err == nil {
			l.replica.leased = start.Add(period)
		}
		return err
	})
}

func (l *link) Retire(ctx context.Context, holder string) error {
	return wrote(ctx, l, "Retire", func() error {
		l.replica.holds = false
		return l.All.Retire(ctx, holder)
	})
}

func (l *link) Replicas(ctx context.Context) ([]store.Replica, error) {
	return read(ctx, l, "Replicas", func() ([]store.Replica, error) { return l.All.Replicas(ctx) })
}

func (l *link) Free(ctx context.Context, holder string) ([]intent.PartitionID, error) {
	return read(ctx, l, "Free", func() ([]intent.PartitionID, error) { return l.All.Free(ctx, holder) })
}

// took looks at who got the lease: nobody may while another's runs (S4). Whoever
// stood still since may hear of it when another has it already.
func (l *link) took(epoch uint64) {
	if epoch < l.lab.epoch {
		return
	}
	before := l.lab.leader
	l.lab.leader, l.lab.epoch, l.replica.holds = l.replica, epoch, true
	if before != l.replica {
		l.lab.Monitor.TakenOver()
	}
	if before == nil || before == l.replica || !l.lab.fleet() {
		return
	}
	l.lab.mark("replica: another one takes over")
	l.lab.tell("%s acts from now on", l.replica.Name())
	if remaining := before.leased.Sub(l.lab.Now()); before.holds && remaining > 0 {
		l.lab.wrong("S4", "%s got the lease while that of %s ran for another %s", l.replica.Name(), before.Name(), remaining)
	}
}

// strikeFleet disturbs replicas.
func (l *Lab) strikeFleet(d Disturbance, r *rand.Rand) {
	leader := l.leading()
	if leader == nil || l.healing {
		return
	}
	l.note(d.Kind, "any")
	l.tell("%s", d)
	switch d.Kind {
	case LeaderDies:
		if r.IntN(2) == 0 {
			l.orphan(d, r) // In the middle of a push, and its plugins do not die with it.
			return
		}
		leader.Kill("it acts")
	case LeaderSleeps:
		// From well under a lease to three of them, and now and then longer.
		period := min(d.Length, time.Minute)
		if r.IntN(3) > 0 {
			period = time.Duration(r.Int64N(int64(9 * time.Second)))
		}
		l.mark("replica: it stood still")
		leader.Pause(period)
	case Unreachable:
		victim := leader
		if other := l.anyone(); other != nil && r.IntN(3) == 0 {
			victim = other
		}
		victim.cut = cut{until: l.Now().Add(min(d.Length, time.Minute)), once: r.IntN(2) == 0, silent: r.IntN(3) == 0}
	case Rolling:
		old := slices.Clone(l.replicas)
		l.people.Go("rolling restart", func() {
			for _, r := range old {
				r.Stop()
				if l.people.Wait(l.ctx, 10*time.Second, nil) != nil || l.healing {
					return
				}
			}
			l.mark("replica: all were restarted")
		})
	}
}
