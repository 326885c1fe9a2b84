package relational

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// AddPartition registers a partition or moves its definition.
func (s *Store) AddPartition(ctx context.Context, id intent.PartitionID, definition, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("registering partition %q", id)
	if _, err := intent.ParsePartitionID(string(id)); err != nil {
		return err
	}
	if !filepath.IsAbs(definition) && !strings.Contains(definition, "://") {
		return fault.New(fault.Invalid, "%s: the definition %q is neither an absolute path nor a URL", attempt, definition)
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorizeAdding(id); err != nil {
			return err
		}
		changed, err := t.exec(`INSERT INTO partitions
			(id, definition, registered, head, covered, revision, pin_revision, stage_revision, epoch, holder, created)
			VALUES ($1, $2, 1, 0, '[]', 1, 0, 0, 0, '', $3)
			ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, registered = 1, revision = partitions.revision + 1
			WHERE partitions.definition <> excluded.definition OR partitions.registered = 0`,
			string(id), definition, stamp(t.now))
		if err != nil || changed == 0 {
			return err
		}
		t.changed = append(t.changed, id)
		t.audit(id, t.now, actor, "add-partition", string(id), definition).because(reason)
		return nil
	})
}

// authorizeAdding: whoever is admin of one partition may move it, and add no
// other.
func (t *transaction) authorizeAdding(id intent.PartitionID) error {
	var one int
	ok, err := t.one("SELECT 1 FROM partitions WHERE id = $1 AND registered = 1", []any{string(id)}, &one)
	if err != nil {
		return err
	}
	if !ok {
		id = ""
	}
	return t.authorize(intent.Admin, id)
}

// RemovePartition forgets the registration and the memos, and ends the lease and the runs of
// workflows: none goes on when the partition is registered again.
func (s *Store) RemovePartition(ctx context.Context, id intent.PartitionID, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("removing partition %q", id)
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Admin, id); err != nil {
			return err
		}
		changed, err := t.exec("UPDATE partitions SET registered = 0, holder = '', revision = revision + 1 WHERE id = $1 AND registered = 1", string(id))
		if err != nil {
			return err
		}
		if changed == 0 {
			return notRegistered(attempt, id)
		}
		for _, table := range []string{"memo", "verification"} {
			if _, err := t.exec("DELETE FROM "+table+" WHERE partition = $1", string(id)); err != nil {
				return err
			}
		}
		if err := endRuns(t, attempt, id); err != nil {
			return err
		}
		t.changed = append(t.changed, id)
		t.audit(id, t.now, actor, "remove-partition", string(id), "").because(reason)
		return nil
	})
}

// selectPartition ends where conditions may be added.
func (s *Store) selectPartition() string {
	replica := "''"
	if now := s.engine.Now(); now != "" {
		replica = "coalesce((SELECT r.name FROM replica r WHERE r.name = p.holder AND r.ends > " + now + "), '')"
	}
	return `SELECT p.id, p.definition, p.head, p.covered, p.revision, p.created, p.epoch, ` + replica + `,
	coalesce(s.partition, ''), coalesce(s.owner, ''), coalesce(s.origin, ''), coalesce(s.reason, ''), coalesce(s.since, -1)
	FROM partitions p LEFT JOIN stop s ON s.partition = (
		SELECT min(partition) FROM stop WHERE partition = '' OR partition = p.id)
	WHERE p.registered = 1`
}

func scanPartition(row scanner) (p store.Partition, err error) {
	var head, created, since int64
	var covered string
	var stop intent.Stop
	err = row.Scan(&p.ID, &p.Definition, &head, &covered, &p.Revision, &created, &p.Epoch, &p.Replica,
		&stop.Partition, &stop.Owner.Name, &stop.Owner.Origin, &stop.Reason, &since)
	if err != nil {
		return p, err
	}
	p.Head = intent.IncarnationID{Partition: p.ID, Sequence: intent.Sequence(head)}
	p.Created = unstamp(created)
	if since >= 0 {
		stop.Since = unstamp(since)
		p.Stop = &stop
	}
	return p, decode("coverage of partition "+string(p.ID), covered, &p.Covered)
}

// Partition returns a registered partition. Of two stops that cover it, it
// shows the one of all.
func (s *Store) Partition(ctx context.Context, id intent.PartitionID) (p store.Partition, err error) {
	attempt := fmt.Sprintf("reading partition %q", id)
	err = s.read(ctx, attempt, func(q querier) error {
		ok := false
		err := q.queryEach(s.selectPartition()+" AND p.id = $1", []any{string(id)}, func(row scanner) (err error) {
			ok = true
			p, err = scanPartition(row)
			return err
		})
		if err == nil && !ok {
			return notRegistered(attempt, id)
		}
		if err != nil {
			return err
		}
		suspicion, err := s.suspicion(q)
		p.Stop = cmp.Or(suspicion, p.Stop)
		return err
	})
	return p, err
}

// ListPartitions lists the registered ones in the order of their ids.
func (s *Store) ListPartitions(ctx context.Context) (partitions []store.Partition, err error) {
	err = s.read(ctx, "listing the partitions", func(q querier) error {
		err := q.queryEach(s.selectPartition()+" ORDER BY p.id", nil, func(row scanner) error {
			p, err := scanPartition(row)
			partitions = append(partitions, p)
			return err
		})
		if err != nil {
			return err
		}
		suspicion, err := s.suspicion(q)
		for i := range partitions {
			partitions[i].Stop = cmp.Or(suspicion, partitions[i].Stop)
		}
		return err
	})
	return partitions, err
}

func notRegistered(attempt string, id intent.PartitionID) error {
	return fault.New(fault.NotFound, "%s: partition %q is not registered", attempt, id).
		WithHint("lehr partition add PATH registers one, lehr get partitions lists them")
}

// mustRegister is NotFound unless the partition is registered.
func mustRegister(q querier, attempt string, id intent.PartitionID) error {
	var one int
	ok, err := q.one("SELECT 1 FROM partitions WHERE id = $1 AND registered = 1", []any{string(id)}, &one)
	if err == nil && !ok {
		return notRegistered(attempt, id)
	}
	return err
}

// Hint counts, and tells the listeners of Changed in every process.
func (s *Store) Hint(ctx context.Context, id intent.PartitionID) error {
	attempt := fmt.Sprintf("saying that the sources of partition %q may have changed", id)
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := mustRegister(t, attempt, id); err != nil {
			return err
		}
		if _, err := t.exec("UPDATE partitions SET hints = hints + 1 WHERE id = $1", string(id)); err != nil {
			return err
		}
		return t.tell(id)
	})
}

// Hints is what Hint counted.
func (s *Store) Hints(ctx context.Context, id intent.PartitionID) (hints int64, err error) {
	attempt := fmt.Sprintf("reading whether the sources of partition %q may have changed", id)
	err = s.read(ctx, attempt, func(q querier) error {
		ok, err := q.one("SELECT hints FROM partitions WHERE id = $1 AND registered = 1", []any{string(id)}, &hints)
		if err == nil && !ok {
			return notRegistered(attempt, id)
		}
		return err
	})
	return hints, err
}
