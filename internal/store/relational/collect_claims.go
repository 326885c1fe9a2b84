package relational

import (
	"context"

	"lehr.dev/internal/ground/intent"
)

// returned takes the mark from records whose asset is in head, so that
// counting orphans stays cheap.
func (c *collection) returned(t *transaction, now standing) (int64, error) {
	return t.exec(`UPDATE enforced SET adrift = 0 WHERE partition = $1 AND asset IN (
		SELECT e.asset FROM enforced e WHERE e.partition = $1 AND e.adrift = 1 AND EXISTS (
			SELECT 1 FROM member WHERE partition = $1 AND asset = e.asset AND from_seq <= $2 AND to_seq = 9223372036854775807)
		LIMIT $3 + 0)`, string(c.lease.Partition), int64(now.head), chunk)
}

// unwatched: the asset is not in head, and nothing acts on it any more. $2 is
// head, and $4 now.
func unwatched(asset string) string {
	return ` AND NOT EXISTS (SELECT 1 FROM member WHERE partition = $1 AND asset = ` + asset + ` AND from_seq <= $2 AND to_seq > $2)
		AND NOT EXISTS (SELECT 1 FROM push WHERE partition = $1 AND asset = ` + asset + ` AND open = 1)
		AND NOT EXISTS (SELECT 1 FROM pin WHERE partition = $1 AND asset = ` + asset + ` AND (ends = 0 OR ends > $4))`
}

// turnedDown goes over records of assets of which nothing was left before they
// left head.
func (c *collection) turnedDown(t *transaction, now standing) (removed int64, err error) {
	var assets []intent.AssetID
	err = t.queryEach(`DELETE FROM enforced WHERE partition = $1 AND asset IN (
		SELECT e.asset FROM enforced e WHERE e.partition = $1 AND e.adrift = 1 AND e.absent = 1`+unwatched("e.asset")+` LIMIT $3 + 0) RETURNING asset`,
		[]any{string(c.lease.Partition), int64(now.head), chunk, stamp(c.now)}, func(row scanner) error {
			var asset intent.AssetID
			err := row.Scan(&asset)
			assets = append(assets, asset)
			return err
		})
	for _, asset := range assets {
		if err == nil {
			err = forgetMemos(t, c.lease.Partition, asset)
		}
	}
	return int64(len(assets)), err
}

// claims goes over those of assets that left head and were never enforced, so
// that nothing shows them as orphans: a push failed, or its end was lost. They
// are searched without holding up a writer, and looked at again by it.
func (c *collection) claims(ctx context.Context) error {
	for {
		var assets []intent.AssetID
		err := c.store.read(ctx, "listing claims without an asset", func(q querier) error {
			head, err := headOf(q, c.lease.Partition)
			if err != nil {
				return err
			}
			return q.queryEach(idleClaims+" LIMIT $3 + 0", []any{string(c.lease.Partition), int64(head), chunk, stamp(c.now)}, func(row scanner) error {
				var asset intent.AssetID
				err := row.Scan(&asset)
				assets = append(assets, asset)
				return err
			})
		})
		if err != nil || len(assets) == 0 {
			return err
		}
		var removed int64
		err = c.store.act(ctx, "collecting claims in "+string(c.lease.Partition), c.lease, func(t *transaction, now standing) error {
			removed = 0
			for _, asset := range assets {
				deleted, err := t.exec("DELETE FROM claim WHERE partition = $1 AND asset IN ("+idleClaims+" AND c.asset = $3)",
					string(c.lease.Partition), int64(now.head), string(asset), stamp(c.now))
				if err != nil {
					return err
				}
				removed += deleted
			}
			if removed > 0 {
				c.record(t, removed, "claims of what was never enforced")
			}
			return nil
		})
		c.removed += int(removed)
		if err != nil || removed == 0 {
			return err
		}
	}
}

var idleClaims = `SELECT c.asset FROM claim c WHERE c.partition = $1` + unwatched("c.asset") + `
	AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND asset = c.asset)`
