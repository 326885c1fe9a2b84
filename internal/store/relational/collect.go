package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// savingPeriod is how long a candidate may be in the middle of being saved.
const savingPeriod = time.Hour

// collection is one run of the collector. Every step that removes is a transaction
// of bounded size that decides and removes at once, under the lease, so that no
// writer's check and no row that it rests on can come between (S17).
type collection struct {
	store   *Store
	lease   store.Lease
	keep    store.Retention
	now     time.Time
	removed int
}

// Collect removes what nothing needs.
func (s *Store) Collect(ctx context.Context, lease store.Lease, keep store.Retention, now time.Time) (int, error) {
	c := &collection{store: s, lease: lease, keep: keep, now: now}
	if err := c.run(ctx, collecting{"", c.returned}); err != nil {
		return 0, err
	}
	c.removed = 0 // that removed nothing
	err := c.run(ctx,
		collecting{"records of what was turned down", c.turnedDown}, collecting{"incarnations", c.incarnations},
		collecting{"ended pushes", c.pushes}, collecting{"", c.rates},
		collecting{"approvals that were used or have ended", c.approvals}, collecting{"reports of what is no more", c.reports},
		collecting{"candidates", c.candidates}, collecting{"runs of rollouts", c.rollouts}, collecting{"", c.judgements},
		collecting{"records of validations", c.records}, collecting{"memos of what is no more", c.memos},
		collecting{"", c.deliveries}, collecting{"runs of workflows", c.workflows},
	)
	if err != nil {
		return c.removed, err
	}
	if err := c.claims(ctx); err != nil {
		return c.removed, err
	}
	if err := c.history(ctx); err != nil {
		return c.removed, err
	}
	gaps, err := s.gaps(ctx, lease.Partition)
	if err != nil {
		return c.removed, err
	}
	var rest []collecting
	for _, gap := range gaps {
		rest = append(rest, collecting{"", gap.members}, collecting{"", gap.edges}, collecting{"", gap.fields}, collecting{"", gap.buckets})
	}
	err = c.run(ctx, append(rest, collecting{"", c.names}, collecting{"", c.spilled})...)
	return c.removed, err
}

// collecting is a step. What it removes is recorded; of no name are the remains of
// what is gone.
type collecting struct {
	subject string
	take    func(*transaction, standing) (int64, error)
}

// searching is how long steps that find nothing may hold up other writers.
const searching = 5 * time.Millisecond

// run takes the steps in turn, each until it finds nothing more. Those that find
// nothing share a transaction: mostly, all do.
func (c *collection) run(ctx context.Context, steps ...collecting) error {
	for len(steps) > 0 {
		at, removed := 0, int64(0)
		err := c.store.act(ctx, "collecting in "+string(c.lease.Partition), c.lease, func(t *transaction, now standing) (err error) {
			at, removed = 0, 0
			for at == 0 || at < len(steps) && c.store.runtime.Now().Sub(t.now) < searching {
				if removed, err = steps[at].take(t, now); err != nil || removed > 0 {
					break
				}
				at++
			}
			if removed > 0 && steps[at].subject != "" {
				c.record(t, removed, steps[at].subject)
			}
			return err
		})
		if err != nil {
			return err
		}
		c.removed += int(removed)
		steps = steps[at:]
	}
	return nil
}

func (c *collection) record(t *transaction, removed int64, subject string) {
	t.audit(c.lease.Partition, t.now, serverActor(c.lease), "collect", string(c.lease.Partition), fmt.Sprintf("%d %s", removed, subject))
}

// incarnations goes first: once an incarnation's row is gone nothing can name
// it any more, and its members can go at leisure.
func (c *collection) incarnations(t *transaction, now standing) (int64, error) {
	removed, err := t.exec(`DELETE FROM incarnation WHERE partition = $1 AND seq IN (
		SELECT i.seq FROM incarnation i WHERE i.partition = $1 AND i.seq < $2 AND i.seq <= $3
		AND EXISTS (SELECT 1 FROM incarnation WHERE partition = $1 AND seq > i.seq AND created < $4)
		AND NOT EXISTS (SELECT 1 FROM pin WHERE partition = $1 AND seq = i.seq)
		AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND seq = i.seq)
		AND NOT EXISTS (SELECT 1 FROM push WHERE partition = $1 AND open = 1 AND target = i.seq)
		AND NOT EXISTS (SELECT 1 FROM candidate WHERE partition = $1 AND base = i.seq
			AND (state IN ('held', 'saving') OR saved >= $6))
		AND NOT EXISTS (SELECT 1 FROM label WHERE partition = $1 AND seq = i.seq AND person = 1)
		AND NOT EXISTS (SELECT 1 FROM rollout WHERE partition = $1 AND open = 1 AND i.seq IN (target, base, back))
		LIMIT $5 + 0)`,
		string(c.lease.Partition), int64(now.head), int64(now.head)-int64(c.keep.Incarnations), stamp(c.now.Add(-c.keep.Period)), chunk, c.forgotten())
	if err != nil || removed == 0 {
		return removed, err
	}
	_, err = t.exec(`DELETE FROM label WHERE partition = $1
		AND NOT EXISTS (SELECT 1 FROM incarnation i WHERE i.partition = $1 AND i.seq = label.seq)`, string(c.lease.Partition))
	return removed, err
}

func (c *collection) forgotten() int64 { return stamp(c.now.Add(-c.keep.History)) }

func (c *collection) pushes(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM push WHERE number IN (
		SELECT number FROM push WHERE partition = $1 AND open = 0 AND ended < $2 LIMIT $3 + 0)`, string(c.lease.Partition), c.forgotten(), chunk)
}

// rates goes over pushes that no rate limit can count any more.
func (c *collection) rates(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM rate WHERE partition = $1 AND (name, counted, push) IN (
		SELECT name, counted, push FROM rate WHERE partition = $1 AND counted < $2 LIMIT $3 + 0)`,
		string(c.lease.Partition), stamp(c.now.Add(-store.LongestRate)), chunk)
}

// rollouts goes over runs that have ended, but the newest of each name, and over
// what was asked of them.
func (c *collection) rollouts(t *transaction, _ standing) (int64, error) {
	removed, err := t.exec(`DELETE FROM rollout WHERE partition = $1 AND open = 0 AND ended < $2
		AND run < (SELECT max(newer.run) FROM rollout newer WHERE newer.partition = $1 AND newer.name = rollout.name)`,
		string(c.lease.Partition), c.forgotten())
	if err != nil {
		return removed, err
	}
	orders, err := t.exec("DELETE FROM rollout_order WHERE partition = $1 AND created < $2", string(c.lease.Partition), c.forgotten())
	return removed + orders, err
}

// judgements goes over those of good contents that no incarnation has any more.
func (c *collection) judgements(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM judgement WHERE partition = $1 AND (asset, effective) IN (
		SELECT asset, effective FROM judgement j WHERE partition = $1 AND good = 1 AND judged < $2
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.partition = $1 AND m.asset = j.asset AND m.effective = j.effective) LIMIT $3 + 0)`,
		string(c.lease.Partition), c.forgotten(), chunk)
}

// records goes over those of validations: what is too old, and the oldest of what is
// too much.
func (c *collection) records(t *transaction, _ standing) (int64, error) {
	oldest := store.JudgementName(c.now.Add(-c.keep.History), "")
	removed, err := t.exec("DELETE FROM blob WHERE partition = $1 AND kind = $2 AND name < $3", string(c.lease.Partition), store.JudgementBlobs, oldest)
	if err != nil {
		return removed, err
	}
	excess, err := t.exec(`DELETE FROM blob WHERE partition = $1 AND kind = $2 AND name IN (SELECT name FROM (
		SELECT name, SUM(length(bytes)) OVER (ORDER BY name DESC) AS kept FROM blob WHERE partition = $1 AND kind = $2) sums WHERE kept > CAST($3 AS BIGINT))`,
		string(c.lease.Partition), store.JudgementBlobs, c.store.mostJudged)
	return removed + excess, err
}

// approvals goes over what people said of pushes.
func (c *collection) approvals(t *transaction, _ standing) (removed int64, err error) {
	for _, old := range []string{
		"DELETE FROM approval WHERE partition = $1 AND created < $2 AND (used_by <> '' OR (ends > 0 AND ends < $2))",
		"DELETE FROM rejection WHERE partition = $1 AND ends > 0 AND ends < $2",
		"DELETE FROM override WHERE partition = $1 AND ends < $2",
	} {
		count, err := t.exec(old, string(c.lease.Partition), c.forgotten())
		if removed += count; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// reports goes over assets that are neither in head nor enforced.
func (c *collection) reports(t *transaction, now standing) (removed int64, err error) {
	counts := map[intent.State]int{}
	err = t.queryEach(`DELETE FROM report WHERE partition = $1 AND asset IN (
		SELECT r.asset FROM report r WHERE r.partition = $1
		AND NOT EXISTS (SELECT 1 FROM member WHERE partition = $1 AND asset = r.asset AND from_seq <= $2 AND to_seq > $2)
		AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND asset = r.asset)
		AND NOT EXISTS (SELECT 1 FROM push WHERE partition = $1 AND asset = r.asset AND open = 1)
		LIMIT $3 + 0) RETURNING state`, []any{string(c.lease.Partition), int64(now.head), chunk}, func(row scanner) error {
		var state intent.State
		err := row.Scan(&state)
		counts[state]--
		removed++
		return err
	})
	if err != nil {
		return removed, err
	}
	return removed, moveCounts(t, c.lease.Partition, counts)
}

// candidates takes up to a chunk of entries of one candidate that is due, and
// the candidate itself with its last ones.
func (c *collection) candidates(t *transaction, _ standing) (int64, error) {
	partition := string(c.lease.Partition)
	var digest string
	ok, err := t.one(`SELECT digest FROM candidate WHERE partition = $1
		AND ((state NOT IN ('held', 'saving') AND saved < $2) OR (state = 'saving' AND saved < $3)) LIMIT 1`,
		[]any{partition, c.forgotten(), stamp(c.now.Add(-max(c.keep.History, savingPeriod)))}, &digest)
	if err != nil || !ok {
		return 0, err
	}
	// From here on it cannot be seen; a run that ends early leaves it due.
	if _, err := t.exec("UPDATE candidate SET state = 'saving', saved = 0 WHERE partition = $1 AND digest = $2", partition, digest); err != nil {
		return 0, err
	}
	var bodies bodySet
	err = t.queryEach(`DELETE FROM candidate_entry WHERE partition = $1 AND candidate = $2 AND asset IN (
		SELECT asset FROM candidate_entry WHERE partition = $1 AND candidate = $2 LIMIT $3 + 0) RETURNING digest`,
		[]any{partition, digest, chunk}, bodies.scan)
	if err != nil {
		return 0, err
	}
	if err := bodies.drop(t); err != nil {
		return 0, err
	}
	removed := int64(len(bodies.all))
	if removed < chunk {
		deleted, err := t.exec("DELETE FROM candidate WHERE partition = $1 AND digest = $2", partition, digest)
		return removed + deleted, err
	}
	return removed, nil
}

// gap lies between two retained incarnations that follow each other: rows
// whose interval begins after the first and ends by the last belong to none.
type gap struct {
	partition    intent.PartitionID
	lower, upper intent.Sequence
}

func (s *Store) gaps(ctx context.Context, partition intent.PartitionID) (gaps []gap, err error) {
	var last intent.Sequence
	err = s.read(ctx, fmt.Sprintf("listing the incarnations of %q", partition), func(q querier) error {
		return q.queryEach("SELECT seq FROM incarnation WHERE partition = $1 ORDER BY seq", []any{string(partition)}, func(row scanner) error {
			var sequence intent.Sequence
			err := row.Scan(&sequence)
			if sequence > last+1 {
				gaps = append(gaps, gap{partition: partition, lower: last, upper: sequence})
			}
			last = sequence
			return err
		})
	})
	return gaps, err
}

func (g gap) arguments() []any {
	return []any{string(g.partition), int64(g.lower), int64(g.upper), chunk}
}

func (g gap) members(t *transaction, _ standing) (int64, error) {
	var bodies bodySet
	err := t.queryEach(`DELETE FROM member WHERE partition = $1 AND (asset, from_seq) IN (
		SELECT asset, from_seq FROM member WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3
		AND to_seq < 9223372036854775807 AND from_seq > $2 LIMIT $4 + 0) RETURNING digest`, g.arguments(), bodies.scan)
	if err != nil {
		return 0, err
	}
	if err := bodies.drop(t); err != nil {
		return 0, err
	}
	// Who made an incarnation goes with the last content that it changed: until
	// then its author is not one of the content's approvers (S9).
	_, err = t.exec(`DELETE FROM authorship WHERE partition = $1 AND seq > $2 AND seq < $3
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.partition = $1 AND m.from_seq = authorship.seq)`,
		string(g.partition), int64(g.lower), int64(g.upper))
	if err != nil {
		return 0, err
	}
	// So does where that content comes from.
	_, err = t.exec(`DELETE FROM blob WHERE partition = $1 AND kind = $2 AND name >= $3 AND name < $4
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.partition = $1 AND m.from_seq = CAST(substr(blob.name, 1, 19) AS BIGINT))`,
		string(g.partition), store.OriginBlobs, store.OriginName(g.lower+1), store.OriginName(g.upper))
	return int64(len(bodies.all)), err
}

func (g gap) edges(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM edge WHERE partition = $1 AND (from_asset, field, to_asset, from_seq) IN (
		SELECT from_asset, field, to_asset, from_seq FROM edge WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3
		AND to_seq < 9223372036854775807 AND from_seq > $2 LIMIT $4 + 0)`, g.arguments()...)
}

func (g gap) fields(t *transaction, _ standing) (int64, error) {
	return t.exec(collectFields, g.arguments()...)
}

func (g gap) buckets(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM bucket WHERE partition = $1 AND (bucket, from_seq) IN (
		SELECT bucket, from_seq FROM bucket WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3
		AND to_seq < 9223372036854775807 AND from_seq > $2 LIMIT $4 + 0)`, g.arguments()...)
}
