package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/planrecord"
	"lehr.dev/internal/store"
)

// ClosePushes ends pushes, releases their budgets, and has them count under rate
// limits from then on.
func (s *Store) ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error {
	if len(closings) == 0 {
		return nil
	}
	attempt := fmt.Sprintf("closing %d pushes in %q", len(closings), lease.Partition)
	return s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
		d := desk{transaction: t, lease: lease, now: now, budgets: map[string]*budget{}}
		for _, closing := range closings {
			if closing.Ending == store.EndingInDoubt {
				if err := doubt(t, lease, closing); err != nil {
					return err
				}
				continue
			}
			var asset, key, budgets, rates string
			var planRecord []byte
			ok, err := t.one(`UPDATE push SET open = 0, doubt = 0, ending = $3, reason = $4, ended = $5
				WHERE id = $1 AND partition = $2 AND open = 1 RETURNING asset, resource_key, budgets, rates, plan_record`,
				[]any{string(closing.Push), string(lease.Partition), closing.Ending, closing.Reason, stamp(closing.At)}, &asset, &key, &budgets, &rates, &planRecord)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if closing.Ending != pushedEnding && closing.Ending != store.EndingSettled {
				if err := unmake(t, lease.Partition, closing.Push, asset, key, planRecord); err != nil {
					return err
				}
			}
			if err := d.releaseBudgets(budgets); err != nil {
				return err
			}
			if err := d.endRates(rates, closing); err != nil {
				return err
			}
			t.audit(lease.Partition, closing.At, serverActor(lease), "close", asset,
				audit.Ended{Push: closing.Push, Ending: closing.Ending, Why: closing.Reason}.String())
		}
		return d.settleBudgets()
	})
}

// unmake has a claim no longer say that its asset created the resource, where the push that was to create it did
// not succeed: what is there later, somebody else may have made.
func unmake(t *transaction, partition intent.PartitionID, push intent.PushID, asset, key string, planRecord []byte) error {
	plan, err := decodePlan(push, planRecord)
	if err != nil || plan == nil || plan.Action != intent.ActionCreate {
		return err
	}
	_, err = t.exec("UPDATE claim SET made = 0 WHERE resource_key = $1 AND partition = $2 AND asset = $3 AND made = 1", key, string(partition), asset)
	return err
}

// doubt marks a push whose end was lost. It stays open, and keeps its budgets,
// until it is settled.
func doubt(t *transaction, lease store.Lease, closing store.Closing) error {
	var asset string
	ok, err := t.one("UPDATE push SET doubt = 1, reason = $3 WHERE id = $1 AND partition = $2 AND open = 1 AND doubt = 0 RETURNING asset",
		[]any{string(closing.Push), string(lease.Partition), closing.Reason}, &asset)
	if err == nil && ok {
		t.audit(lease.Partition, closing.At, serverActor(lease), "doubt", asset,
			audit.Ended{Push: closing.Push, Why: closing.Reason}.String())
	}
	return err
}

// openColumns are without the plan's record: enforcement does not rest on it.
const (
	pushColumns = columnsOfPush + "plan_record"
	openColumns = columnsOfPush + "NULL"

	columnsOfPush = `id, asset, target, effective, plan, resource_key, epoch, admitted, doubt, ending, reason, ended, grounds, budgets, rates, admitted_by, `
)

func scanPush(row scanner, partition intent.PartitionID) (p store.PushRecord, err error) {
	var admitted, endedAt int64
	var grounds, budgets, rates string
	var planRecord []byte
	p.Target.Partition = partition
	err = row.Scan(&p.Push, &p.Asset, &p.Target.Sequence, digestColumn{&p.Effective}, digestColumn{&p.Plan}, &p.ResourceKey,
		&p.Epoch, &admitted, &p.Doubt, &p.Ending, &p.Reason, &endedAt, &grounds, &budgets, &rates, &p.AdmittedBy, &planRecord)
	if err == nil && grounds != "" {
		err = decode("push", grounds, &p.Grounds)
	}
	if err == nil {
		p.PlanRecord, err = decodePlan(p.Push, planRecord)
	}
	p.Budgets, p.Rates = splitKeys(budgets), splitKeys(rates)
	p.Admitted, p.Ended = unstamp(admitted), unstamp(endedAt)
	return p, err
}

func decodePlan(push intent.PushID, stored []byte) (*intent.PlanRecord, error) {
	record, err := planrecord.Decode(stored)
	if err != nil {
		return nil, fault.New(fault.Internal, "the stored plan of push %s cannot be read: %w", push, err).WithHint("the store is damaged: restore it from a backup")
	}
	return record, nil
}

// OpenPushes lists all without an end, the oldest first.
func (s *Store) OpenPushes(ctx context.Context, partition intent.PartitionID) (pushes []store.OpenPush, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the open pushes of %q", partition), func(q querier) error {
		return q.queryEach("SELECT "+openColumns+" FROM push WHERE partition = $1 AND open = 1 ORDER BY number", []any{string(partition)}, func(row scanner) error {
			p, err := scanPush(row, partition)
			pushes = append(pushes, p.OpenPush)
			return err
		})
	})
	return pushes, err
}

// Pushes lists an asset's pushes, or the partition's, newest first.
func (s *Store) Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) (pushes []store.PushRecord, err error) {
	text := "SELECT " + pushColumns + " FROM push WHERE partition = $1 ORDER BY number DESC LIMIT $2 + 0"
	arguments := []any{string(partition), pageSize(limit)}
	if asset != "" {
		text = "SELECT " + pushColumns + " FROM push WHERE partition = $1 AND asset = $3 ORDER BY number DESC LIMIT $2 + 0"
		arguments = append(arguments, string(asset))
	}
	err = s.read(ctx, fmt.Sprintf("listing the pushes of %q in %q", asset, partition), func(q querier) error {
		return q.queryEach(text, arguments, func(row scanner) error {
			p, err := scanPush(row, partition)
			pushes = append(pushes, p)
			return err
		})
	})
	return pushes, err
}

// Push reads one push by its id.
func (s *Store) Push(ctx context.Context, partition intent.PartitionID, push intent.PushID) (record store.PushRecord, err error) {
	attempt := fmt.Sprintf("reading push %s of %q", push, partition)
	err = s.read(ctx, attempt, func(q querier) error {
		exists := false
		err := q.queryEach("SELECT "+pushColumns+" FROM push WHERE id = $2 AND partition = $1", []any{string(partition), string(push)}, func(row scanner) error {
			record, err = scanPush(row, partition)
			exists = true
			return err
		})
		if err == nil && !exists {
			return fault.New(fault.NotFound, "%s: there is none, or not any more", attempt).WithHint("lehr get pushes lists them")
		}
		return err
	})
	return record, err
}
