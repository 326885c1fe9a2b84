package relational

import (
	"context"
	"slices"
)

// mostForgotten past reports are looked for at once.
const mostForgotten = 1_000_000

// oldReports are those of before a time that tell nothing of later: a newer one from
// before it does, or nothing is reported of the asset any more.
const oldReports = `SELECT h.number FROM report_history h WHERE h.partition = $1 AND h.at < $2 AND (
	EXISTS (SELECT 1 FROM report_history n WHERE n.partition = $1 AND n.asset = h.asset AND n.number > h.number AND n.at < $2)
	OR NOT EXISTS (SELECT 1 FROM report r WHERE r.partition = $1 AND r.asset = h.asset)) LIMIT $3 + 0`

// manyReports are those of an asset that are more than it may keep.
const manyReports = `SELECT number FROM (
	SELECT number, row_number() OVER (PARTITION BY asset ORDER BY number DESC) AS place FROM report_history WHERE partition = $1) ranked
	WHERE place > $2 LIMIT $3 + 0`

// history goes over past reports. They are searched without holding up a writer: one
// that may go may go for ever.
func (c *collection) history(ctx context.Context) error {
	if err := c.forget(ctx, oldReports, c.forgotten()); err != nil || c.keep.Reports == 0 {
		return err
	}
	return c.forget(ctx, manyReports, int64(c.keep.Reports))
}

func (c *collection) forget(ctx context.Context, search string, bound int64) error {
	var numbers []int64
	err := c.store.read(ctx, "listing past reports to forget", func(q querier) error {
		return q.queryEach(search, []any{string(c.lease.Partition), bound, mostForgotten}, func(row scanner) error {
			var number int64
			err := row.Scan(&number)
			numbers = append(numbers, number)
			return err
		})
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(numbers, chunk) {
		err := c.store.act(ctx, "collecting in "+string(c.lease.Partition), c.lease, func(t *transaction, _ standing) error {
			for _, number := range some {
				if _, err := t.exec("DELETE FROM report_history WHERE partition = $1 AND number = $2", string(c.lease.Partition), number); err != nil {
					return err
				}
			}
			c.record(t, int64(len(some)), "past reports")
			return nil
		})
		if err != nil {
			return err
		}
		c.removed += len(some)
	}
	return nil
}
