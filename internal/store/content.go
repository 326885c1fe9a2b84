package store

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// AssetFilter selects the members that satisfy all of it. Empty fields select
// all.
type AssetFilter struct {
	Prefix string
	Type   intent.TypeName
	// Field is the exact path of an intent.Field that the member must have,
	// and Value its whole value; an empty Value accepts any.
	Field, Value string
	// RefersTo selects those with a reference to that asset, be it a member
	// or not.
	RefersTo intent.AssetID
	// After is the last id of the page before; Limit the size of the page
	// (0: 1000, at most 10 000).
	After intent.AssetID
	Limit int
}

// Change is a member that differs between two incarnations.
type Change struct {
	Asset intent.AssetID
	// Before and After are nil when the asset is not a member then.
	Before, After *intent.Member
}

// Edge is a reference from one asset to another, as of an incarnation.
type Edge struct {
	From, To intent.AssetID
	Field    string
	Read     bool
}

// Snapshots reads incarnations, the only way to read assets.
type Snapshots interface {
	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	// Incarnations lists retained ones, newest first. Limit as AssetFilter's.
	Incarnations(ctx context.Context, partition intent.PartitionID, before intent.Sequence, limit int) ([]intent.Incarnation, error)
	// Member and Body are NotFound when the asset is not in the incarnation.
	// Body returns canonical bytes, verified against the digest (S7).
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Body(ctx context.Context, digest intent.Digest) ([]byte, error)
	// Content is both at once: the member, and its body.
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	// Contents returns the bodies of several assets at once, each verified as Content's is.
	// It omits assets that the incarnation has not, and those whose body is missing or
	// damaged: Content says what is wrong with one.
	Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error)
	// Members lists one page, in the order of the ids.
	Members(ctx context.Context, id intent.IncarnationID, filter AssetFilter) ([]intent.Member, error)
	// Changes lists what differs between two incarnations of a partition, one
	// page in the order of the ids, at cost ∝ the difference. A zero from is
	// the empty incarnation.
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]Change, error)
	// FindIncarnation returns the newest retained incarnation of the partition
	// that is so; NotFound says what there is instead.
	FindIncarnation(ctx context.Context, partition intent.PartitionID, lookup Lookup) (intent.Incarnation, error)
	// EdgesFrom and EdgesTo list references of and to an asset.
	EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]Edge, error)
	EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]Edge, error)
}

// Lookup finds an incarnation. Empty fields ask for nothing.
type Lookup struct {
	// At: it was head at that time.
	At time.Time
	// Label is a key that it has, and Value the label's value; an empty Value
	// accepts any.
	Label, Value string
}

// Labels are what people call incarnations. They are no part of an
// incarnation's digest, and those that Publish was given stay.
type Labels interface {
	// SetLabel sets one label; an empty value removes it. The incarnation is
	// retained while it has one that was set so. Keys that begin with "lehr/"
	// are Invalid: they are Lehr's own.
	SetLabel(ctx context.Context, id intent.IncarnationID, key, value, reason string, actor intent.Actor) error
}

// Entry is one asset of a delta.
type Entry struct {
	Asset intent.AssetID
	// Removed: the asset is not in the new snapshot; the rest is unset.
	Removed bool
	Member  intent.Member
	// Body is the canonical bytes, nil when only the effective digest moved.
	Body       []byte
	References []intent.Reference
	// Blobs that the body names. They were put, of the kind SpillBlobs; Conflict
	// when the collector was faster, so that they must be put again.
	Blobs []intent.Digest
	// Fields, like References, are those of the body, and nil without one.
	Fields []intent.Field
}

// Publisher makes incarnations. Stage any number of times, then publish. What
// is staged is invisible until then, and thrown away by the next Unstage.
type Publisher interface {
	// Unstage throws away what an earlier, unfinished publication left.
	Unstage(ctx context.Context, lease Lease) error
	// Stage writes part of the delta on base, which must be head, in bounded
	// transactions. An entry may be staged again with the same outcome.
	Stage(ctx context.Context, lease Lease, base intent.IncarnationID, delta []Entry) error
	// Publish flips head from base to base+1, in one small transaction, and
	// records that it covers the sources. The membership digest is computed
	// by the store, see MembershipDigest, and returned with the incarnation. What
	// the incarnation governs is pinned with it, see Rollouts; a pin that another
	// rollout has stays where it is, and is the new one's.
	Publish(ctx context.Context, lease Lease, incarnation intent.Incarnation) (intent.Incarnation, error)
	// Cover records that head is also what these source revisions generate.
	Cover(ctx context.Context, lease Lease, head intent.IncarnationID, sources []intent.SourceRevision) error
}

// Candidates keeps what was not served.
type Candidates interface {
	// SaveCandidate stores a candidate with its delta, which may be nil when
	// generation failed. A newer one supersedes those held before it.
	SaveCandidate(ctx context.Context, lease Lease, candidate intent.Candidate, delta []Entry) error
	// Candidate finds by full digest, or by a prefix of at least 8 hexadecimal
	// digits that is unique. Delta and bodies are verified.
	Candidate(ctx context.Context, partition intent.PartitionID, digest string) (intent.Candidate, error)
	CandidateDelta(ctx context.Context, id intent.CandidateID) ([]Entry, error)
	// ListCandidates lists the newest first.
	ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) ([]intent.Candidate, error)
	// Acknowledge lets a held candidate through its guards: exactly this one.
	Acknowledge(ctx context.Context, id intent.CandidateID, reason string, actor intent.Actor) error
	// Acknowledged reports whether somebody did, and who, while it may still be
	// used.
	Acknowledged(ctx context.Context, id intent.CandidateID) (actor intent.Actor, acknowledged bool, err error)
}

// Blobs keeps bytes by name for one partition: generator outputs by the
// digest of what they were made from, descriptor sets, quarantine marks.
type Blobs interface {
	// PutBlobs stores all or none. A nil value deletes. Invalid: one of the kind
	// SpillBlobs is not what its name says, or the partition keeps too many
	// bytes of them (intent.MaxKeptBlobBytes).
	PutBlobs(ctx context.Context, lease Lease, kind string, blobs map[string][]byte) error
	// GetBlob is NotFound when there is none. The bytes are verified.
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}

// SpillBlobs is the kind of blob that assets name, by its digest in hex
// (intent.BlobSum). It is kept while a member or a candidate names it, and else
// until the next collection.
const SpillBlobs = "spill"

// OriginBlobs is the kind of blob that says where assets come from, which an
// incarnation changed: see package provenance. They are removed with the last
// content that it changed.
const OriginBlobs = "origin"

// CommitBlobs is the kind of blob that holds the commits which the versions of a source are made
// of, and those before them (commitgraph.Commit, as JSON), by the name of the source.
const CommitBlobs = "commits"

// JudgementBlobs is the kind of blob that holds the record of a validation
// (validation.Record), packed by gzip. They are kept as long as ended pushes are, the
// newest MaxJudgementBytes of a partition's.
const JudgementBlobs = "judgement"

// MaxJudgementBytes of a partition's records of validations are kept, when they are
// collected.
const MaxJudgementBytes = 256 << 20

// JudgementName of a record that was made then: the oldest come first.
func JudgementName(at time.Time, subject string) string {
	return at.UTC().Format("20060102T150405Z") + "/" + subject
}

// OriginName begins the names of an incarnation's blobs of the kind OriginBlobs.
func OriginName(sequence intent.Sequence) string { return fmt.Sprintf("%019d", sequence) }
