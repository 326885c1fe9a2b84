package relational

import (
	"context"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Few records are adrift, and those alone are looked up in head.
const (
	orphaned = ` FROM enforced e WHERE e.partition = $1 AND e.adrift = 1 AND e.absent = 0 AND NOT EXISTS (
		SELECT 1 FROM member m WHERE m.partition = $1 AND m.asset = e.asset AND m.from_seq <= $2 AND m.to_seq > $2)`
	listOrphans  = "SELECT " + enforcedColumns + orphaned + " AND e.asset > $3 ORDER BY e.asset LIMIT $4 + 0"
	countOrphans = "SELECT count(*)" + orphaned
	markAdrift   = "UPDATE enforced SET adrift = 1 WHERE partition = $1 AND asset = $2 AND adrift = 0"
)

// headOf is 0 for a partition that never was.
func headOf(q querier, partition intent.PartitionID) (head intent.Sequence, err error) {
	_, err = q.one("SELECT head FROM partitions WHERE id = $1", []any{string(partition)}, &head)
	return head, err
}

// Orphans lists, in the order of the ids, enforced records of assets that are
// not in head.
func (s *Store) Orphans(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) (orphans []store.Enforced, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the orphans of %q", partition), func(q querier) error {
		head, err := headOf(q, partition)
		if err != nil {
			return err
		}
		return q.queryEach(listOrphans, []any{string(partition), int64(head), string(cursor), pageSize(limit)}, func(row scanner) error {
			orphan, err := scanEnforced(row, partition)
			orphans = append(orphans, orphan)
			return err
		})
	})
	return orphans, err
}

// OrphanCount costs what has left head since it was enforced.
func (s *Store) OrphanCount(ctx context.Context, partition intent.PartitionID) (count int, err error) {
	err = s.read(ctx, fmt.Sprintf("counting the orphans of %q", partition), func(q querier) error {
		head, err := headOf(q, partition)
		if err != nil {
			return err
		}
		_, err = q.one(countOrphans, []any{string(partition), int64(head)}, &count)
		return err
	})
	return count, err
}

// Disown forgets an orphan's record and its claim. No decision that was made
// with the orphan is worse without, so the revision stays; but whoever waits for
// it, or its resource, is told.
func (s *Store) Disown(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("disowning %q of %q", asset, partition)
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, partition); err != nil {
			return err
		}
		orphan, err := mustBeOrphan(t, attempt, partition, asset)
		if err != nil {
			return err
		}
		if err := mustBeLeftAlone(t, attempt, partition, asset); err != nil {
			return err
		}
		keys, err := giveUpClaims(t, partition, asset)
		if err != nil {
			return err
		}
		if _, err := t.exec("DELETE FROM enforced WHERE partition = $1 AND asset = $2", string(partition), string(asset)); err != nil {
			return err
		}
		if err := forgetMemos(t, partition, asset); err != nil {
			return err
		}
		detail := "last in sync with " + orphan.Incarnation.String()
		if len(keys) > 0 {
			detail += ", gave up " + strings.Join(keys, ", ")
		}
		t.audit(partition, t.now, actor, "disown", string(asset), detail).because(reason)
		return t.tell(partition)
	})
}

// mustBeOrphan is NotFound, and says what the asset is instead.
func mustBeOrphan(t *transaction, attempt string, partition intent.PartitionID, asset intent.AssetID) (orphan store.Enforced, err error) {
	head, err := headOf(t, partition)
	if err != nil {
		return orphan, err
	}
	inHead, err := isMember(t, partition, asset, head)
	if err != nil {
		return orphan, err
	}
	if inHead {
		return orphan, fault.New(fault.NotFound, "%s: it is no orphan: %s@%d has it", attempt, partition, head).
			WithHint("only what intent does not name any more can be disowned")
	}
	ok := false
	err = t.queryEach("SELECT "+enforcedColumns+" FROM enforced e WHERE e.partition = $1 AND e.asset = $2",
		[]any{string(partition), string(asset)}, func(row scanner) (err error) {
			ok = true
			orphan, err = scanEnforced(row, partition)
			return err
		})
	switch {
	case err != nil:
		return orphan, err
	case !ok:
		return orphan, fault.New(fault.NotFound, "%s: it is no orphan: it was never seen in sync, or was disowned", attempt).
			WithHint("lehr get orphans lists them")
	case orphan.Absent:
		return orphan, fault.New(fault.NotFound, "%s: it is no orphan: its turndown is complete, nothing of it is left", attempt).
			WithHint("lehr get orphans lists them")
	}
	return orphan, nil
}

// mustBeLeftAlone is Conflict while something may still be pushed.
func mustBeLeftAlone(t *transaction, attempt string, partition intent.PartitionID, asset intent.AssetID) error {
	var push string
	open, err := t.one("SELECT id FROM push WHERE partition = $1 AND asset = $2 AND open = 1", []any{string(partition), string(asset)}, &push)
	if err != nil {
		return err
	}
	if open {
		return fault.New(fault.Conflict, "%s: push %s of it is open", attempt, push).WithHint("try again when it has ended: lehr get pushes --asset %s", asset)
	}
	pinned, err := isPinned(t, partition, asset, t.now)
	if err == nil && pinned {
		err = fault.New(fault.Conflict, "%s: a pin keeps it followed", attempt).WithHint("first: lehr unpin %s --reason WHY", asset)
	}
	return err
}
