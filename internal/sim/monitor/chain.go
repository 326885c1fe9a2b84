package monitor

import (
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/intent"
)

// record is one of the audit, as the store keeps it.
type record struct {
	Number  uint64       `json:"n"`
	At      time.Time    `json:"at"`
	By      intent.Actor `json:"by"`
	From    string       `json:"from,omitempty"`
	Token   string       `json:"token,omitempty"`
	Verb    string       `json:"verb"`
	Subject string       `json:"subject"`
	Reason  string       `json:"reason,omitempty"`
	Detail  string       `json:"detail,omitempty"`
	Version int          `json:"v"`
	Link    string       `json:"link"`
}

// chain is a partition's audit as far as it was read; the one of all
// partitions has the empty partition.
type chain struct {
	partition intent.PartitionID
	last      uint64
	link      intent.Digest
}

// follow is the link of the next record.
func (c *chain) follow(r record) intent.Digest {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], r.Number)
	binary.BigEndian.PutUint64(numbers[8:], uint64(nanoseconds(r.At)))
	return sum("lehr.audit.v2", c.link[:], []byte(c.partition), numbers[:],
		[]byte(r.By.Name), []byte(r.By.Origin), []byte(r.From), []byte(r.Token), []byte(r.Verb), []byte(r.Subject), []byte(r.Reason), []byte(r.Detail))
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

const chainText = "SELECT last, records, digest FROM audit WHERE partition = $1 AND last > $2 ORDER BY last"

// read returns the records after those already read, and verifies that each
// follows the one before (S25).
func (m *Monitor) read(c *chain) []record {
	var news []record
	err := m.database.each(chainText, []any{string(c.partition), c.last}, func(rows *sql.Rows) error {
		var last uint64
		var text string
		var stored digest
		if err := rows.Scan(&last, &text, &stored); err != nil {
			return err
		}
		var records []record
		if err := json.Unmarshal([]byte(text), &records); err != nil {
			m.fail("S25", "the audit of %q has a row up to %d that cannot be read: %v", c.partition, last, err)
			return nil
		}
		for _, r := range records {
			m.hold(r.Number == c.last+1, "S25", "the audit of %q goes from record %d to %d", c.partition, c.last, r.Number)
			c.link, c.last = c.follow(r), r.Number
			m.hold(hex.EncodeToString(c.link[:8]) == r.Link, "S25", "record %d (%s %s) of the audit of %q does not follow from those before it", r.Number, r.Verb, r.Subject, c.partition)
		}
		m.hold(last == c.last && stored.Digest == c.link, "S25", "the row up to %d of the audit of %q does not match its records", last, c.partition)
		news = append(news, records...)
		return nil
	})
	m.unread("the audit", err)
	return news
}

// whole walks the chain from its beginning to its end as it was written.
func (m *Monitor) whole(partition intent.PartitionID) {
	c := chain{partition: partition}
	m.read(&c)
	var last uint64
	var link digest
	_, err := m.database.one("SELECT last, digest FROM audit_head WHERE partition = $1", []any{string(partition)}, &last, &link)
	m.unread("the end of the audit", err)
	m.hold(last == c.last && link.Digest == c.link, "S25", "the audit of %q ends at %d, and %d records were written", partition, c.last, last)
}
