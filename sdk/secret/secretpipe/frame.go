package secretpipe

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"lehr.dev/internal/ground/fault"
)

const (
	// mostHead and mostBody bound a frame, in bytes. A body is a value, a document of
	// SOPS or texts in which secrets are looked for.
	mostHead = 1 << 20
	mostBody = 8 << 20
)

// A frame is the length of its head and of its body, four bytes each with the highest first,
// then the head, a JSON object, and the body, bytes as they are. Values and documents are
// only ever in bodies, so that no encoder keeps a copy of one.

// readFrame reads one. io.EOF: there is no other.
func readFrame(r io.Reader, head any) (body []byte, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return nil, err
	}
	headLength, bodyLength := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if headLength > mostHead || bodyLength > mostBody {
		return nil, fault.New(fault.Invalid, "a message has %d and %d bytes, more than the %d and %d that it may", headLength, bodyLength, mostHead, mostBody).
			WithHint("this program is started by the package for plugins in Python, not by hand")
	}
	encoded := make([]byte, headLength)
	if _, err := io.ReadFull(r, encoded); err != nil {
		return nil, noEOF(err)
	}
	body = make([]byte, bodyLength)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, noEOF(err)
	}
	if err := json.Unmarshal(encoded, head); err != nil {
		clear(body)
		return nil, fault.New(fault.Invalid, "reading a message: %w", err).WithHint("use the lehr-secrets of the Lehr that wrote the plugin's package: lehr plugin generate writes it anew")
	}
	return body, nil
}

// noEOF tells a frame that was cut off from the end of all.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFrame writes one, and overwrites its body.
func writeFrame(w io.Writer, head any, body []byte) error {
	defer clear(body)
	encoded, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if len(encoded) > mostHead || len(body) > mostBody {
		return fmt.Errorf("an answer has %d and %d bytes, more than the %d and %d that it may", len(encoded), len(body), mostHead, mostBody)
	}
	frame := make([]byte, 8, 8+len(encoded))
	binary.BigEndian.PutUint32(frame[:4], uint32(len(encoded)))
	binary.BigEndian.PutUint32(frame[4:], uint32(len(body)))
	if _, err := w.Write(append(frame, encoded...)); err != nil || len(body) == 0 {
		return err
	}
	_, err = w.Write(body)
	return err
}
