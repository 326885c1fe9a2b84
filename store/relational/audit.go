package relational

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// maxAuditRow bounds the records in one row.
const maxAuditRow = 1000

// auditEntry is a record as it is stored. Link covers the record and all
// before it; the first eight bytes are kept with each, so that verification
// names the first bad record, and the last link of a row in full.
type auditEntry struct {
	partition intent.PartitionID

	Number  uint64       `json:"n"`
	At      time.Time    `json:"at"`
	By      intent.Actor `json:"by"`
	Verb    string       `json:"verb"`
	Subject string       `json:"subject"`
	Detail  string       `json:"detail,omitempty"`
	Link    string       `json:"link"`
}

func (e auditEntry) record(partition intent.PartitionID) store.AuditRecord {
	return store.AuditRecord{
		Partition: partition, Number: e.Number, At: e.At, By: e.By,
		Verb: e.Verb, Subject: e.Subject, Detail: e.Detail,
	}
}

// follow is the link of a record whose predecessor's link is given.
func follow(previous intent.Digest, partition intent.PartitionID, e auditEntry) intent.Digest {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], e.Number)
	binary.BigEndian.PutUint64(numbers[8:], uint64(stamp(e.At)))
	return intent.Sum("lehr.audit.v1", previous[:], []byte(partition), numbers[:],
		[]byte(e.By.Name), []byte(e.By.Origin), []byte(e.Verb), []byte(e.Subject), []byte(e.Detail))
}

func shortLink(link intent.Digest) string { return hex.EncodeToString(link[:8]) }

// auditTrail gathers the records of one commit by partition.
type auditTrail struct {
	partitions []intent.PartitionID
	entries    map[intent.PartitionID][]auditEntry
}

func (a *auditTrail) append(entries []auditEntry) {
	for _, e := range entries {
		if a.entries == nil {
			a.entries = map[intent.PartitionID][]auditEntry{}
		}
		if _, found := a.entries[e.partition]; !found {
			a.partitions = append(a.partitions, e.partition)
		}
		a.entries[e.partition] = append(a.entries[e.partition], e)
	}
}

// write links the records to their chains, in the transaction that they
// record.
func (a *auditTrail) write(t *transaction) error {
	for _, partition := range a.partitions {
		var last uint64
		var link intent.Digest
		if _, err := t.one("SELECT last, digest FROM audit_head WHERE partition = $1",
			[]any{string(partition)}, &last, digestColumn{&link}); err != nil {
			return err
		}
		for entries := range slices.Chunk(a.entries[partition], maxAuditRow) {
			for i := range entries {
				last++
				entries[i].Number = last
				link = follow(link, partition, entries[i])
				entries[i].Link = shortLink(link)
			}
			text, err := encode(entries)
			if err != nil {
				return err
			}
			if _, err := t.exec("INSERT INTO audit (partition, last, records, digest) VALUES ($1, $2, $3, $4)",
				string(partition), last, text, link[:]); err != nil {
				return err
			}
		}
		if _, err := t.exec(`INSERT INTO audit_head (partition, last, digest) VALUES ($1, $2, $3)
			ON CONFLICT (partition) DO UPDATE SET last = excluded.last, digest = excluded.digest`,
			string(partition), last, link[:]); err != nil {
			return err
		}
	}
	return nil
}

// AuditRecords lists records after a number, in their order.
func (s *Store) AuditRecords(ctx context.Context, partition intent.PartitionID, after uint64, limit int) ([]store.AuditRecord, error) {
	limit = pageSize(limit)
	var records []store.AuditRecord
	err := s.read(ctx, fmt.Sprintf("reading the audit of %q", partition), func(q querier) error {
		// Every row holds at least one record, so limit rows are enough.
		return q.each("SELECT records FROM audit WHERE partition = $1 AND last > $2 ORDER BY last LIMIT $3",
			[]any{string(partition), after, limit}, func(row scanner) error {
				if len(records) >= limit {
					return nil
				}
				var text string
				if err := row.Scan(&text); err != nil {
					return err
				}
				var entries []auditEntry
				if err := decode("audit", text, &entries); err != nil {
					return err
				}
				for _, e := range entries {
					if e.Number > after && len(records) < limit {
						records = append(records, e.record(partition))
					}
				}
				return nil
			})
	})
	return records, err
}

// VerifyAudit recomputes the chain from its beginning.
func (s *Store) VerifyAudit(ctx context.Context, partition intent.PartitionID) error {
	return s.read(ctx, fmt.Sprintf("verifying the audit of %q", partition), func(q querier) error {
		_, err := verifyChain(q, partition)
		return err
	})
}

// verifyChain returns the number of its records.
func verifyChain(q querier, partition intent.PartitionID) (uint64, error) {
	var headNumber uint64
	var headLink intent.Digest
	if _, err := q.one("SELECT last, digest FROM audit_head WHERE partition = $1",
		[]any{string(partition)}, &headNumber, digestColumn{&headLink}); err != nil {
		return 0, err
	}
	chain := verification{partition: partition}
	err := q.each("SELECT last, records, digest FROM audit WHERE partition = $1 ORDER BY last",
		[]any{string(partition)}, chain.row)
	if err != nil {
		return 0, err
	}
	if chain.number != headNumber || chain.link != headLink {
		return 0, chain.bad(chain.number+1, fmt.Sprintf("the chain ends at %d, but %d records were written", chain.number, headNumber))
	}
	return chain.number, nil
}

// verification walks along a chain.
type verification struct {
	partition intent.PartitionID
	number    uint64
	link      intent.Digest
}

func (v *verification) bad(number uint64, why string) error {
	return fault.New(fault.Internal, "the audit of %q is not as it was written: record %d: %s", v.partition, number, why).
		WithHint("somebody changed the store, or its disk is failing: compare with a backup")
}

func (v *verification) row(row scanner) error {
	var last uint64
	var text string
	var stored intent.Digest
	if err := row.Scan(&last, &text, digestColumn{&stored}); err != nil {
		return err
	}
	var entries []auditEntry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return v.bad(v.number+1, "it cannot be read")
	}
	for _, e := range entries {
		if e.Number != v.number+1 {
			return v.bad(v.number+1, fmt.Sprintf("it is missing, %d follows", e.Number))
		}
		v.link = follow(v.link, v.partition, e)
		if e.Link != shortLink(v.link) {
			return v.bad(e.Number, "it does not match its link")
		}
		v.number = e.Number
	}
	if v.number != last || v.link != stored {
		return v.bad(v.number, "its row does not match its records")
	}
	return nil
}
