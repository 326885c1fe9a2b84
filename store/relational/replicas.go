package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/fault"
	"lehr.dev/store"
)

// Renew lets all leases of the holder run until the period has passed, by the
// database's clock.
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
	return s.writeFirst(ctx, attempt, func(t *transaction) error {
		_, err := t.exec("INSERT INTO replica (name, ends) VALUES ($1, "+s.engine.Now()+" + $2) ON CONFLICT (name) DO UPDATE SET ends = excluded.ends",
			holder, period.Nanoseconds())
		return err
	})
}

// Retire ends all leases of the holder at once, and forgets it.
func (s *Store) Retire(ctx context.Context, holder string) error {
	return s.write(ctx, fmt.Sprintf("retiring %q", holder), func(t *transaction) error {
		err := t.each("UPDATE partitions SET holder = '', news = news + 1 WHERE holder = $1 RETURNING id, epoch", []any{holder}, func(row scanner) error {
			lease := store.Lease{Holder: holder}
			err := row.Scan(&lease.Partition, &lease.Epoch)
			t.audit(lease.Partition, t.now, serverActor(lease), "release", string(lease.Partition), fmt.Sprintf("epoch %d", lease.Epoch))
			return err
		})
		if err != nil {
			return err
		}
		t.notable = true
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
		return q.each(`SELECT r.name, r.ends - `+now+`, (SELECT count(*) FROM partitions p WHERE p.holder = r.name)
			FROM replica r WHERE r.ends > `+now+` ORDER BY r.name`, nil, func(row scanner) error {
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
