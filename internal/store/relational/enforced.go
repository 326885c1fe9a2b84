package relational

import (
	"context"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// SaveEnforced stores what was seen in sync, and claims the resource keys in
// the same transaction, or gives claims back where nothing is left.
func (s *Store) SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	attempt := fmt.Sprintf("storing %d enforced records of %q", len(enforced), lease.Partition)
	conflicts := map[intent.AssetID]store.Claim{}
	for first := 0; first < len(enforced); first += chunk {
		part := enforced[first:min(first+chunk, len(enforced))]
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			for _, e := range part {
				if now.suspect && e.Incarnation.Sequence > now.head {
					// Whoever saw it served does not know yet that it is lost.
					return fault.New(fault.Conflict, "%s: the store lost %s", attempt, e.Incarnation)
				}
				conflict, err := saveEnforced(t, lease, now.head, e)
				if err != nil {
					return err
				}
				if conflict != nil {
					conflicts[e.Asset] = *conflict
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return conflicts, nil
}

func saveEnforced(t *transaction, lease store.Lease, head intent.Sequence, e store.Enforced) (*store.Claim, error) {
	partition := lease.Partition
	switch {
	case e.Absent:
		keys, err := giveUpClaims(t, partition, e.Asset)
		if err != nil {
			return nil, err
		}
		if len(keys) > 0 {
			t.audit(partition, e.At, serverActor(lease), "claim", string(e.Asset),
				"claim given back: nothing is there, as its Turndown asks: "+strings.Join(keys, ", "))
			if err := t.tell(partition); err != nil {
				return nil, err
			}
		}
	case e.ResourceKey != "":
		c := claimant{Claim: store.Claim{Key: e.ResourceKey, Partition: partition, Asset: e.Asset}, head: head, at: e.At}
		holding, err := holdingOf(t, c)
		if err != nil {
			return nil, err
		}
		if !holding.free() {
			return holding.holder, nil
		}
		if err := takeClaim(t, c, holding, serverActor(lease)); err != nil {
			return nil, err
		}
	}
	_, err := t.exec(`INSERT INTO enforced (partition, asset, type, effective, policy, seq, resource_key, seen, absent, adrift)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1 - (SELECT count(*) FROM member
			WHERE partition = $1 AND asset = $2 AND from_seq <= $10 AND to_seq = 9223372036854775807))
		ON CONFLICT (partition, asset) DO UPDATE SET type = excluded.type, effective = excluded.effective, policy = excluded.policy,
		seq = excluded.seq, resource_key = excluded.resource_key, seen = excluded.seen, absent = excluded.absent, adrift = excluded.adrift, carried = 0`,
		string(partition), string(e.Asset), string(e.Type), e.Effective[:], e.Policy[:], int64(e.Incarnation.Sequence),
		string(e.ResourceKey), stamp(e.At), flag(e.Absent), int64(head))
	return nil, err
}

// flag is a truth as it is stored.
func flag(value bool) int64 {
	if value {
		return 1
	}
	return 0
}

const enforcedColumns = "e.asset, e.type, e.effective, e.policy, e.seq, e.resource_key, e.seen, e.absent"

func scanEnforced(row scanner, partition intent.PartitionID) (e store.Enforced, err error) {
	e.Incarnation.Partition = partition
	var seenAt int64
	err = row.Scan(&e.Asset, &e.Type, digestColumn{&e.Effective}, digestColumn{&e.Policy}, &e.Incarnation.Sequence, &e.ResourceKey, &seenAt, &e.Absent)
	e.At = unstamp(seenAt)
	return e, err
}

// EnforcedPage lists enforced records in the order of the ids, those of what
// is Absent too. What a claim carried along is none until it is seen.
func (s *Store) EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) (page []store.Enforced, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the enforced records of %q", partition), func(q querier) error {
		return q.queryEach("SELECT "+enforcedColumns+" FROM enforced e WHERE e.partition = $1 AND e.asset > $2 AND e.carried = 0 ORDER BY e.asset LIMIT $3 + 0",
			[]any{string(partition), string(cursor), pageSize(limit)}, func(row scanner) error {
				e, err := scanEnforced(row, partition)
				page = append(page, e)
				return err
			})
	})
	return page, err
}

// EnforcedCount counts a partition's enforced records but those of what is
// Absent.
func (s *Store) EnforcedCount(ctx context.Context, partition intent.PartitionID) (count int, err error) {
	err = s.read(ctx, fmt.Sprintf("counting the enforced records of %q", partition), func(q querier) error {
		_, err := q.one("SELECT count(*) FROM enforced WHERE partition = $1 AND absent = 0 AND carried = 0", []any{string(partition)}, &count)
		return err
	})
	return count, err
}
