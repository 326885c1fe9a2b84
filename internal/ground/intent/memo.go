package intent

import "lehr.dev/internal/ground/fault"

// Memo is what a plugin asked Lehr to keep of one asset and one real thing, and what
// only that plugin understands. It holds what production cannot tell. Lehr may lose it
// with its store.
type Memo struct {
	Key   ResourceKey
	Bytes []byte
}

// Limits of memos.
const (
	// MaxMemoBytes bounds one memo.
	MaxMemoBytes = 16 << 10
	// MaxMemoKeyBytes bounds the resource key of one.
	MaxMemoKeyBytes = 512
	// MaxMemosPerAsset bounds the real things of one asset that have a memo; the memo
	// that was set first gives way to a new one.
	MaxMemosPerAsset = 4
)

// Check is Invalid for a memo that Lehr does not keep.
func (m Memo) Check() error {
	const hint = "a memo holds only what production cannot tell, such as the number of a run that was started"
	switch {
	case m.Key == "":
		return fault.New(fault.Invalid, "a memo names no resource key").WithHint("name the real thing that it is of, as the State of Read does")
	case len(m.Key) > MaxMemoKeyBytes:
		return fault.New(fault.Invalid, "the resource key of a memo has %d bytes, at most %d are allowed", len(m.Key), MaxMemoKeyBytes)
	case Shown(string(m.Key)) != string(m.Key):
		return fault.New(fault.Invalid, "the resource key of a memo is not printable text: %q", string(m.Key))
	case len(m.Bytes) > MaxMemoBytes:
		return fault.New(fault.Invalid, "the memo of %s has %d bytes, at most %d are kept", m.Key, len(m.Bytes), MaxMemoBytes).WithHint(hint)
	}
	return nil
}
