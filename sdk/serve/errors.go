package serve

import "lehr.dev/internal/ground/fault"

// Error is one that says what kind it is, and may have a hint for people (WithHint).
type Error = fault.Error

// ErrorKind is why something cannot be done. A plugin's error of another kind, or of none, is
// Unavailable: it is tried again.
type ErrorKind = fault.Kind

// Kinds of errors.
const (
	NotFound    ErrorKind = fault.NotFound
	Invalid     ErrorKind = fault.Invalid
	Conflict    ErrorKind = fault.Conflict
	Unavailable ErrorKind = fault.Unavailable
	Denied      ErrorKind = fault.Denied
	Internal    ErrorKind = fault.Internal
)

// Errorf returns an error of a kind, as fmt.Errorf does; %w wraps.
func Errorf(kind ErrorKind, format string, arguments ...any) *Error {
	return fault.New(kind, format, arguments...)
}

// IsKind reports whether an error, or one that it wraps, is of a kind.
func IsKind(err error, kind ErrorKind) bool { return fault.Is(err, kind) }
