// Package braked lets a stop be in force where the store cannot take it: the disk is
// full or read-only, the store hangs, the database is lost. A stop counts in memory
// first, so that no permit and no admission is granted from then on; then it is written
// to a file beside the store, which was made when there was room, and which whoever
// serves the store reads; then to the store, again and again until it takes it (S18).
// It weakens nothing: a stop is ended only in the store. Package app wraps stores in it.
package braked

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

const (
	// patience is how long a stop waits for the file, and then for the store, before it
	// is answered how far it got.
	patience = 2 * time.Second
	// look is how often the file is read for what another process wrote, and again how
	// often what is unwritten is tried.
	look, again = 250 * time.Millisecond, time.Second
)

// Options of a braked store.
type Options struct {
	// Beside is the path of the store, or of what stands for it on this machine, that
	// the brake file lies beside; empty: there is no file.
	Beside  string
	Runtime loop.Runtime
	Log     *slog.Logger
}

// Store is a store whose stops count before it has them. It is safe for concurrent
// use.
type Store struct {
	store.All
	file    *file
	runtime loop.Runtime
	log     *slog.Logger
	callers callers

	mu sync.Mutex
	// unwritten stops are in force and not known to be in the store.
	unwritten map[intent.PartitionID]*brake
	// recorded says since when the stop was that the store took last, by what it stops: what
	// the file may still say of it counts no more.
	recorded map[intent.PartitionID]time.Time
	// refreshed is when the file was read last.
	refreshed time.Time
}

// brake is a stop on its way into the store.
type brake struct {
	stop intent.Stop
	// caller is who asked, as the store asks for their authority.
	caller store.Caller
	// writing: the store is being asked to take it.
	writing bool
}

// New wraps a store. What the file says is in force when it returns. A file that cannot
// be made is no error: brakes are then in memory until the store has them.
func New(underlying store.All, o Options) (*Store, error) {
	s := &Store{All: underlying, runtime: o.Runtime, log: o.Log, unwritten: map[intent.PartitionID]*brake{}, recorded: map[intent.PartitionID]time.Time{}}
	if o.Beside == "" {
		return s, nil
	}
	s.file = &file{path: FileOf(o.Beside)}
	if err := s.file.reserve(); err != nil {
		s.log.Warn("no room is reserved for brakes beside the store: one that the store cannot take is forgotten by a restart", "file", s.file.path, "error", err)
	}
	return s, s.refresh()
}

// Run reads the file for what others wrote, and has the store take what it has not,
// until the context ends.
func (s *Store) Run(ctx context.Context) {
	tried := s.runtime.Now()
	for s.runtime.Wait(ctx, look, nil) == nil {
		if err := s.refresh(); err != nil {
			s.log.Error("reading the brake file", "error", err)
		}
		if now := s.runtime.Now(); now.Sub(tried) >= again || now.Before(tried) {
			tried = now
			for _, partition := range s.waiting() {
				s.write(ctx, partition)
			}
		}
	}
}

func (s *Store) waiting() []intent.PartitionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.unwritten))
}

// refresh takes up what the file says: a stop that another process wrote is in force,
// and one that another process had the store take is the store's.
func (s *Store) refresh() error {
	if s.file == nil {
		return nil
	}
	start := s.runtime.Now()
	stops, err := s.file.read()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshed = start
	inFile := map[intent.PartitionID]bool{}
	for _, stop := range stops {
		if start, ok := s.recorded[stop.Partition]; ok && start.Equal(stop.Since) {
			continue
		}
		inFile[stop.Partition] = true
		if s.unwritten[stop.Partition] == nil {
			stop.Reach = intent.ReachFile
			s.unwritten[stop.Partition] = &brake{stop: stop, caller: store.Caller{Actor: stop.Owner, Local: true}}
		}
	}
	for partition, b := range s.unwritten {
		if b.stop.Reach == intent.ReachFile && !inFile[partition] && !b.writing {
			delete(s.unwritten, partition)
		}
	}
	return nil
}

// catchUp reads the file where it was not read lately: this process stood still, and
// another may have written to it meanwhile.
func (s *Store) catchUp() error {
	s.mu.Lock()
	age := s.runtime.Now().Sub(s.refreshed)
	s.mu.Unlock()
	if age >= 0 && age <= 2*look {
		return nil
	}
	return s.refresh()
}

// Unwritten are the stops that are in force and not in the store, and how far each got.
func (s *Store) Unwritten() []intent.Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stops []intent.Stop
	for _, partition := range slices.Sorted(maps.Keys(s.unwritten)) {
		stops = append(stops, s.unwritten[partition].stop)
	}
	return stops
}

// inForce is the stop of a partition, or of all, that the store does not have.
func (s *Store) inForce(partition intent.PartitionID) (intent.Stop, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scope := range []intent.PartitionID{"", partition} {
		if b := s.unwritten[scope]; b != nil {
			return b.stop, true
		}
	}
	return intent.Stop{}, false
}

// SetStop implements store.Brakes. It is in force when it is called, and nil says that
// it stays so: Unwritten says whether the store has it. An error says that it is not in
// force, for it may not be.
func (s *Store) SetStop(ctx context.Context, stop intent.Stop) error {
	caller, ok := store.CallerOf(ctx)
	if !ok {
		caller = store.Caller{Actor: stop.Owner, Local: true}
	}
	if stop.Since.IsZero() {
		stop.Since = s.runtime.Now()
	}
	stop.Reach = intent.ReachMemory
	s.mu.Lock()
	if s.unwritten[stop.Partition] == nil {
		s.unwritten[stop.Partition] = &brake{stop: stop, caller: caller}
	}
	s.mu.Unlock()
	s.runWithPatience(func() error { s.writeFile(stop.Partition); return nil })
	return s.runWithPatience(func() error { return s.write(context.WithoutCancel(ctx), stop.Partition) })
}

// runWithPatience waits for what may hang, for as long as whoever asked has patience; it goes on
// without them.
func (s *Store) runWithPatience(f func() error) error {
	done, err := make(chan struct{}), error(nil)
	s.runtime.Go("brake", func() {
		defer close(done)
		err = f()
	})
	if s.runtime.Wait(context.Background(), patience, done) != nil {
		return nil
	}
	select {
	case <-done:
		return err
	default:
		return nil // It hangs: what is in memory counts.
	}
}

// writeFile keeps a stop beside the store.
func (s *Store) writeFile(partition intent.PartitionID) {
	if s.file == nil {
		return
	}
	s.mu.Lock()
	b := s.unwritten[partition]
	s.mu.Unlock()
	if b == nil {
		return
	}
	err := s.file.change(func(stops []intent.Stop) []intent.Stop {
		if slices.ContainsFunc(stops, func(existing intent.Stop) bool { return existing.Partition == partition }) {
			return stops
		}
		return append(stops, b.stop)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		b.stop.Reach = intent.ReachFile
	} else {
		s.log.Warn("a stop is in force, and the file beside the store cannot take it", "partition", partition, "error", err)
	}
}

// write has the store take a stop. What the store refuses is no stop; what it cannot
// take now stays in force.
func (s *Store) write(ctx context.Context, partition intent.PartitionID) error {
	s.mu.Lock()
	b := s.unwritten[partition]
	if b == nil || b.writing {
		s.mu.Unlock()
		return nil
	}
	b.writing = true
	stop := b.stop
	s.mu.Unlock()
	stop.Reach = ""
	err := s.All.SetStop(store.WithCaller(ctx, b.caller), stop)
	s.mu.Lock()
	b.writing = false
	settled := err == nil || refused(err)
	if !settled {
		s.mu.Unlock()
		if b.stop.Reach == intent.ReachMemory {
			s.writeFile(partition) // There may be room now.
		}
		return nil
	}
	delete(s.unwritten, partition)
	s.recorded[partition] = stop.Since
	s.mu.Unlock()
	s.forget(partition, stop.Since)
	return err
}

// refused tells what may not be from what cannot be now.
func refused(err error) bool {
	refusal, ok := errors.AsType[*fault.Error](err)
	return ok && (refusal.Kind == fault.Denied || refusal.Kind == fault.NotFound || refusal.Kind == fault.Invalid)
}

// forget removes from the file the stop that the store has. A later stop of the same
// partition, which another process wrote, stays.
func (s *Store) forget(partition intent.PartitionID, since time.Time) {
	if s.file == nil {
		return
	}
	same := func(existing intent.Stop) bool {
		return existing.Partition == partition && existing.Since.Equal(since)
	}
	if stops, err := s.file.read(); err == nil && !slices.ContainsFunc(stops, same) {
		return
	}
	err := s.file.change(func(stops []intent.Stop) []intent.Stop { return slices.DeleteFunc(stops, same) })
	if err != nil {
		s.log.Warn("a stop that the store has stays in the file beside it, and is in force again after a restart", "file", s.file.path, "partition", partition, "error", err)
	}
}

// Resume implements store.Brakes. A stop that is not in the store is written first: what
// is loosened is recorded, and nothing is where nothing can be (S25).
func (s *Store) Resume(ctx context.Context, partition intent.PartitionID, reason string, actor intent.Actor) error {
	if err := s.refresh(); err != nil {
		return fault.New(fault.Unavailable, "ending a stop: reading the brake file: %w", err)
	}
	if err := s.write(ctx, partition); err != nil {
		return err
	}
	s.mu.Lock()
	b := s.unwritten[partition]
	since, ok := s.recorded[partition]
	s.mu.Unlock()
	if ok {
		// Run may not have come to it yet, and a server that starts would find the stop that
		// ends now.
		s.forget(partition, since)
	}
	if b != nil {
		return fault.New(fault.Unavailable, "the stop is in force, and the store cannot record its end: it has not taken the stop itself yet").
			WithHint("mend the store, for example by freeing space on its disk; it takes the stop within a second, and lehr resume then ends it")
	}
	return s.All.Resume(ctx, partition, reason, actor)
}

// Stops implements store.Brakes: with those that it does not have.
func (s *Store) Stops(ctx context.Context) ([]intent.Stop, error) {
	stops, err := s.All.Stops(ctx)
	if err != nil {
		return stops, err
	}
	for _, stop := range s.Unwritten() {
		if !slices.ContainsFunc(stops, func(existing intent.Stop) bool {
			return existing.Partition == stop.Partition && !existing.Adopt && !existing.Unwitnessed
		}) {
			stops = append(stops, stop)
		}
	}
	return stops, nil
}

// Permit implements store.Journal. It looks at memory before it asks the store, which may
// hang, and after: a stop may have come meanwhile.
func (s *Store) Permit(ctx context.Context, lease store.Lease, push intent.PushID, now time.Time) error {
	refuse := func() error {
		if stop, stopped := s.inForce(lease.Partition); stopped {
			return fault.New(fault.Conflict, "permitting push %s: %s", push, stopText(stop))
		}
		return nil
	}
	if err := refuse(); err != nil {
		return err
	}
	if err := s.catchUp(); err != nil {
		return fault.New(fault.Unavailable, "permitting push %s: whether a stop is in force is not known: reading the brake file: %w", push, err)
	}
	if err := refuse(); err != nil {
		return err
	}
	if err := s.All.Permit(ctx, lease, push, now); err != nil {
		return err
	}
	return refuse()
}

// Admit implements store.Journal: nothing is admitted while a stop is in force, which
// another process may have written to the file.
func (s *Store) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	if err := s.refresh(); err != nil {
		return nil, fault.New(fault.Unavailable, "admitting pushes: whether a stop is in force is not known: reading the brake file: %w", err)
	}
	stop, stopped := s.inForce(lease.Partition)
	if !stopped {
		return s.All.Admit(ctx, lease, admissions)
	}
	refusals := make([]*store.Refusal, len(admissions))
	for i := range refusals {
		refusals[i] = &store.Refusal{Waiting: intent.WaitingOn{Kind: intent.WaitStop, Owner: stop.Owner.Name, Reason: stopText(stop)}}
	}
	return refusals, nil
}

// StepWorkflow implements store.Workflows: no document is edited while a stop is in force. A step
// without an edit only says what happened.
func (s *Store) StepWorkflow(ctx context.Context, lease store.Lease, step store.WorkflowStep) (intent.WorkflowRun, error) {
	if step.Edit == nil {
		return s.All.StepWorkflow(ctx, lease, step)
	}
	if err := s.refresh(); err != nil {
		return step.Run, fault.New(fault.Unavailable, "editing the document %s for run %d of the workflow %q: whether a stop is in force is not known: reading the brake file: %w",
			step.Document, step.Run.Number, step.Run.Workflow, err)
	}
	stop, stopped := s.inForce(lease.Partition)
	if stopped {
		return step.Run, fault.New(fault.Conflict, "editing the document %s for run %d of the workflow %q: %s", step.Document, step.Run.Number, step.Run.Workflow, stopText(stop))
	}
	return s.All.StepWorkflow(ctx, lease, step)
}

func stopText(stop intent.Stop) string {
	scope := "all partitions"
	if stop.Partition != "" {
		scope = fmt.Sprintf("partition %q", stop.Partition)
	}
	return fmt.Sprintf("%s stopped by %s: %s; %s ends it. %s", scope, stop.Owner.Name, stop.Reason, stop.Ending(), stop.Reach.Words())
}

// Close implements store.All.
func (s *Store) Close() error {
	if s.file != nil {
		s.file.close()
	}
	return s.All.Close()
}
