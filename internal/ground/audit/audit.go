// Package audit says how the record of who did what hangs together, and finds
// where it does not any more. Each partition has a chain, and what concerns all
// of them together has one: a record's link covers the record and all before
// it. A checkpoint says, outside the store, how far a chain was at some time.
// Package relational writes records; Verifier goes through them again, from a
// store or from an exported file, and holds them to the rules that they tell
// of. Nothing here reads a clock, a disk or a network.
package audit

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Record is one of the audit.
type Record = intent.AuditRecord

// Version of the links that are written now. Those of version 0 cover neither
// From, Token nor Reason, which their records do not have.
const Version = 2

// Link is the link of a record whose predecessor's link is given.
func Link(previous intent.Digest, r intent.AuditRecord) intent.Digest {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], r.Number)
	binary.BigEndian.PutUint64(numbers[8:], uint64(nanoseconds(r.At)))
	if r.Version < Version {
		return intent.Sum("lehr.audit.v1", previous[:], []byte(r.Partition), numbers[:],
			[]byte(r.By.Name), []byte(r.By.Origin), []byte(r.Verb), []byte(r.Subject), []byte(r.Detail))
	}
	return intent.Sum("lehr.audit.v2", previous[:], []byte(r.Partition), numbers[:],
		[]byte(r.By.Name), []byte(r.By.Origin), []byte(r.From), []byte(r.Token), []byte(r.Verb), []byte(r.Subject), []byte(r.Reason), []byte(r.Detail))
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Short is the piece of a link that is kept with its record.
func Short(link intent.Digest) string { return hex.EncodeToString(link[:8]) }

// Chain walks along the records of one partition from the first.
type Chain struct {
	Partition intent.PartitionID
	// Number and Link of the last record.
	Number uint64
	Link   intent.Digest
}

// Next takes up the next record; an error names it, and says what is wrong.
func (c *Chain) Next(r intent.AuditRecord) error {
	switch {
	case r.Partition != c.Partition:
		return c.Bad(c.Number+1, fmt.Sprintf("it is of %s", Scope(r.Partition)))
	case r.Number > c.Number+1:
		return c.Bad(c.Number+1, fmt.Sprintf("it is missing, %d follows", r.Number))
	case r.Number < c.Number+1:
		return c.Bad(c.Number+1, fmt.Sprintf("in its place is %d", r.Number))
	case r.Version != 0 && r.Version != Version:
		return c.Bad(r.Number, fmt.Sprintf("its version is %d, known are 0 and %d", r.Version, Version))
	case r.Version == 0 && (r.From != "" || r.Token != "" || r.Reason != ""):
		return c.Bad(r.Number, "it says more than records of its version do")
	}
	link := Link(c.Link, r)
	if r.Link != Short(link) {
		return c.Bad(r.Number, "it does not match its link")
	}
	c.Number, c.Link = r.Number, link
	return nil
}

// Bad says that a record is not as it was written.
func (c *Chain) Bad(number uint64, reason string) error {
	return fault.New(fault.Internal, "the audit of %s is not as it was written: record %d: %s", Scope(c.Partition), number, reason).
		WithHint("somebody changed the store, or its disk is failing: compare the records from there on with a backup")
}

// Scope names a chain.
func Scope(partition intent.PartitionID) string {
	if partition == "" {
		return "all partitions"
	}
	return fmt.Sprintf("%q", partition)
}
