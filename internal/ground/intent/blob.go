package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Limits of blobs: what assets name as blob:sha256:DIGEST, kept by Lehr.
const (
	// MaxBlobBytes of one.
	MaxBlobBytes = 10_000_000
	// MaxPartitionBlobBytes of all that one incarnation of a partition names.
	MaxPartitionBlobBytes = 256_000_000
	// MaxKeptBlobBytes of all that are kept for a partition, of every incarnation
	// and candidate.
	MaxKeptBlobBytes = 1_000_000_000
)

const blobScheme = "blob:sha256:"

// BlobSum is the digest that names a blob: plain SHA-256, as other tools compute
// it.
func BlobSum(content []byte) Digest { return sha256.Sum256(content) }

// BlobURI names a blob.
func BlobURI(digest Digest) string { return blobScheme + hex.EncodeToString(digest[:]) }

// BlobDigest is the digest in the URI of a blob; false: it is no blob's.
func BlobDigest(uri string) (Digest, bool) {
	text, ok := strings.CutPrefix(uri, blobScheme)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != len(Digest{}) || hex.EncodeToString(sum) != text {
		return Digest{}, false
	}
	return Digest(sum), true
}
