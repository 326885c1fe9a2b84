// Package secret holds what plugins handle of secrets: a value that prints as nothing,
// its keyed digest, what a call that asks for one tells, and the memory of what must
// not leave this process in a message. It reads no secret (package resolver does) and
// keeps none. Plugins and package serve call it.
package secret

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
)

// ErrRotated says that a secret changed between the plan of a push and its effect. An
// error of Apply that wraps it makes the push stale: nothing else is wrong.
var ErrRotated = errors.New("the secret was rotated since the push was planned")

// Digest stands for a value: HMAC-SHA-256 under the key of the operator's list, over
// the reference and the value. Two references to one value have two digests.
type Digest [32]byte

// Short is how the digest is shown: the first 16 digits in hex.
func (d Digest) Short() string { return hex.EncodeToString(d[:8]) }

// Words stand for the value in a plan. They differ when the value does, so a
// rotation is a difference and an approval is of one value.
func (d Digest) Words() string { return "secret (digest " + d.Short() + ")" }

// hidden is what a value prints as.
const hidden = "(secret)"

// Value of a secret. However it is printed, encoded or logged, it shows nothing. The
// zero value is empty.
type Value struct {
	// It is behind a pointer because fmt looks into fields that are not exported.
	held *held
}

type held struct {
	content []byte
	digest  Digest
}

// NewValue takes over the content, which nobody else may keep.
func NewValue(content []byte, digest Digest) Value { return Value{&held{content, digest}} }

// Digest of the value.
func (v Value) Digest() Digest {
	if v.held == nil {
		return Digest{}
	}
	return v.held.digest
}

// Reveal returns the secret itself. The bytes are the value's: Wipe empties them.
func (v Value) Reveal() []byte {
	if v.held == nil {
		return nil
	}
	return v.held.content
}

// Wipe overwrites the value. That is an effort and no guarantee: whoever made a string
// of it has a copy, and so may the runtime.
func (v Value) Wipe() {
	if v.held != nil {
		clear(v.held.content)
		v.held.content = nil
	}
}

// String hides the value.
func (v Value) String() string { return hidden }

// GoString hides the value.
func (v Value) GoString() string { return hidden }

// Format hides the value from every verb.
func (v Value) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(hidden)) }

// MarshalJSON hides the value.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText hides the value.
func (v Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the value.
func (v Value) LogValue() slog.Value { return slog.StringValue(hidden) }
