package planrecord

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"lehr.dev/internal/ground/intent"
)

// A record has the form of a protobuf message, so that an older program passes over what
// a newer one adds. Numbers of fields are never used again.
const (
	fieldAction          protowire.Number = 1
	fieldMore            protowire.Number = 2
	fieldMoreDestructive protowire.Number = 3
	// fieldChange is one change of a small record.
	fieldChange protowire.Number = 4
	// fieldPacked are changes as DEFLATE (RFC 1951).
	fieldPacked protowire.Number = 5
)

// Fields of a change.
const (
	fieldPath        protowire.Number = 1
	fieldCurrent     protowire.Number = 2
	fieldTarget      protowire.Number = 3
	fieldReason      protowire.Number = 4
	fieldWriter      protowire.Number = 5
	fieldDestructive protowire.Number = 6
	fieldCut         protowire.Number = 7
)

// record is what Encode writes beside the changes.
type record struct {
	action string
	// left are the changes that were not kept.
	left []intent.FieldChange
}

// bytes of the record. The body is copied.
func (r record) bytes(body []byte, packed bool) []byte {
	destructive := 0
	for _, c := range r.left {
		if c.Destructive {
			destructive++
		}
	}
	b := make([]byte, 0, mostHead+len(body))
	b = appendText(b, fieldAction, r.action)
	b = appendNumber(b, fieldMore, len(r.left))
	b = appendNumber(b, fieldMoreDestructive, destructive)
	if !packed {
		return append(b, body...)
	}
	b = protowire.AppendTag(b, fieldPacked, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}

func appendChange(b []byte, c intent.RecordedChange) []byte {
	flags := []struct {
		number protowire.Number
		on     bool
	}{{fieldDestructive, c.Destructive}, {fieldCut, c.Cut}}
	texts := [...]string{c.Path, c.Current, c.Target, c.Reason, c.Writer}
	size := 0
	for i, text := range texts {
		if text != "" {
			size += protowire.SizeTag(protowire.Number(i)+fieldPath) + protowire.SizeBytes(len(text))
		}
	}
	for _, flag := range flags {
		if flag.on {
			size += protowire.SizeTag(flag.number) + 1
		}
	}
	b = protowire.AppendTag(b, fieldChange, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	for i, text := range texts {
		b = appendText(b, protowire.Number(i)+fieldPath, text)
	}
	for _, flag := range flags {
		if flag.on {
			b = appendNumber(b, flag.number, 1)
		}
	}
	return b
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, value int) []byte {
	if value == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(value))
}

// Decode reads a record; nil for none. It fails on what Encode did not write.
func Decode(stored []byte) (*intent.PlanRecord, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	r := &intent.PlanRecord{}
	return r, readRecord(stored, r)
}

func readRecord(b []byte, r *intent.PlanRecord) error {
	return eachField(b, func(number protowire.Number, text []byte, value uint64) error {
		switch number {
		case fieldAction:
			r.Action = intent.Action(text)
		case fieldMore:
			r.More = int(value)
		case fieldMoreDestructive:
			r.MoreDestructive = int(value)
		case fieldChange:
			change, err := readChange(text)
			r.Changes = append(r.Changes, change)
			return err
		case fieldPacked:
			body, err := unpack(text)
			if err != nil {
				return err
			}
			return eachField(body, func(number protowire.Number, text []byte, _ uint64) error {
				if number != fieldChange {
					return nil
				}
				change, err := readChange(text)
				r.Changes = append(r.Changes, change)
				return err
			})
		}
		return nil
	})
}

func readChange(b []byte) (c intent.RecordedChange, err error) {
	err = eachField(b, func(number protowire.Number, text []byte, value uint64) error {
		switch number {
		case fieldPath:
			c.Path = string(text)
		case fieldCurrent:
			c.Current = string(text)
		case fieldTarget:
			c.Target = string(text)
		case fieldReason:
			c.Reason = string(text)
		case fieldWriter:
			c.Writer = string(text)
		case fieldDestructive:
			c.Destructive = value != 0
		case fieldCut:
			c.Cut = value != 0
		}
		return nil
	})
	return c, err
}

// eachField visits the fields that are texts or numbers, and passes over others.
func eachField(b []byte, visit func(number protowire.Number, text []byte, value uint64) error) error {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return fmt.Errorf("a plan's record is damaged: %w", protowire.ParseError(size))
		}
		b = b[size:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(number, kind, b)
		}
		if size < 0 {
			return fmt.Errorf("a plan's record is damaged: field %d: %w", number, protowire.ParseError(size))
		}
		b = b[size:]
		if err := visit(number, text, value); err != nil {
			return err
		}
	}
	return nil
}

// scratch is what one Encode writes into. A compressor has some hundred kilobytes.
type scratch struct {
	body []byte
	// ends of the changes in the body.
	ends       []int
	packed     bytes.Buffer
	compressor *flate.Writer
}

var scratches = sync.Pool{New: func() any {
	compressor, _ := flate.NewWriter(nil, flate.BestSpeed) // Fails only for a level that there is not.
	return &scratch{compressor: compressor}
}}

// pack compresses the first changes of the body.
func (s *scratch) pack(changes int) []byte {
	end := 0
	if changes > 0 {
		end = s.ends[changes-1]
	}
	s.packed.Reset()
	s.compressor.Reset(&s.packed)
	_, _ = s.compressor.Write(s.body[:end]) // A buffer takes all.
	_ = s.compressor.Close()
	return s.packed.Bytes()
}

var decompressors = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// unpack gives no more than a body may have, whatever the bytes ask for.
func unpack(packed []byte) ([]byte, error) {
	decompressor := decompressors.Get().(io.ReadCloser)
	defer decompressors.Put(decompressor)
	if err := decompressor.(flate.Resetter).Reset(bytes.NewReader(packed), nil); err != nil {
		return nil, fmt.Errorf("a plan's record is damaged: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(decompressor, mostBody+1))
	if err != nil {
		return nil, fmt.Errorf("a plan's record is damaged: %w", err)
	}
	if len(body) > mostBody {
		return nil, fmt.Errorf("a plan's record is damaged: it unpacks to more than %d bytes", mostBody)
	}
	return body, nil
}
