package sqlite

import (
	"context"
	"fmt"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// claimant wants a resource key; head is its partition's.
type claimant struct {
	store.Claim
	head intent.Sequence
}

// otherHolder returns who holds the key that the claimant wants, or nil when
// it may be taken: it is free, it is the claimant's, its holder has left head
// of the same partition, as after a rename, or the holder's partition was
// removed.
func otherHolder(q querier, c claimant) (*store.Claim, error) {
	held := store.Claim{Key: c.Key}
	found, err := q.one("SELECT partition, asset FROM claim WHERE resource_key = $1", []any{string(c.Key)}, &held.Partition, &held.Asset)
	if err != nil || !found || held == c.Claim {
		return nil, err
	}
	var one int
	if held.Partition != c.Partition {
		there, err := q.one("SELECT 1 FROM partitions WHERE id = $1 AND registered = 1", []any{string(held.Partition)}, &one)
		if err != nil || !there {
			return nil, err
		}
		return &held, nil
	}
	stays, err := q.one("SELECT 1 FROM member WHERE partition = $1 AND asset = $2 AND from_seq <= $3 AND to_seq > $3",
		[]any{string(held.Partition), string(held.Asset), int64(c.head)}, &one)
	if err != nil || !stays {
		return nil, err
	}
	return &held, nil
}

// takeClaim gives the key to the claimant, whom otherHolder let through.
func takeClaim(t *transaction, c claimant) error {
	_, err := t.exec(`INSERT INTO claim (resource_key, partition, asset) VALUES ($1, $2, $3)
		ON CONFLICT (resource_key) DO UPDATE SET partition = excluded.partition, asset = excluded.asset
		WHERE claim.partition <> excluded.partition OR claim.asset <> excluded.asset`,
		string(c.Key), string(c.Partition), string(c.Asset))
	return err
}

// SaveEnforced stores what was seen in sync, and claims the resource keys in
// the same transaction.
func (s *Store) SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	attempt := fmt.Sprintf("storing %d enforced records of %q", len(enforced), lease.Partition)
	others := map[intent.AssetID]store.Claim{}
	for first := 0; first < len(enforced); first += chunk {
		part := enforced[first:min(first+chunk, len(enforced))]
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			for _, e := range part {
				other, err := saveEnforced(t, lease.Partition, now.head, e)
				if err != nil {
					return err
				}
				if other != nil {
					others[e.Asset] = *other
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return others, nil
}

func saveEnforced(t *transaction, partition intent.PartitionID, head intent.Sequence, e store.Enforced) (*store.Claim, error) {
	if e.ResourceKey != "" {
		c := claimant{Claim: store.Claim{Key: e.ResourceKey, Partition: partition, Asset: e.Asset}, head: head}
		other, err := otherHolder(t, c)
		if err != nil || other != nil {
			return other, err
		}
		if err := takeClaim(t, c); err != nil {
			return nil, err
		}
	}
	_, err := t.exec(`INSERT INTO enforced (partition, asset, type, effective, policy, seq, resource_key, seen)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (partition, asset) DO UPDATE SET type = excluded.type, effective = excluded.effective, policy = excluded.policy,
		seq = excluded.seq, resource_key = excluded.resource_key, seen = excluded.seen`,
		string(partition), string(e.Asset), string(e.Type), e.Effective[:], e.Policy[:], int64(e.Incarnation.Sequence),
		string(e.ResourceKey), stamp(e.At))
	return nil, err
}

// EnforcedPage lists enforced records in the order of the ids.
func (s *Store) EnforcedPage(ctx context.Context, partition intent.PartitionID, after intent.AssetID, limit int) (page []store.Enforced, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the enforced records of %q", partition), func(q querier) error {
		return q.each(`SELECT asset, type, effective, policy, seq, resource_key, seen FROM enforced
			WHERE partition = $1 AND asset > $2 ORDER BY asset LIMIT $3`,
			[]any{string(partition), string(after), pageSize(limit)}, func(row scanner) error {
				e := store.Enforced{Incarnation: intent.IncarnationID{Partition: partition}}
				var seen int64
				err := row.Scan(&e.Asset, &e.Type, digestColumn{&e.Effective}, digestColumn{&e.Policy}, &e.Incarnation.Sequence, &e.ResourceKey, &seen)
				e.At = unstamp(seen)
				page = append(page, e)
				return err
			})
	})
	return page, err
}

// EnforcedCount counts a partition's enforced records.
func (s *Store) EnforcedCount(ctx context.Context, partition intent.PartitionID) (count int, err error) {
	err = s.read(ctx, fmt.Sprintf("counting the enforced records of %q", partition), func(q querier) error {
		_, err := q.one("SELECT count(*) FROM enforced WHERE partition = $1", []any{string(partition)}, &count)
		return err
	})
	return count, err
}
