package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Acquire raises the epoch. Where one process serves the database, whoever
// held the lease before is gone or of this process; elsewhere the lease of
// another holder must have ended, by the database's clock.
func (s *Store) Acquire(ctx context.Context, partition intent.PartitionID, holder string) (lease store.Lease, err error) {
	attempt := fmt.Sprintf("acquiring the lease of %q", partition)
	if holder == "" {
		return lease, fault.New(fault.Invalid, "%s: the holder has no name", attempt)
	}
	if err := s.mustServe(attempt); err != nil {
		return lease, err
	}
	err = s.write(ctx, attempt, func(t *transaction) error {
		lease = store.Lease{Partition: partition, Holder: holder}
		if err := mustRegister(t, attempt, partition); err != nil {
			return err
		}
		if err := s.mustBeFree(t, attempt, partition, holder); err != nil {
			return err
		}
		if _, err := t.one("UPDATE partitions SET epoch = epoch + 1, holder = $2 WHERE id = $1 RETURNING epoch",
			[]any{string(partition), holder}, &lease.Epoch); err != nil {
			return err
		}
		// Whoever admitted them is gone: how they ended is not known.
		if _, err := t.exec("UPDATE push SET doubt = 1 WHERE partition = $1 AND open = 1", string(partition)); err != nil {
			return err
		}
		if err := recountReports(t, partition); err != nil {
			return err
		}
		t.audit(partition, t.now, serverActor(lease), "acquire", string(partition), fmt.Sprintf("epoch %d", lease.Epoch))
		return nil
	})
	if err != nil {
		return store.Lease{}, err
	}
	return lease, nil
}

// Free lists what Acquire would not refuse the holder.
func (s *Store) Free(ctx context.Context, holder string) (free []intent.PartitionID, err error) {
	now := s.engine.Now()
	if now == "" {
		return nil, nil
	}
	err = s.read(ctx, "listing the leases that are free", func(q querier) error {
		return q.queryEach(`SELECT p.id FROM partitions p WHERE p.registered = 1
			AND NOT EXISTS (SELECT 1 FROM replica r WHERE `+running(now)+`) ORDER BY p.id`, []any{holder}, func(row scanner) error {
			var id intent.PartitionID
			err := row.Scan(&id)
			free = append(free, id)
			return err
		})
	})
	return free, err
}

// running: replica r has the lease of partition p, and is not $1.
func running(now string) string { return "r.name = p.holder AND r.name <> $1 AND r.ends > " + now }

// mustBeFree is Conflict while the lease of another holder runs.
func (s *Store) mustBeFree(t *transaction, attempt string, partition intent.PartitionID, holder string) error {
	now := s.engine.Now()
	if now == "" {
		return nil
	}
	var currentHolder string
	isHeld, err := t.one("SELECT p.holder FROM partitions p JOIN replica r ON "+running(now)+" WHERE p.id = $2",
		[]any{holder, string(partition)}, &currentHolder)
	if isHeld && err == nil {
		err = fault.New(fault.Conflict, "%s: %q has it", attempt, currentHolder)
	}
	return err
}

// Check is Conflict when the lease is not current.
func (s *Store) Check(ctx context.Context, lease store.Lease) error {
	const text = `SELECT p.epoch, p.holder, h.timeline, coalesce(w.commits, 0)
		FROM partitions p JOIN history h ON h.generation = (SELECT max(generation) FROM history)
		LEFT JOIN writer w ON w.generation = h.generation AND w.name = $2
		WHERE p.id = $1`
	if err := s.mustServe("acting for " + string(lease.Partition)); err != nil {
		return err
	}
	lastMark := s.memory.Load()
	if lastMark == nil {
		lastMark = &mark{}
	}
	return s.glance(ctx, "checking the lease of "+string(lease.Partition), func(q querier) error {
		var timeline string
		var commits int64
		if err := current(q, lease, text, []any{string(lease.Partition), lastMark.Writer}, &timeline, &commits); err != nil {
			return err
		}
		if timeline != lastMark.Timeline {
			commits = 0
		}
		return lacks(commits, *lastMark)
	})
}

// Release ends the lease at once; the epoch stays, so that it is never reused.
func (s *Store) Release(ctx context.Context, lease store.Lease) error {
	return s.act(ctx, "releasing the lease of "+string(lease.Partition), lease, func(t *transaction, _ standing) error {
		t.audit(lease.Partition, t.now, serverActor(lease), "release", string(lease.Partition), fmt.Sprintf("epoch %d", lease.Epoch))
		_, err := t.exec("UPDATE partitions SET holder = '' WHERE id = $1", string(lease.Partition))
		return err
	})
}

// standing is what a partition's row says while a lease is current.
type standing struct {
	head          intent.Sequence
	revision      uint64
	stageRevision int64
	// suspect: the store may lack commits, and nobody has adopted it yet.
	suspect bool
	// global is the number of the last record of all partitions together.
	global uint64
	// stop in force, the one of all first.
	stopped bool
	stop    intent.Stop
}

// fence is Conflict unless the lease is current (S4). It must be the first
// thing in the transaction that acts under the lease.
func (s *Store) fence(q querier, lease store.Lease) (now standing, err error) {
	if err := s.mustServe("acting for " + string(lease.Partition)); err != nil {
		return now, err
	}
	var since, suspected int64
	var c chapter
	err = current(q, lease, `SELECT p.epoch, p.holder, p.head, p.revision, p.stage_revision,
		coalesce((SELECT last FROM audit_head WHERE partition = ''), 0),
		coalesce(s.partition, ''), coalesce(s.owner, ''), coalesce(s.reason, ''), coalesce(s.since, -1),
		h.generation, h.timeline, h.suspect, h.since, h.place, `+s.engine.Place()+`
		FROM partitions p JOIN history h ON h.generation = (SELECT max(generation) FROM history)
		LEFT JOIN stop s ON s.partition = (
			SELECT min(partition) FROM stop WHERE partition = '' OR partition = p.id)
		WHERE p.id = $1`, []any{string(lease.Partition)},
		&now.head, &now.revision, &now.stageRevision, &now.global,
		&now.stop.Partition, &now.stop.Owner.Name, &now.stop.Reason, &since,
		&c.generation, &c.timeline, &c.suspect, &suspected, &c.place, &c.currentPlace)
	if err != nil {
		return now, err
	}
	now.stopped = since >= 0
	now.stop.Since = unstamp(since)
	if !c.trusted() {
		c.since = unstamp(suspected)
		now.suspect, now.stopped, now.stop = true, true, c.stop()
	} else if stop := s.writer.unwitnessed.Load(); stop != nil {
		now.stopped, now.stop = true, *stop
	}
	return now, s.remembered(q, c)
}

// current is Conflict unless a query's first columns, a partition's epoch and
// holder, are the lease's. It scans the rest.
func current(q querier, lease store.Lease, text string, arguments []any, rest ...any) error {
	var epoch uint64
	var holder string
	ok, err := q.one(text, arguments, append([]any{&epoch, &holder}, rest...)...)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.New(fault.Conflict, "the lease of %q is not current: there is no such partition", lease.Partition)
	case lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder:
		return fault.New(fault.Conflict, "the lease of %q held by %q at epoch %d is not current: the epoch is %d, held by %q",
			lease.Partition, lease.Holder, lease.Epoch, epoch, holder)
	}
	return nil
}

// remembered is Conflict when a view lacks what this process had committed
// before it (S15). A transaction that writes finds it by itself, see count.
func (s *Store) remembered(q querier, c chapter) error {
	view, reads := q.(snapshot)
	if !reads || view.lastMark == nil {
		return nil
	}
	var commits int64
	if c.timeline == view.lastMark.Timeline {
		if _, err := q.one("SELECT commits FROM writer WHERE generation = $1 AND name = $2", []any{c.generation, view.lastMark.Writer}, &commits); err != nil {
			return err
		}
	}
	return lacks(commits, *view.lastMark)
}

// lacks is Conflict when the store has fewer commits of this process than it knows of.
func lacks(commits int64, lastMark mark) error {
	if commits < lastMark.Commits {
		return fault.New(fault.Conflict, "the store has %d commits of this process, which knows of %d", commits, lastMark.Commits)
	}
	return nil
}

// act writes under a lease.
func (s *Store) act(ctx context.Context, attempt string, lease store.Lease, work func(*transaction, standing) error) error {
	return s.write(ctx, attempt, func(t *transaction) error {
		now, err := s.fence(t, lease)
		if err != nil {
			return err
		}
		return work(t, now)
	})
}

// mustServe refuses what a store opened beside its server may not do.
func (s *Store) mustServe(attempt string) error {
	if s.serving {
		return nil
	}
	return fault.New(fault.Denied, "%s: this store was opened beside its server, for reading and for the brakes only", attempt)
}

func serverActor(lease store.Lease) intent.Actor {
	return intent.Actor{Name: lease.Holder, Origin: intent.ServerOrigin}
}
