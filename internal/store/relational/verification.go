package relational

import (
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// verify has a verification begin, go on at a newer head, or end, as a step says.
func verify(t *transaction, attempt string, lease store.Lease, step store.PromotionStep) error {
	if step.Verify == nil && step.Verified == nil {
		return nil
	}
	for _, v := range []*intent.Verification{step.Verified, step.Verify} {
		if v != nil && v.Partition != lease.Partition {
			return fault.New(fault.Invalid, "%s: a verification in %q is not of the lease's partition %q", attempt, v.Partition, lease.Partition)
		}
	}
	if v := step.Verified; v != nil {
		if err := endVerification(t, attempt, v); err != nil {
			return err
		}
	}
	if v := step.Verify; v != nil {
		if err := beginVerification(t, attempt, v); err != nil {
			return err
		}
	}
	return t.bump(lease.Partition)
}

// EndVerification ends one without a word of its application.
func (s *Store) EndVerification(ctx context.Context, lease store.Lease, v intent.Verification) error {
	attempt := fmt.Sprintf("ending the verification %s in %s", v.Name, v.Environment)
	return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		if v.Partition != lease.Partition {
			return fault.New(fault.Invalid, "%s: it is in %q, and the lease is of %q", attempt, v.Partition, lease.Partition)
		}
		if err := endVerification(t, attempt, &v); err != nil {
			return err
		}
		return t.bump(lease.Partition)
	})
}

func endVerification(t *transaction, attempt string, v *intent.Verification) error {
	verification, err := verificationOf(t, v)
	if err != nil {
		return err
	}
	if verification == nil || !verification.Same(*v) {
		return fault.New(fault.Conflict, "%s: the verification %s in %s is not under way any more", attempt, v.Name, v.Environment)
	}
	_, err = t.exec("DELETE FROM verification WHERE partition = $1 AND home = $2 AND application = $3 AND environment = $4",
		string(v.Partition), string(v.Home), v.Application, v.Environment)
	return err
}

// beginVerification stores one that begins, or one under way with another head.
func beginVerification(t *transaction, attempt string, v *intent.Verification) error {
	verification, err := verificationOf(t, v)
	switch {
	case err != nil:
		return err
	case verification != nil && !verification.Same(*v):
		return fault.New(fault.Conflict, "%s: the verification %s is under way in %s already", attempt, verification.Name, v.Environment)
	case verification == nil:
		var pushed []intent.AssetID
		err := t.queryEach("SELECT asset FROM push WHERE partition = $1 AND open = 1", []any{string(v.Partition)}, func(row scanner) error {
			var asset intent.AssetID
			err := row.Scan(&asset)
			pushed = append(pushed, asset)
			return err
		})
		if err != nil {
			return err
		}
		if at := slices.IndexFunc(pushed, func(asset intent.AssetID) bool { return slices.Contains(v.Assets, asset) }); at >= 0 {
			return fault.New(fault.Conflict, "%s: a push of %q is under way", attempt, pushed[at])
		}
	}
	record, err := encode(*v)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO verification (partition, home, application, environment, record) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (partition, home, application, environment) DO UPDATE SET record = excluded.record`,
		string(v.Partition), string(v.Home), v.Application, v.Environment, record)
	return err
}

// verificationOf is the one under way in the environment of another; nil: none is.
func verificationOf(q querier, v *intent.Verification) (verification *intent.Verification, err error) {
	err = q.queryEach("SELECT record FROM verification WHERE partition = $1 AND home = $2 AND application = $3 AND environment = $4",
		[]any{string(v.Partition), string(v.Home), v.Application, v.Environment}, func(row scanner) error {
			verification = &intent.Verification{}
			return decodeRow(row, "verification", verification)
		})
	return verification, err
}

// Verifications lists those that are under way in a partition.
func (s *Store) Verifications(ctx context.Context, partition intent.PartitionID) (list []intent.Verification, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the verifications under way in %q", partition), func(q querier) error {
		return q.queryEach("SELECT record FROM verification WHERE partition = $1 ORDER BY home, application, environment",
			[]any{string(partition)}, func(row scanner) error {
				var v intent.Verification
				err := decodeRow(row, "verification", &v)
				list = append(list, v)
				return err
			})
	})
	return list, err
}
