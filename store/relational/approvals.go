package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// Approve allows one push of one plan. Approving again what was used allows
// one more.
func (s *Store) Approve(ctx context.Context, approval store.Approval) error {
	attempt := fmt.Sprintf("approving a push of %q in %q", approval.Asset, approval.Partition)
	if approval.Effective.IsZero() || approval.Plan.IsZero() {
		return fault.New(fault.Invalid, "%s: it names no effective digest or no plan", attempt)
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Approver, approval.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, approval.Partition); err != nil {
			return err
		}
		if approval.Created.IsZero() {
			approval.Created = t.now
		}
		_, err := t.exec(`INSERT INTO approval (partition, asset, effective, plan, approver, origin, reason, created, ends, used_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '')
			ON CONFLICT (partition, asset, effective, plan) DO UPDATE SET approver = excluded.approver, origin = excluded.origin,
			reason = excluded.reason, created = excluded.created, ends = excluded.ends, used_by = ''`,
			string(approval.Partition), string(approval.Asset), approval.Effective[:], approval.Plan[:],
			approval.By.Name, approval.By.Origin, approval.Reason, stamp(approval.Created), stamp(approval.Until))
		if err != nil {
			return err
		}
		t.audit(approval.Partition, t.now, approval.By, "approve", string(approval.Asset),
			fmt.Sprintf("plan %s of content %s: %s", approval.Plan.Short(), approval.Effective.Short(), approval.Reason))
		return t.bump(approval.Partition)
	})
}

// Approvals lists those not used.
func (s *Store) Approvals(ctx context.Context, partition intent.PartitionID) (approvals []store.Approval, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the approvals of %q", partition), func(q querier) error {
		return q.each(`SELECT asset, effective, plan, approver, origin, reason, created, ends
			FROM approval WHERE partition = $1 AND used_by = '' ORDER BY asset, created`, []any{string(partition)}, func(row scanner) error {
			a := store.Approval{Partition: partition}
			var created, ends int64
			err := row.Scan(&a.Asset, digestColumn{&a.Effective}, digestColumn{&a.Plan}, &a.By.Name, &a.By.Origin, &a.Reason, &created, &ends)
			a.Created, a.Until = unstamp(created), unstamp(ends)
			approvals = append(approvals, a)
			return err
		})
	})
	return approvals, err
}

// consumeApproval uses the approval of the admission, if there is one that
// still holds (S9).
func consumeApproval(t *transaction, partition intent.PartitionID, a store.Admission, now time.Time) (bool, error) {
	changed, err := t.exec(`UPDATE approval SET used_by = $5
		WHERE partition = $1 AND asset = $2 AND effective = $3 AND plan = $4 AND used_by = '' AND (ends = 0 OR ends > $6)`,
		string(partition), string(a.Asset), a.Effective[:], a.Plan[:], string(a.Push), stamp(now))
	return changed == 1, err
}

// voidApprovals forgets the unused approvals of assets whose content this
// incarnation changes or removes: they were given for what was asked then, and
// do not come back with it (S9).
func voidApprovals(t *transaction, incarnation *intent.Incarnation) error {
	partition, next := incarnation.ID.Partition, int64(incarnation.ID.Sequence)
	var voided []store.Approval
	err := t.each(`SELECT asset, effective, plan FROM approval a WHERE partition = $1 AND used_by = ''
		AND EXISTS (SELECT 1 FROM member m WHERE m.partition = a.partition AND m.asset = a.asset AND (m.from_seq = $2 OR m.to_seq = $2))
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.partition = a.partition AND m.asset = a.asset
			AND m.from_seq <= $2 AND m.to_seq > $2 AND m.effective = a.effective)`,
		[]any{string(partition), next}, func(row scanner) error {
			var a store.Approval
			err := row.Scan(&a.Asset, digestColumn{&a.Effective}, digestColumn{&a.Plan})
			voided = append(voided, a)
			return err
		})
	if err != nil {
		return err
	}
	for _, a := range voided {
		if _, err := t.exec("DELETE FROM approval WHERE partition = $1 AND asset = $2 AND effective = $3 AND plan = $4",
			string(partition), string(a.Asset), a.Effective[:], a.Plan[:]); err != nil {
			return err
		}
		t.audit(partition, t.now, incarnation.Author, "void", string(a.Asset),
			fmt.Sprintf("the approval of plan %s of content %s: %s changes the asset", a.Plan.Short(), a.Effective.Short(), incarnation.ID))
	}
	return nil
}
