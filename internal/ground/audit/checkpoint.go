package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Checkpoint says how far a chain was at some time. It is kept outside the
// store, where whoever can change the store cannot change it too: only by it is
// it seen that the newest records were cut off, or all were written anew.
type Checkpoint struct {
	// Store is the store's identity.
	Store string `json:"store"`
	// Partition is empty for the chain of all partitions together.
	Partition intent.PartitionID `json:"partition"`
	// Number of the last record, and its link, which covers all before it.
	Number uint64        `json:"number"`
	Link   intent.Digest `json:"link"`
	// At is unset in the head of an exported file.
	At time.Time `json:"at,omitzero"`
}

// Checkpoints are those of the chains' ends; of what has no record yet there is
// none.
func Checkpoints(identity string, ends []intent.AuditEnd, at time.Time) []Checkpoint {
	var list []Checkpoint
	for _, end := range ends {
		if end.Number > 0 {
			list = append(list, Checkpoint{Store: identity, Partition: end.Partition, Number: end.Number, Link: end.Link, At: at})
		}
	}
	return list
}

// WriteCheckpoints writes a line of JSON for each.
func WriteCheckpoints(w io.Writer, list []Checkpoint) error {
	var lines bytes.Buffer
	for _, c := range list {
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	_, err := w.Write(lines.Bytes())
	return err
}

// ReadCheckpoints reads such lines. A process that dies may leave part of a
// line: unread are the numbers of those that are none.
func ReadCheckpoints(r io.Reader) (list []Checkpoint, unread []int, err error) {
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var c Checkpoint
			if json.Unmarshal(line, &c) != nil || c.Number == 0 || c.Link.IsZero() {
				unread = append(unread, number)
			} else {
				list = append(list, c)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return list, unread, nil
		case err != nil:
			return nil, nil, fault.New(fault.Unavailable, "reading checkpoints: %w", err)
		}
	}
}
