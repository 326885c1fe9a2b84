package client

import (
	"lehr.dev/internal/ground/export"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Values that calls take and answer with.
type (
	// Actor is who acts: a name, and where it came from, for the audit.
	Actor = intent.Actor
	// Digest is the SHA-256 of a content.
	Digest = intent.Digest
	// ExportFormat is how an incarnation is written.
	ExportFormat = export.Format
	// Exported says what was written.
	Exported = export.Exported
	// Error says of what kind it is, and perhaps what a person can do.
	Error = fault.Error
	// ErrorKind is why a call failed.
	ErrorKind = fault.Kind
)

// Formats of an export.
const (
	ExportJSON     = export.JSON
	ExportProtobuf = export.Proto
	ExportTar      = export.Tar
)

// Kinds of errors.
const (
	Internal    = fault.Internal
	NotFound    = fault.NotFound
	Invalid     = fault.Invalid
	Conflict    = fault.Conflict
	Unavailable = fault.Unavailable
	Denied      = fault.Denied
	Exhausted   = fault.Exhausted
)

// IsKind reports whether an error, or one that it wraps, is of a kind.
func IsKind(err error, kind ErrorKind) bool { return fault.Is(err, kind) }
