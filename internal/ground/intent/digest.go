package intent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"slices"

	"lehr.dev/internal/ground/fault"
)

// Digest is a SHA-256 over a domain tag and canonical bytes.
type Digest [sha256.Size]byte

// Sum hashes parts under a domain tag. Each part is preceded by its length,
// so that no two lists of parts collide.
func Sum(domain string, parts ...[]byte) Digest {
	var all Parts
	all.Begin(domain)
	for _, part := range parts {
		all.Add(part)
	}
	return all.Sum()
}

// Parts is a Sum of parts that come one by one, in memory that does not grow with
// them. Begin comes first.
type Parts struct {
	hash   hash.Hash
	length [8]byte
	buffer []byte
}

// Begin forgets what was added.
func (p *Parts) Begin(domain string) {
	if p.hash == nil {
		p.hash = sha256.New()
	}
	p.hash.Reset()
	p.AddText(domain)
}

// Add takes the next part.
func (p *Parts) Add(part []byte) {
	p.addLength(len(part))
	p.hash.Write(part)
}

// AddText takes the next part, a text.
func (p *Parts) AddText(part string) {
	p.buffer = append(p.buffer[:0], part...)
	p.Add(p.buffer)
}

// readBytes are read at once.
const readBytes = 32 << 10

// AddFrom takes the next part, of a size in bytes, and returns how many were read:
// unless they are as many, at most one more, the sum is none.
func (p *Parts) AddFrom(reader io.Reader, size int64) (int64, error) {
	p.buffer = slices.Grow(p.buffer[:0], readBytes)
	p.addLength(int(size))
	return io.CopyBuffer(p.hash, io.LimitReader(reader, size+1), p.buffer[:readBytes])
}

// Sum is the digest of the parts so far.
func (p *Parts) Sum() (sum Digest) {
	p.hash.Sum(sum[:0])
	return sum
}

func (p *Parts) addLength(bytes int) {
	binary.LittleEndian.PutUint64(p.length[:], uint64(bytes))
	p.hash.Write(p.length[:])
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
