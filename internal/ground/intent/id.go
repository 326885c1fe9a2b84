package intent

import (
	"fmt"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// PartitionID names an administrative domain. It has the syntax of one
// segment of an asset id and at most 63 bytes.
type PartitionID string

// AssetID names an asset within its partition: segments
// [a-z0-9][a-z0-9._-]* joined by "/", at most 253 bytes.
type AssetID string

// TypeName is the full protobuf name of a payload or addon type.
type TypeName string

// IsIntent reports whether it is one of Lehr's own, of package lehr.intent.v1: what says
// how assets are enforced is compared with nothing itself.
func (t TypeName) IsIntent() bool { return strings.HasPrefix(string(t), "lehr.intent.v1.") }

// Sequence numbers the incarnations of a partition from 1. 0 is none.
type Sequence uint64

const (
	maxAssetID     = 253
	maxPartitionID = 63
	// MaxAssetBytes is the limit of an asset's canonical bytes.
	MaxAssetBytes = 150_000
)

// PolicyAsset is the asset that carries the partition's policy.
const PolicyAsset AssetID = "lehr/policy"

// ParseAssetID checks the syntax of an asset id.
func ParseAssetID(s string) (AssetID, error) {
	if len(s) > maxAssetID {
		return "", fault.New(fault.Invalid, "asset id %.40q… has %d bytes, at most %d are allowed", s, len(s), maxAssetID)
	}
	for segment := range strings.SplitSeq(s, "/") {
		if !isSegment(segment) {
			return "", fault.New(fault.Invalid, "asset id %q: segment %q is not of the form [a-z0-9][a-z0-9._-]*", s, segment)
		}
	}
	return AssetID(s), nil
}

// JustBefore is a text before the id and after every smaller id, so that a page which
// begins after it begins with the id, if that is there: '~' follows all characters of ids.
func (a AssetID) JustBefore() AssetID {
	last := len(a) - 1
	return a[:last] + AssetID([]byte{a[last] - 1, '~'})
}

// ParsePartitionID checks the syntax of a partition id.
func ParsePartitionID(s string) (PartitionID, error) {
	if len(s) > maxPartitionID || !isSegment(s) {
		return "", fault.New(fault.Invalid, "partition %.80q is not of the form [a-z0-9][a-z0-9._-]* with at most %d bytes", s, maxPartitionID)
	}
	return PartitionID(s), nil
}

func isSegment(s string) bool {
	for i, c := range []byte(s) {
		alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return s != ""
}

// IncarnationID names an immutable snapshot: "<partition>@<sequence>".
type IncarnationID struct {
	Partition PartitionID
	Sequence  Sequence
}

func (id IncarnationID) String() string {
	return string(id.Partition) + "@" + strconv.FormatUint(uint64(id.Sequence), 10)
}

// IsZero reports whether the id names nothing.
func (id IncarnationID) IsZero() bool { return id.Sequence == 0 }

func (id IncarnationID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

func (id *IncarnationID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*id = IncarnationID{}
		return nil
	}
	*id, err = ParseIncarnationID(string(text))
	return err
}

// ParseIncarnationID reads "<partition>@<sequence>".
func ParseIncarnationID(s string) (IncarnationID, error) {
	partition, number, ok := strings.Cut(s, "@")
	sequence, err := strconv.ParseUint(number, 10, 63)
	if !ok || err != nil || sequence == 0 {
		return IncarnationID{}, fault.New(fault.Invalid, "%q is not an incarnation id", s).WithHint("write <partition>@<number>, for example shop@12")
	}
	id, err := ParsePartitionID(partition)
	return IncarnationID{Partition: id, Sequence: Sequence(sequence)}, err
}

// CandidateID names a snapshot that is not served: "<partition>@~<digest>".
// Never latest, never pinned, never pushed.
type CandidateID struct {
	Partition PartitionID
	Digest    Digest
}

func (id CandidateID) String() string {
	return fmt.Sprintf("%s@~%s", id.Partition, id.Digest.Short())
}

// ResourceKey is the identity of a real thing at its provider. It belongs to
// one asset across all partitions.
type ResourceKey string

// PushID names one admission and the push it authorises, for ever. It is also
// the idempotency key towards the provider.
type PushID string

// Actor is a person or a program, for the audit.
type Actor struct {
	Name string `json:"name"`
	// Origin is where from: "cli", "api", "server", "store".
	Origin string `json:"origin"`
}

// ServerOrigin is that of Lehr's own actors, which are nobody's.
const ServerOrigin = "server"
