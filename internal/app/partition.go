package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/delivery/commitstatus"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/annealing/monitoring"
	"lehr.dev/internal/annealing/protection"
	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// again is how long to wait before an actor that failed is started again.
var again = loop.Backoff{First: 200 * time.Millisecond, Most: 30 * time.Second}

// contended is how long to wait before a lease that was lost soon is acquired
// again: two processes that take it from each other do so less and less often.
var contended = loop.Backoff{First: again.First, Most: 5 * time.Second}

// lookAround is how often registrations are read even if nothing was
// announced.
const lookAround = 30 * time.Second

// lookShare is how many times as long as a look at the registrations the pause
// after it is at least: while much is committed it costs 5 % of a core.
const lookShare = 20

// leaseLook is how often a lease is checked.
const leaseLook = 5 * time.Second

// state of one partition in this process.
type state struct {
	partition  intent.PartitionID
	definition string
	cancel     context.CancelFunc
	done       chan struct{}
	pipeline   atomic.Pointer[prodspec.Pipeline]
	// epoch of its lease; 0: it has none.
	epoch   atomic.Uint64
	pushLog pushlog.Book
	measure partitionMeasures
	// offered wakes those who wait until the lease is free.
	offered chan struct{}

	mutex sync.Mutex
	// problems by actor.
	problems map[string]string
}

func (s *state) setProblem(actor, problem string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if problem == "" {
		delete(s.problems, actor)
	} else {
		s.problems[actor] = problem
	}
}

// elsewhere: it is not for this replica to act.
func (s *state) elsewhere() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.problems) == 1 && s.problems["lease"] == errElsewhere.Error()
}

// failing lists the actors that do not run.
func (s *state) failing() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(maps.Keys(s.problems))
}

func (s *state) problem() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var parts []string
	for _, actor := range slices.Sorted(maps.Keys(s.problems)) {
		parts = append(parts, actor+": "+s.problems[actor])
	}
	if unreadable := s.unreadable(); unreadable != "" {
		parts = append(parts, "sources: "+unreadable)
	}
	return strings.Join(parts, "; ")
}

// follow keeps actors running for exactly the registered partitions.
func (a *App) follow(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		startedAt, changed := a.runtime.Now(), a.store.Changed("")
		registered, err := a.store.ListPartitions(ctx)
		if err != nil {
			// Soon again: others may count on this replica for a share of them.
			if ctx.Err() == nil {
				a.log.Error("cannot read which partitions are registered", "error", err)
			}
			_ = a.runtime.Wait(ctx, again.After(failures), changed)
			continue
		}
		failures = 0
		a.reconcile(ctx, registered)
		a.followed.Store(true)
		a.fleet.stir() // It may have been a replica that said that it ended.
		if elapsed := a.runtime.Now().Sub(startedAt); elapsed > 0 {
			_ = a.runtime.Wait(ctx, lookShare*elapsed, nil)
		}
		_ = a.runtime.Wait(ctx, lookAround, changed)
	}
}

// reconcile begins and ends actors so that they are those of the list. It
// waits for none of them.
func (a *App) reconcile(ctx context.Context, registered []store.Partition) {
	wanted := map[intent.PartitionID]string{}
	for _, partition := range registered {
		wanted[partition.ID] = partition.Definition
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, id := range slices.Sorted(maps.Keys(a.states)) {
		if _, stays := wanted[id]; !stays {
			running := a.states[id]
			running.cancel()
			delete(a.states, id)
			a.ending[id] = running
			a.log.Info("no longer acting for a partition", "partition", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		running, definition := a.states[id], wanted[id]
		switch {
		case running == nil:
			a.states[id] = a.begin(ctx, id, definition, a.ending[id])
			delete(a.ending, id)
		case running.definition != definition:
			running.cancel()
			a.states[id] = a.begin(ctx, id, definition, running)
		}
	}
}

// begin starts a partition's actors once those before them have ended.
func (a *App) begin(ctx context.Context, id intent.PartitionID, definition string, previous *state) *state {
	ctx, cancel := context.WithCancel(ctx)
	s := &state{
		partition: id, definition: definition, cancel: cancel, done: make(chan struct{}),
		offered: make(chan struct{}, 1), problems: map[string]string{"lease": "not acquired yet"},
	}
	a.acting.Go(a.runtime, "partition "+string(id), func() {
		defer close(s.done)
		defer cancel()
		if previous != nil {
			_ = a.runtime.Wait(context.WithoutCancel(ctx), -1, previous.done)
		}
		a.act(ctx, s)
	})
	return s
}

// act holds the partition's lease and runs its actors under it, again and
// again until the context ends.
func (a *App) act(ctx context.Context, s *state) {
	for failures := 1; ctx.Err() == nil; failures++ {
		lease, err := a.await(ctx, s)
		pause := again
		if err == nil {
			startedAt := a.runtime.Now()
			pause = contended
			s.setProblem("lease", "")
			s.epoch.Store(lease.Epoch)
			a.log.Info("acting for a partition", "partition", s.partition, "epoch", lease.Epoch)
			err = a.underLease(ctx, s, lease)
			s.epoch.Store(0)
			a.giveUp(ctx, lease)
			a.fleet.release(s.partition)
			if a.runtime.Now().Sub(startedAt) > 2*contended.Most {
				failures = 1
			}
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errElsewhere) {
			failures = 0
			continue
		}
		s.setProblem("lease", err.Error())
		a.log.Error("not acting for a partition", "partition", s.partition, "error", err)
		_ = a.runtime.Wait(ctx, pause.After(failures), nil)
	}
}

// errElsewhere is not of this process to mend.
var errElsewhere = errors.New("another replica acts for it")

// await acquires the partition's lease: at once, or among other replicas when it
// is free and this one's to have.
func (a *App) await(ctx context.Context, s *state) (lease store.Lease, err error) {
	if !a.shares() {
		return a.store.Acquire(ctx, s.partition, a.holder)
	}
	s.setProblem("lease", errElsewhere.Error())
	if err := a.runtime.Wait(ctx, -1, s.offered); err != nil {
		return lease, err
	}
	if !a.fleet.reserve(s.partition, a.registered()) {
		return lease, errElsewhere
	}
	lease, err = a.store.Acquire(ctx, s.partition, a.holder)
	switch {
	case fault.Is(err, fault.Conflict):
		a.fleet.release(s.partition)
		err = errElsewhere
	case err != nil:
		// It may have been carried out, and would be renewed for ever: its place
		// is kept, and it is asked for again.
		wake(s.offered)
	}
	return lease, err
}

// giveUp gives the lease back. What is not given back is renewed with the others,
// and nobody acts under it: so it is tried until the store takes it, or the
// context ends and the whole replica with it.
func (a *App) giveUp(ctx context.Context, lease store.Lease) {
	for failures := 1; !a.release(lease) && ctx.Err() == nil; failures++ {
		_ = a.runtime.Wait(ctx, again.After(failures), nil)
	}
}

// release reports whether the lease is not this replica's any more.
func (a *App) release(lease store.Lease) bool {
	const most = time.Second
	ctx, cancel := loop.WithTimeout(context.Background(), a.runtime, most)
	defer cancel()
	err := a.store.Release(ctx, lease)
	if err == nil || fault.Is(err, fault.Conflict) { // Conflict: it was over already.
		return true
	}
	a.log.Warn("the lease was not released", "partition", lease.Partition, "error", err)
	return false
}

// underLease runs the actors until the lease is lost or the context ends.
func (a *App) underLease(ctx context.Context, s *state, lease store.Lease) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	board := &sight.Board{Gap: a.gap()}
	actors := map[string]func(context.Context, loop.Runtime) error{
		"pipeline": func(ctx context.Context, runtime loop.Runtime) error {
			return a.runPipeline(ctx, s, runtime, lease)
		},
		"collector": func(ctx context.Context, runtime loop.Runtime) error {
			return a.collect(ctx, s, runtime, lease)
		},
		"enforcer": func(ctx context.Context, runtime loop.Runtime) error {
			return a.enforcer(s, runtime, lease, board).Run(ctx, lease)
		},
		"strategist": func(ctx context.Context, runtime loop.Runtime) error {
			return a.strategist(s, runtime, board).Run(ctx, lease)
		},
	}
	if !a.options.Parts.WithoutDelivery {
		reader := &delivery.Reader{Store: a.store, Schemas: a.schemas}
		actors["delivery"] = func(ctx context.Context, runtime loop.Runtime) error {
			return delivery.New(delivery.Options{
				Partition: s.partition, Store: a.store, Reader: reader, Runtime: runtime, Log: a.log, Verify: a.verifies(s.partition, runtime), Ask: a.asks(s.partition), Measure: &s.measure.Delivery,
				Repositories: a.lands(runtime),
			}).Run(ctx, lease)
		}
		actors["statuses"] = func(ctx context.Context, runtime loop.Runtime) error {
			return commitstatus.New(commitstatus.Options{
				Partition: s.partition, Store: a.store, Reader: reader, Runtime: runtime, Log: a.log,
				Hosts: func(application string) map[string]commitstatus.Poster {
					return a.statusHosts(s.partition, application, runtime)
				},
			}).Run(ctx, lease)
		}
	}
	if a.options.Parts.Previews != nil || a.options.Parts.Outside == nil && a.options.Parts.Plugins == nil {
		actors["previews"] = func(ctx context.Context, runtime loop.Runtime) error {
			return a.previewer(s.partition, runtime).Run(ctx, lease)
		}
	}
	if !a.options.Parts.WithoutWorkflows {
		actors["workflows"] = func(ctx context.Context, runtime loop.Runtime) error {
			return workflows.New(workflows.Options{
				Partition: s.partition, Store: a.store, Runtime: runtime, Log: a.log, Call: a.workflowCaller(),
			}).Run(ctx, lease)
		}
	}
	if a.tell != nil {
		actors[notifier] = func(ctx context.Context, runtime loop.Runtime) error {
			return notify.New(notify.Options{Partition: s.partition, Store: a.store, Runtime: runtime, Log: a.log, Send: a.tell, Links: a.links(), Measure: &s.measure.Notifier}).Run(ctx, lease)
		}
	}
	var running loop.Group
	for _, name := range slices.Sorted(maps.Keys(actors)) {
		running.Go(a.runtime, name+" of "+string(s.partition), func() {
			if err := a.keep(ctx, s, name, lease, actors[name]); err != nil {
				cancel(err)
			}
		})
	}
	// A quiet partition writes nothing, so a lost lease is looked for.
	for a.runtime.Wait(ctx, leaseLook, nil) == nil {
		if a.fleet.surplus(s.partition, a.registered()) {
			a.log.Info("leaving a partition to another replica", "partition", s.partition)
			cancel(errElsewhere)
		} else if err := a.store.Check(ctx, lease); fault.Is(err, fault.Conflict) {
			cancel(err)
		}
	}
	_ = running.Wait(context.Background(), a.runtime)
	return context.Cause(ctx)
}

// keep runs one actor, and starts it again when it fails or panics (S12, L2).
// It returns when the context ended or the lease is lost.
func (a *App) keep(ctx context.Context, s *state, name string, lease store.Lease, run func(context.Context, loop.Runtime) error) error {
	for failures := 1; ctx.Err() == nil; failures++ {
		startedAt := a.runtime.Now()
		err := a.contain(ctx, s.partition, name, run)
		if ctx.Err() != nil {
			return nil
		}
		if leaseErr := a.store.Check(ctx, lease); fault.Is(leaseErr, fault.Conflict) {
			return leaseErr
		}
		if a.runtime.Now().Sub(startedAt) > again.Most {
			failures = 1
		}
		pause := again.After(failures)
		a.log.Error("an actor failed and is started again", "partition", s.partition, "actor", name, "pause", pause, "error", err)
		s.setProblem(name, fmt.Sprintf("%v; it is started again", err))
		_ = a.runtime.Wait(ctx, pause, nil)
		s.setProblem(name, "")
	}
	return nil
}

// contain runs an actor so that a panic in it, or in a goroutine that it
// started, ends that actor only.
func (a *App) contain(ctx context.Context, partition intent.PartitionID, actor string, run func(context.Context, loop.Runtime) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	panicked := func(cause any) error {
		a.log.Error("an actor panicked", "partition", partition, "actor", actor, "cause", cause, "stack", string(debug.Stack()))
		return fault.New(fault.Internal, "it panicked: %v", cause)
	}
	runtime := &containing{Runtime: a.runtime, failed: func(cause any) { cancel(panicked(cause)) }}
	defer func() { _ = runtime.running.Wait(context.Background(), a.runtime) }()
	defer cancel(nil)
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
		}
	}()
	err = run(ctx, runtime)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	if err == nil {
		err = fault.New(fault.Internal, "it returned though nobody asked it to")
	}
	return err
}

// containing starts an actor's goroutines and catches their panics.
type containing struct {
	loop.Runtime
	failed  func(cause any)
	running loop.Group
}

func (c *containing) Go(name string, f func()) {
	c.running.Go(c.Runtime, name, func() {
		defer func() {
			if cause := recover(); cause != nil {
				c.failed(cause)
			}
		}()
		f()
	})
}

// gap between two looks that are one: no sweep is left out between.
func (a *App) gap() time.Duration { return max(2*a.options.Limits.Sweep, leastGap) }

// strategist of a partition.
func (a *App) strategist(s *state, runtime loop.Runtime, board *sight.Board) *strategist.Strategist {
	return strategist.New(strategist.Options{
		Partition: s.partition, Store: a.store, Schemas: a.schemas, Sight: board, Gap: a.gap(),
		Assess: a.assesses(s.partition), Select: a.selects(s.partition), Runtime: runtime, Log: a.log,
		Repositories: a.lands(runtime),
	})
}

func (a *App) enforcer(s *state, runtime loop.Runtime, lease store.Lease, board *sight.Board) *enforcer.Enforcer {
	return enforcer.New(enforcer.Options{
		Partition: s.partition, Since: a.firstEpoch(lease), Store: a.cached, Schemas: a.schemas, Plugins: func(binding *intentpb.PluginBinding) plugin.Plugin { return a.plugins(s.partition, binding) },
		Outside: a.answerer(s.partition), Train: a.trains(s.partition), Runtime: runtime, Log: a.log, Limits: a.options.Limits, Measure: &s.measure.Enforcer, PushLog: &s.pushLog, Trace: a.tracer(), Sight: board,
	})
}

// trains says which train of releases is in an environment of a partition.
func (a *App) trains(partition intent.PartitionID) func(context.Context, check.Environment) check.Train {
	reader := &delivery.Reader{Store: a.store, Schemas: a.schemas}
	return func(ctx context.Context, e check.Environment) check.Train {
		train, err := reader.Train(ctx, partition, e.Application, e.Name)
		return check.Train{Release: train.Release, Version: train.Version, Since: train.Since, Err: err}
	}
}

// answerer is who answers what checks of a partition ask outside; nil: nobody.
func (a *App) answerer(partition intent.PartitionID) func(context.Context, check.Question) (check.Answer, error) {
	switch {
	case a.options.Parts.Outside != nil:
		return func(ctx context.Context, q check.Question) (check.Answer, error) {
			return a.options.Parts.Outside(ctx, partition, q)
		}
	case a.options.Parts.Judge != nil:
		return func(ctx context.Context, q check.Question) (check.Answer, error) {
			if q.Source != check.Plugin {
				return check.Answer{}, fault.New(fault.Unavailable, "nothing outside is asked here but plugins of checks")
			}
			reply, err := protection.Judged(ctx, a.options.Parts.Judge(q.Place), q)
			return check.Answer{Reply: reply}, err
		}
	case a.options.Parts.Plugins != nil:
		return nil
	}
	return asker(partition, a.options.ExternalChecks, a.pool.judge)
}

// asker asks for the checks of a partition, as far as a file allows.
func asker(partition intent.PartitionID, policy string, plugins protection.Plugins) func(context.Context, check.Question) (check.Answer, error) {
	measures, protects := monitoring.New(partition, policy), protection.New(partition, policy, plugins)
	return func(ctx context.Context, q check.Question) (check.Answer, error) {
		if q.Protects() {
			return protects.Ask(ctx, q)
		}
		return measures.Ask(ctx, q)
	}
}

// firstEpoch is that of the first lease of the partition in this process. Of
// shared partitions it is none: an older epoch's plugins may run on another
// machine, and that those of this machine are gone tells nothing of them.
func (a *App) firstEpoch(lease store.Lease) uint64 {
	if a.shares() {
		return 0
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.firstEpochs[lease.Partition] == 0 {
		a.firstEpochs[lease.Partition] = lease.Epoch
	}
	return a.firstEpochs[lease.Partition]
}

// leastGap is how long no look at what a rollout watches may come, on a busy
// machine, without counting as a gap.
const leastGap = 10 * time.Second
