// Package artifact reads what was packed under a name and a version: charts of
// Helm, and artifacts of OCI registries. It unpacks archives within limits, chooses
// versions, and verifies digests and signatures. It does no I/O and trusts nothing
// that it is given: what it reads comes from strangers. Package fetch fetches it.
package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Digest of content, as registries write it: sha256: and 64 digits.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// IsDigest reports whether a text is a whole digest of SHA-256, in small letters.
func IsDigest(text string) bool { return digest.MatchString(text) }

// Verify refuses content that is not what its digest says.
func Verify(subject, wanted string, content []byte) error {
	if found := Digest(content); found != wanted {
		return fault.New(fault.Invalid, "%s has the digest %s, and should have %s", subject, found, wanted).
			WithHint("find out who changed it; what was read last stays in use")
	}
	return nil
}

// Limits of what is unpacked.
type Limits struct {
	// PackedBytes of one archive, FileBytes of one file in it, TotalBytes of all.
	PackedBytes, FileBytes, TotalBytes int64
	// Files in one archive.
	Files int
}

// DefaultLimits: an archive has at most 20 MB, and in it 10 000 files of at most
// 10 MB, 50 MB together.
func DefaultLimits() Limits {
	return Limits{PackedBytes: 20_000_000, FileBytes: 10_000_000, TotalBytes: 50_000_000, Files: 10_000}
}

// CheckPacked refuses an archive that is too large.
func (l Limits) CheckPacked(subject string, bytes int64) error {
	if bytes <= l.PackedBytes {
		return nil
	}
	return fault.New(fault.Invalid, "%s has %d bytes, and at most %d are read", subject, bytes, l.PackedBytes).
		WithHint("leave out of the package what is not rendered, such as images and binaries")
}

// strip takes the leading "./" of a path in an archive.
func strip(name string) string { return strings.TrimPrefix(name, "./") }
