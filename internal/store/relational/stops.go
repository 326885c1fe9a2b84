package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// SetStop stops a partition, or all (S18). The first stop of a scope stays.
func (s *Store) SetStop(ctx context.Context, stop intent.Stop) error {
	attempt := "stopping " + scopeName(stop.Partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, stop.Partition); err != nil {
			return err
		}
		if stop.Partition != "" {
			if err := mustRegister(t, attempt, stop.Partition); err != nil {
				return err
			}
		}
		if stop.Since.IsZero() {
			stop.Since = t.now
		}
		changed, err := t.exec(`INSERT INTO stop (partition, owner, origin, reason, since) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (partition) DO NOTHING`,
			string(stop.Partition), stop.Owner.Name, stop.Owner.Origin, stop.Reason, stamp(stop.Since))
		if err != nil || changed == 0 {
			return err
		}
		t.audit(stop.Partition, t.now, stop.Owner, "stop", string(stop.Partition), "").because(stop.Reason)
		return t.bump(stop.Partition)
	})
}

// Resume ends the stop of that very scope.
func (s *Store) Resume(ctx context.Context, partition intent.PartitionID, reason string, actor intent.Actor) error {
	attempt := "resuming " + scopeName(partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		removed, err := t.exec("DELETE FROM stop WHERE partition = $1", string(partition))
		if err != nil {
			return err
		}
		if removed == 0 {
			suspicion, err := s.suspicion(t)
			switch {
			case err != nil:
				return err
			case suspicion != nil:
				return fault.New(fault.Conflict, "%s: the store itself stopped it: %s", attempt, suspicion.Reason).
					WithHint("%s ends it", suspicion.Ending())
			}
			return fault.New(fault.NotFound, "%s: it is not stopped", attempt).
				WithHint("a stop is ended by the scope that it was given: one partition, or all")
		}
		t.audit(partition, t.now, actor, "resume", string(partition), "").because(reason)
		return t.bump(partition)
	})
}

// Stops lists those in force: the store's own first, then that of all
// partitions.
func (s *Store) Stops(ctx context.Context) (stops []intent.Stop, err error) {
	err = s.read(ctx, "listing the stops", func(q querier) error {
		suspicion, err := s.suspicion(q)
		if err != nil {
			return err
		}
		if suspicion != nil {
			stops = append(stops, *suspicion)
		}
		return q.queryEach("SELECT partition, owner, origin, reason, since FROM stop ORDER BY partition", nil, func(row scanner) error {
			var stop intent.Stop
			var since int64
			err := row.Scan(&stop.Partition, &stop.Owner.Name, &stop.Owner.Origin, &stop.Reason, &since)
			stop.Since = unstamp(since)
			stops = append(stops, stop)
			return err
		})
	})
	return stops, err
}

func scopeName(partition intent.PartitionID) string {
	if partition == "" {
		return "all partitions"
	}
	return fmt.Sprintf("partition %q", partition)
}
