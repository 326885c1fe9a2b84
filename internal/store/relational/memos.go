package relational

import (
	"bytes"
	"context"
	"fmt"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func memoDigest(bytes []byte) intent.Digest { return intent.Sum("lehr.memo.v1", bytes) }

// SaveMemo sets or forgets a memo of the asset of an open push.
func (s *Store) SaveMemo(ctx context.Context, lease store.Lease, push intent.PushID, memo intent.Memo) error {
	attempt := fmt.Sprintf("saving a memo of push %s", push)
	if err := memo.Check(); err != nil {
		return fault.New(fault.Invalid, "%s: %w", attempt, err)
	}
	return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		asset, err := mustHoldPush(t, attempt, lease, push)
		if err != nil {
			return err
		}
		changed, err := setMemo(t, lease, asset, push, memo)
		if err != nil || !changed {
			return err
		}
		t.audit(lease.Partition, t.now, serverActor(lease), "memo", string(asset),
			audit.Remembered{Push: push, Key: string(memo.Key), Bytes: len(memo.Bytes), Digest: memoDigest(memo.Bytes).Short()}.String())
		return nil
	})
}

// mustHoldPush is the asset of a push that may write under the lease.
func mustHoldPush(t *transaction, attempt string, lease store.Lease, push intent.PushID) (asset intent.AssetID, err error) {
	var epoch uint64
	var doubt bool
	ok, err := t.one("SELECT asset, epoch, doubt FROM push WHERE id = $1 AND partition = $2 AND open = 1",
		[]any{string(push), string(lease.Partition)}, &asset, &epoch, &doubt)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", fault.New(fault.Conflict, "%s: it is not open", attempt)
	case epoch != lease.Epoch:
		return "", fault.New(fault.Conflict, "%s: it was admitted under epoch %d, now it is %d", attempt, epoch, lease.Epoch)
	case doubt:
		return "", fault.New(fault.Conflict, "%s: its end was lost", attempt)
	}
	return asset, nil
}

// setMemo reports whether anything changed. The numbers of an asset's memos are in the
// order in which they were set.
func setMemo(t *transaction, lease store.Lease, asset intent.AssetID, push intent.PushID, memo intent.Memo) (bool, error) {
	key := []any{string(lease.Partition), string(asset), string(memo.Key)}
	if len(memo.Bytes) == 0 {
		removed, err := t.exec("DELETE FROM memo WHERE partition = $1 AND asset = $2 AND resource_key = $3", key...)
		return removed > 0, err
	}
	digest := memoDigest(memo.Bytes)
	_, err := t.exec(`INSERT INTO memo (partition, asset, resource_key, bytes, digest, number, set_at, push, epoch)
		VALUES ($1, $2, $3, $4, $5, (SELECT coalesce(max(number), 0) + 1 FROM memo WHERE partition = $1 AND asset = $2), $6, $7, $8)
		ON CONFLICT (partition, asset, resource_key) DO UPDATE SET bytes = excluded.bytes, digest = excluded.digest,
		number = excluded.number, set_at = excluded.set_at, push = excluded.push, epoch = excluded.epoch`,
		append(key, memo.Bytes, digest[:], stamp(t.now), string(push), int64(lease.Epoch))...)
	if err != nil {
		return false, err
	}
	_, err = t.exec(`DELETE FROM memo WHERE partition = $1 AND asset = $2 AND number <= (
		SELECT number FROM memo WHERE partition = $1 AND asset = $2 ORDER BY number DESC LIMIT 1 OFFSET $3 + 0)`,
		string(lease.Partition), string(asset), intent.MaxMemosPerAsset)
	return true, err
}

// Memos reads those of the assets, and verifies them.
func (s *Store) Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error) {
	attempt := fmt.Sprintf("reading the memos of %d assets of %q", len(assets), partition)
	memos := map[intent.AssetID][]intent.Memo{}
	err := s.read(ctx, attempt, func(q querier) error {
		for _, asset := range assets {
			list, err := memosOf(q, partition, asset)
			if err != nil {
				return err
			}
			if len(list) > 0 {
				memos[asset] = list
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return memos, nil
}

func memosOf(q querier, partition intent.PartitionID, asset intent.AssetID) (list []intent.Memo, err error) {
	err = q.queryEach("SELECT resource_key, bytes, digest FROM memo WHERE partition = $1 AND asset = $2 ORDER BY resource_key",
		[]any{string(partition), string(asset)}, func(row scanner) error {
			var memo intent.Memo
			var digest intent.Digest
			if err := row.Scan(&memo.Key, &memo.Bytes, digestColumn{&digest}); err != nil {
				return err
			}
			if memoDigest(memo.Bytes) != digest {
				return fault.New(fault.Internal, "the memo of %s and %s is not that of digest %s", asset, memo.Key, digest.Short()).WithHint(restoreHint)
			}
			memo.Bytes = bytes.Clone(memo.Bytes)
			list = append(list, memo)
			return nil
		})
	return list, err
}

// MemoAssets lists the assets that have memos.
func (s *Store) MemoAssets(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) (assets []intent.AssetID, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the assets of %q that have memos", partition), func(q querier) error {
		return q.queryEach("SELECT DISTINCT asset FROM memo WHERE partition = $1 AND asset > $2 ORDER BY asset LIMIT $3 + 0",
			[]any{string(partition), string(cursor), pageSize(limit)}, func(row scanner) error {
				var asset intent.AssetID
				err := row.Scan(&asset)
				assets = append(assets, asset)
				return err
			})
	})
	return assets, err
}

// forgetMemos goes with an asset's enforced record.
func forgetMemos(t *transaction, partition intent.PartitionID, asset intent.AssetID) error {
	_, err := t.exec("DELETE FROM memo WHERE partition = $1 AND asset = $2", string(partition), string(asset))
	return err
}

// memos goes over those of assets that left head long ago and have no enforced record.
func (c *collection) memos(t *transaction, now standing) (int64, error) {
	return t.exec(`DELETE FROM memo WHERE partition = $1 AND asset IN (
		SELECT o.asset FROM memo o WHERE o.partition = $1 AND o.set_at < $5`+unwatched("o.asset")+`
		AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND asset = o.asset) LIMIT $3 + 0)`,
		string(c.lease.Partition), int64(now.head), chunk, stamp(c.now), c.forgotten())
}
