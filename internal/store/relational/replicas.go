package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// Renew lets all leases of the holder run until the period has passed, by the
// database's clock. It is one statement on a connection of its own: the writer
// may wait for a row that a process which stands still has locked, and must not
// take this process's leases with it. It need not be serializable, for who has
// a lease is told by its epoch.
func (s *Store) Renew(ctx context.Context, holder string, period time.Duration) error {
	attempt := fmt.Sprintf("renewing the leases of %q", holder)
	if holder == "" || period <= 0 {
		return fault.New(fault.Invalid, "%s: it needs a name and a period longer than nothing", attempt)
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	if s.engine.Now() == "" {
		return nil // The lock is the lease.
	}
	var err error
	for range tries {
		_, err = s.db.ExecContext(ctx, "INSERT INTO replica (name, ends) VALUES ($1, "+s.engine.Now()+" + $2) ON CONFLICT (name) DO UPDATE SET ends = excluded.ends",
			holder, period.Nanoseconds())
		if err == nil || ctx.Err() != nil || !s.engine.Again(err) {
			break
		}
	}
	return s.engine.Failure(attempt, err)
}

// Retire ends all leases of the holder at once, and forgets it.
func (s *Store) Retire(ctx context.Context, holder string) error {
	return s.write(ctx, fmt.Sprintf("retiring %q", holder), func(t *transaction) error {
		err := t.queryEach("UPDATE partitions SET holder = '' WHERE holder = $1 RETURNING id, epoch", []any{holder}, func(row scanner) error {
			lease := store.Lease{Holder: holder}
			err := row.Scan(&lease.Partition, &lease.Epoch)
			t.audit(lease.Partition, t.now, serverActor(lease), "release", string(lease.Partition), fmt.Sprintf("epoch %d", lease.Epoch))
			return err
		})
		if err != nil {
			return err
		}
		// The others hear of it, also when its leases were released before.
		if _, err := t.exec("UPDATE partitions SET news = news + 1 WHERE id = (SELECT min(id) FROM partitions)"); err != nil {
			return err
		}
		t.changed, t.ends = append(t.changed, ""), true
		_, err = t.exec("DELETE FROM replica WHERE name = $1", holder)
		return err
	})
}

// Replicas lists those whose leases run, with what each holds.
func (s *Store) Replicas(ctx context.Context) (replicas []store.Replica, err error) {
	now := s.engine.Now()
	if now == "" {
		return nil, nil
	}
	err = s.read(ctx, "listing replicas", func(q querier) error {
		return q.queryEach(`SELECT r.name, r.ends - `+now+`, count(p.id) FROM replica r LEFT JOIN partitions p ON p.holder = r.name
			WHERE r.ends > `+now+` GROUP BY r.name, r.ends ORDER BY r.name`, nil, func(row scanner) error {
			var r store.Replica
			if err := row.Scan(&r.Name, &r.Left, &r.Partitions); err != nil {
				return err
			}
			replicas = append(replicas, r)
			return nil
		})
	})
	return replicas, err
}
