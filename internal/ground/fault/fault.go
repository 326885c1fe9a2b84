// Package fault says what kind of thing went wrong, on what, where, and what a
// person can do about it. A kind maps once to an RPC code (server) and once to
// an exit code (cli). "Not now" and "not allowed yet" are verdicts, not
// faults. Every package above may use it; it uses none of ours.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error by what the caller should do.
type Kind uint8

const (
	// Internal: a defect or a broken machine. Report it.
	Internal Kind = iota
	// NotFound: the thing named does not exist.
	NotFound
	// Invalid: the input is wrong. Mend it.
	Invalid
	// Conflict: somebody was faster, or the thing is in use. Read again.
	Conflict
	// Unavailable: something needed is not reachable now. Try again.
	Unavailable
	// Denied: the caller may not.
	Denied
	// Exhausted: the caller has, or asks for, more than their share. Ask again later.
	Exhausted
)

func (k Kind) String() string {
	switch k {
	case NotFound:
		return "not found"
	case Invalid:
		return "invalid"
	case Conflict:
		return "conflict"
	case Unavailable:
		return "unavailable"
	case Denied:
		return "denied"
	case Exhausted:
		return "exhausted"
	default:
		return "internal"
	}
}

// Error is an error with a kind and, where known, a hint.
type Error struct {
	Kind Kind
	// Message says what was attempted, on what, and why it failed.
	Message string
	// Hint says what a person can do. May be empty.
	Hint string
	// RetryAfter is when to ask again; 0: nobody knows.
	RetryAfter time.Duration
	// Cause is what errors.Is and errors.As look into; the message tells it
	// already.
	Cause error
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

func (e *Error) Unwrap() error { return e.Cause }

// New returns an error of the kind. What a %w verb names is its cause.
func New(kind Kind, format string, arguments ...any) *Error {
	err := fmt.Errorf(format, arguments...)
	return &Error{Kind: kind, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// WithHint returns the error with a hint of what to do.
func (e *Error) WithHint(format string, arguments ...any) *Error {
	withHint := *e
	withHint.Hint = fmt.Sprintf(format, arguments...)
	return &withHint
}

// WithCause returns the error with what errors.Is and errors.As are to find in it.
func (e *Error) WithCause(cause error) *Error {
	caused := *e
	caused.Cause = cause
	return &caused
}

// KindOf returns the kind of the outermost Error in the chain, else Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of the kind. A nil error is of none.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
