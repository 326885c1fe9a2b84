package relational

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// maxAuditRow bounds the records in one row.
const maxAuditRow = 1000

// audit adds a record that is committed with the transaction (S25).
func (t *transaction) audit(partition intent.PartitionID, at time.Time, actor intent.Actor, verb, subject, detail string) *entry {
	e := &entry{intent.AuditRecord{
		Partition: partition, At: at.UTC(), By: actor, Verb: verb, Subject: subject, Detail: detail, Version: audit.Version,
	}}
	if t.caller != nil {
		e.From, e.Token = t.caller.From, t.caller.Token
	}
	t.records = append(t.records, e)
	return e
}

// entry is a record on its way to the audit.
type entry struct{ intent.AuditRecord }

// because adds what whoever did it said.
func (e *entry) because(reason string) { e.Reason = reason }

// auditTrail gathers the records of one commit by partition.
type auditTrail struct {
	partitions []intent.PartitionID
	records    map[intent.PartitionID][]intent.AuditRecord
}

func (a *auditTrail) append(entries []*entry) {
	for _, e := range entries {
		if a.records == nil {
			a.records = map[intent.PartitionID][]intent.AuditRecord{}
		}
		if _, ok := a.records[e.Partition]; !ok {
			a.partitions = append(a.partitions, e.Partition)
		}
		a.records[e.Partition] = append(a.records[e.Partition], e.AuditRecord)
	}
}

// unaudited: the audit could not be written, so nothing was.
type unaudited struct{ error }

func (u unaudited) Unwrap() error { return u.error }

// failure tells what was attempted and what a person can do.
func (u unaudited) failure(engine Engine, attempt string) error {
	attempt += ": its audit record cannot be written, so nothing was changed"
	faultErr, ok := errors.AsType[*fault.Error](engine.Failure(attempt, u.error))
	if !ok || faultErr.Kind == fault.Internal && faultErr.Hint == "" {
		return fault.New(fault.Unavailable, "%s: %w", attempt, u.error).
			WithHint("look at the tables audit and audit_head of the store; it is tried again without a restart")
	}
	return faultErr
}

// write links the records to their chains, in the transaction that they
// record.
func (a *auditTrail) write(t *transaction) error {
	for _, partition := range a.partitions {
		if err := a.extend(t, partition); err != nil {
			return unaudited{err}
		}
	}
	return nil
}

func (a *auditTrail) extend(t *transaction, partition intent.PartitionID) error {
	chain := audit.Chain{Partition: partition}
	if _, err := t.one("SELECT last, digest FROM audit_head WHERE partition = $1",
		[]any{string(partition)}, &chain.Number, digestColumn{&chain.Link}); err != nil {
		return err
	}
	for records := range slices.Chunk(a.records[partition], maxAuditRow) {
		for i := range records {
			r := &records[i]
			wellFormed(r)
			chain.Number++
			r.Number = chain.Number
			chain.Link = audit.Link(chain.Link, *r)
			r.Link = audit.Short(chain.Link)
			r.Partition = "" // The row says it.
		}
		text, err := encode(records)
		if err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO audit (partition, last, records, digest) VALUES ($1, $2, $3, $4)",
			string(partition), chain.Number, text, chain.Link[:]); err != nil {
			return err
		}
	}
	_, err := t.exec(`INSERT INTO audit_head (partition, last, digest) VALUES ($1, $2, $3)
		ON CONFLICT (partition) DO UPDATE SET last = excluded.last, digest = excluded.digest`,
		string(partition), chain.Number, chain.Link[:])
	return err
}

// wellFormed makes the record's words what JSON can give back as they were.
func wellFormed(r *intent.AuditRecord) {
	for _, words := range []*string{&r.By.Name, &r.By.Origin, &r.From, &r.Token, &r.Verb, &r.Subject, &r.Reason, &r.Detail} {
		*words = strings.ToValidUTF8(*words, "\uFFFD")
	}
}

// AuditRecords lists records after a number, in their order.
func (s *Store) AuditRecords(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]intent.AuditRecord, error) {
	limit = pageSize(limit)
	var records []intent.AuditRecord
	err := s.read(ctx, fmt.Sprintf("reading the audit of %q", partition), func(q querier) error {
		// Every row holds at least one record, so limit rows are enough.
		return q.queryEach("SELECT records FROM audit WHERE partition = $1 AND last > $2 ORDER BY last LIMIT $3 + 0",
			[]any{string(partition), cursor, limit}, func(rows scanner) error {
				if len(records) >= limit {
					return nil
				}
				var text string
				if err := rows.Scan(&text); err != nil {
					return err
				}
				var row []intent.AuditRecord
				if err := decode("audit", text, &row); err != nil {
					return err
				}
				for _, r := range row {
					if r.Number > cursor && len(records) < limit {
						r.Partition = partition
						records = append(records, r)
					}
				}
				return nil
			})
	})
	return records, err
}

// AuditEnds lists the chains' ends, in the order of the partitions. A partition
// without a chain has lost it: registering it was recorded.
func (s *Store) AuditEnds(ctx context.Context) (ends []intent.AuditEnd, err error) {
	err = s.read(ctx, "reading where the audit ends", func(q querier) error {
		return q.queryEach(`SELECT n.partition, coalesce(h.last, 0), h.digest
			FROM (SELECT id AS partition FROM partitions UNION SELECT partition FROM audit_head) n
			LEFT JOIN audit_head h ON h.partition = n.partition`, nil, func(row scanner) error {
			var end intent.AuditEnd
			err := row.Scan(&end.Partition, &end.Number, digestColumn{&end.Link})
			ends = append(ends, end)
			return err
		})
	})
	if !slices.ContainsFunc(ends, func(e intent.AuditEnd) bool { return e.Partition == "" }) {
		ends = append(ends, intent.AuditEnd{})
	}
	slices.SortFunc(ends, func(a, b intent.AuditEnd) int { return cmp.Compare(a.Partition, b.Partition) })
	return ends, err
}

// Identity names the store, for ever.
func (s *Store) Identity(ctx context.Context) (identity string, err error) {
	err = s.read(ctx, "reading which store this is", func(q querier) error {
		_, err := q.one("SELECT id FROM identity", nil, &identity)
		return err
	})
	return identity, err
}

// VerifyAudit recomputes the chain from its beginning.
func (s *Store) VerifyAudit(ctx context.Context, partition intent.PartitionID) error {
	return s.WalkAudit(ctx, partition, func(intent.AuditRecord) error { return nil })
}

// WalkAudit recomputes the chain from its beginning, all of it from one moment.
func (s *Store) WalkAudit(ctx context.Context, partition intent.PartitionID, visit func(intent.AuditRecord) error) error {
	return s.read(ctx, fmt.Sprintf("verifying the audit of %s", audit.Scope(partition)), func(q querier) error {
		_, err := walkChain(q, partition, visit)
		return err
	})
}

// walkChain returns the number of the chain's records.
func walkChain(q querier, partition intent.PartitionID, visit func(intent.AuditRecord) error) (uint64, error) {
	var end audit.Chain
	if _, err := q.one("SELECT last, digest FROM audit_head WHERE partition = $1",
		[]any{string(partition)}, &end.Number, digestColumn{&end.Link}); err != nil {
		return 0, err
	}
	walk := auditWalk{Chain: audit.Chain{Partition: partition}, visit: visit}
	err := q.queryEach("SELECT last, records, digest FROM audit WHERE partition = $1 ORDER BY last",
		[]any{string(partition)}, walk.row)
	if err != nil {
		return 0, err
	}
	if walk.Number != end.Number || walk.Link != end.Link {
		return 0, walk.Bad(walk.Number+1, fmt.Sprintf("the chain ends at %d, but %d records were written", walk.Number, end.Number))
	}
	return walk.Number, nil
}

// auditWalk goes along the rows of a chain.
type auditWalk struct {
	audit.Chain
	visit func(intent.AuditRecord) error
}

func (w *auditWalk) row(row scanner) error {
	var last uint64
	var text string
	var link []byte
	if err := row.Scan(&last, &text, &link); err != nil {
		return w.Bad(w.Number+1, "its row cannot be read: "+err.Error())
	}
	var records []intent.AuditRecord
	if err := json.Unmarshal([]byte(text), &records); err != nil || len(records) == 0 {
		return w.Bad(w.Number+1, "it cannot be read")
	}
	// Nothing may stand there that reading overlooks.
	if again, err := encode(records); err != nil || again != text {
		return w.Bad(w.Number+1, "its row is not written as Lehr writes")
	}
	for _, r := range records {
		if r.Partition != "" {
			return w.Bad(w.Number+1, "it names a partition within its row")
		}
		r.Partition = w.Partition
		if err := w.Next(r); err != nil {
			return err
		}
		if err := w.visit(r); err != nil {
			return err
		}
	}
	if w.Number != last || !slices.Equal(w.Link[:], link) {
		return w.Bad(w.Number, "its row does not match its records")
	}
	return nil
}

// AuditTrouble says why records could not be written when this was last tried.
func (s *Store) AuditTrouble() string {
	if trouble := s.writer.trouble.Load(); trouble != nil {
		return *trouble
	}
	return ""
}

// noteAudit remembers how the last attempt to write records ended.
func (w *writer) noteAudit(records *auditTrail, broken error) {
	failed, bad := errors.AsType[unaudited](broken)
	switch {
	case bad && !w.engine.Again(broken):
		trouble := failed.failure(w.engine, "changing anything").Error()
		if w.trouble.Swap(&trouble) == nil {
			w.log.Error("the audit cannot be written, so nothing is changed", "error", failed.error)
		}
	case broken == nil && len(records.partitions) > 0:
		if w.trouble.Swap(nil) != nil {
			w.log.Info("the audit is written again")
		}
	}
}
