package intent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"lehr.dev/fault"
)

// Digest is a SHA-256 over a domain tag and canonical bytes.
type Digest [sha256.Size]byte

// Sum hashes parts under a domain tag. Each part is preceded by its length,
// so that no two lists of parts collide.
func Sum(domain string, parts ...[]byte) Digest {
	h := sha256.New()
	addPart(h, []byte(domain))
	for _, part := range parts {
		addPart(h, part)
	}
	return Digest(h.Sum(nil))
}

func addPart(h hash.Hash, part []byte) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
	h.Write(length[:])
	h.Write(part)
}

// IsZero reports whether the digest is unset.
func (d Digest) IsZero() bool { return d == Digest{} }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short is the first 12 hexadecimal digits, for people.
func (d Digest) Short() string { return hex.EncodeToString(d[:6]) }

func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return []byte(d.String()), nil
}

func (d *Digest) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	*d, err = ParseDigest(string(text))
	return err
}

// ParseDigest reads 64 hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return Digest{}, fault.New(fault.Invalid, "%.80q is not a digest of 64 hexadecimal digits", s)
	}
	return Digest(b), nil
}

// BodyDigest is the digest of an asset's canonical bytes.
func BodyDigest(canonical []byte) Digest { return Sum("lehr.asset.v1", canonical) }
