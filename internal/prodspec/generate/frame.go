package generate

import (
	"encoding/binary"
	"encoding/json"
	"io"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
)

// frameKind says what a frame between parent and child holds.
type frameKind byte

const (
	// From the parent: what the child needs once, a job, an input's content.
	frameSetup   frameKind = 'S'
	frameJob     frameKind = 'J'
	frameContent frameKind = 'C'
	// Other work than a run: types to compile, assets to judge, a file to split, a workflow to
	// explore.
	frameTypes    frameKind = 'T'
	frameJudge    frameKind = 'V'
	frameSplit    frameKind = 'K'
	frameWorkflow frameKind = 'F'
	// From the child: it is ready (a module is, too), it needs an input's content, a result.
	frameReady  frameKind = 'A'
	frameWant   frameKind = 'W'
	frameResult frameKind = 'R'
)

// setup is the first frame. Schema is a serialized FileDescriptorSet; empty:
// the built-in types.
type setup struct {
	Limits Limits `json:"limits"`
	Schema []byte `json:"schema,omitempty"`
	// Language of the jobs, and what it needs: where compiled modules are kept,
	// what native programs may. Native: renderers that are programs of their
	// own. Elsewhere: see Options.
	Language  work.Language `json:"language,omitempty"`
	Cache     string        `json:"cache,omitempty"`
	Policy    native.Policy `json:"policy,omitzero"`
	Native    bool          `json:"native,omitempty"`
	Elsewhere bool          `json:"elsewhere,omitempty"`
}

// want asks for the content of an input.
type want struct {
	Kind  work.Kind `json:"kind"`
	Input Input     `json:"input"`
}

// mostCopied is how large a payload may be that is copied to be sent in one piece.
const mostCopied = 64 << 10

// write sends one frame: four bytes of length, one of kind, the payload.
func write(w io.Writer, kind frameKind, payload []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 5+min(len(payload), mostCopied)), uint32(len(payload)))
	frame = append(frame, byte(kind))
	if len(payload) <= mostCopied {
		_, err := w.Write(append(frame, payload...))
		return err
	}
	if _, err := w.Write(frame); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

func writeJSON(w io.Writer, kind frameKind, value any) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return write(w, kind, payload)
}

// read receives one frame of at most limit bytes.
func read(r io.Reader, limit int) (frameKind, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > int64(limit) {
		return 0, nil, fault.New(fault.Invalid, "a frame of %d bytes, at most %d are allowed", length, limit)
	}
	payload := make([]byte, length)
	_, err := io.ReadFull(r, payload)
	return frameKind(header[4]), payload, err
}
