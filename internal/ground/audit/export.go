package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// An exported file is lines of JSON: first a Checkpoint for each chain, in the
// order of the partitions, that says how many of its records follow; then the
// records, chain by chain in the same order. Nothing else may stand there, so
// that no byte of a record can change unseen.

// maxLine bounds a line: an audit record is a few hundred bytes, and what
// people and plugins say in it is bounded before.
const maxLine = 16 << 20

// Export writes the chains whose ends are given; each gives the records after
// a number, some at a time, and none when there are no more.
func Export(w io.Writer, heads []Checkpoint, page func(partition intent.PartitionID, cursor uint64) ([]intent.AuditRecord, error)) error {
	buffered := bufio.NewWriter(w)
	if err := WriteCheckpoints(buffered, heads); err != nil {
		return err
	}
	for _, head := range heads {
		for written := uint64(0); written < head.Number; {
			records, err := page(head.Partition, written)
			if err != nil {
				return err
			}
			if len(records) == 0 {
				return fault.New(fault.Internal, "exporting the audit of %s: it ends at record %d, but %d were written", Scope(head.Partition), written, head.Number).
					WithHint("lehr audit verify tells more")
			}
			for _, r := range records {
				if written = r.Number; written > head.Number {
					break // It was written since.
				}
				line, err := json.Marshal(r)
				if err != nil {
					return err
				}
				if _, err := buffered.Write(append(line, '\n')); err != nil {
					return err
				}
			}
		}
	}
	return buffered.Flush()
}

// VerifyFile goes through an exported file.
func VerifyFile(ctx context.Context, r io.Reader, checkpoints []Checkpoint) (Report, error) {
	v := NewVerifier(checkpoints)
	file := exported{verifier: v, lines: bufio.NewReaderSize(r, 64<<10)}
	for ctx.Err() == nil {
		line, err := file.next()
		if len(line) > 0 {
			file.number++
			if !file.take(line) {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Report{}, fault.New(fault.Unavailable, "reading the exported audit: %w", err)
		}
	}
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	if len(file.heads) == 0 && !file.bad {
		v.say("", 0, "the file has no records", "was all of it copied? lehr audit export writes it")
	}
	file.finish(len(file.heads))
	return v.Report(), nil
}

// exported is a file as far as it was read.
type exported struct {
	verifier *Verifier
	lines    *bufio.Reader
	number   int
	heads    []Checkpoint
	// at is the place among heads of the chain being read.
	at int
	// records: the first one was seen.
	records, bad bool
}

func (e *exported) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := e.lines.ReadSlice('\n')
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("line %d is longer than %d bytes", e.number+1, maxLine)
		}
	}
}

// take takes up a line; false: what follows cannot be understood.
func (e *exported) take(line []byte) bool {
	var c Checkpoint
	if !e.records && exactly(line, &c) && c.Number > 0 {
		return e.head(c)
	}
	var r intent.AuditRecord
	if !exactly(line, &r) {
		return e.refuse("line %d of the file is not as it was written", e.number)
	}
	e.records = true
	for e.at < len(e.heads) && e.heads[e.at].Partition < r.Partition {
		e.finish(e.at + 1)
	}
	if e.at == len(e.heads) || e.heads[e.at].Partition != r.Partition {
		return e.refuse("line %d of the file is a record of %s, which does not belong there", e.number, Scope(r.Partition))
	}
	e.verifier.Begin(r.Partition)
	e.verifier.Next(r)
	return true
}

func (e *exported) head(c Checkpoint) bool {
	if n := len(e.heads); n > 0 && (e.heads[n-1].Partition >= c.Partition || e.heads[n-1].Store != c.Store) {
		return e.refuse("line %d of the file is not as it was written", e.number)
	}
	e.heads = append(e.heads, c)
	return true
}

func (e *exported) refuse(form string, arguments ...any) bool {
	e.bad = true
	e.verifier.say("", 0, fmt.Sprintf(form, arguments...), "compare the file with another export, or export it anew")
	return false
}

// finish ends the chains before a place; what was announced must have come.
func (e *exported) finish(end int) {
	for ; e.at < end; e.at++ {
		head := e.heads[e.at]
		e.verifier.Store(head.Store)
		e.verifier.Begin(head.Partition)
		e.verifier.Expect(head.Number, head.Link)
		e.verifier.End()
	}
}

// exactly reads a line that says what it says in the one way in which it is
// written.
func exactly(line []byte, target any) bool {
	text, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok || json.Unmarshal(text, target) != nil {
		return false
	}
	again, err := json.Marshal(target)
	return err == nil && bytes.Equal(again, text)
}
