// Package store says what Lehr keeps, as small roles. Each engine implements
// all of them (All); storetest holds the one suite that every engine passes.
// Actors take the roles they need; app hands out the whole.
//
// Every write that acts for a partition names the lease it acts under, and is
// refused in the same transaction when the lease's epoch is not current (S4).
// Every write that a person or program causes names the actor, and its audit
// record is committed with it, or before it (S25); in the same transaction it
// is asked whether the caller of the context may (S24). A method that returned nil
// has been made durable (S14). Writers share commits: call from many
// goroutines, and hand in slices, to go fast.
//
// Errors carry a fault.Kind: Conflict for a lost lease, a moved base or a
// stale revision; Unavailable for a full or unreachable store; NotFound;
// Invalid; Internal for a corrupt body, which is never served (S7).
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lehr.dev/intent"
)

// ErrAway is in what fails because the database cannot be reached, whatever was
// attempted.
var ErrAway = errors.New("the database cannot be reached")

// All is everything an engine implements.
type All interface {
	Partitions
	Leases
	Snapshots
	Labels
	Publisher
	Candidates
	Blobs
	Documents
	Brakes
	Approvals
	Journal
	Reports
	Groups
	Audit
	Access
	Collector
	Histories
	// Changed returns a channel that is closed at the next commit that may
	// matter to an actor of the partition, or of any if it is empty: a head, pin, hold, approval, rejection, override, stop,
	// acknowledgement, document or definition, by this process or, within a second, by
	// another.
	Changed(partition intent.PartitionID) <-chan struct{}
	// Size is how many bytes it takes where it lies, what waits to be reused
	// included.
	Size(ctx context.Context) (int64, error)
	Close() error
}

// Partition is a registered partition.
type Partition struct {
	ID intent.PartitionID `json:"id"`
	// Definition is the absolute path of its lehr.yaml, or its place in a
	// repository.
	Definition string               `json:"definition"`
	Head       intent.IncarnationID `json:"head"`
	// Covered are the source revisions that head is known to be built from.
	Covered []intent.SourceRevision `json:"covered"`
	// Revision grows with every change of what a decision in the partition
	// may rest on: head, pins, holds, approvals, rejections, overrides, stop. Admission compares it.
	Revision uint64       `json:"revision"`
	Stop     *intent.Stop `json:"stop,omitempty"`
	Created  time.Time    `json:"created"`
	// Replica that acts for it, if its lease runs, and the Epoch of the last
	// lease. Where a lock is the lease no replica is named.
	Replica string `json:"replica,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
}

// Partitions registers partitions.
type Partitions interface {
	// AddPartition registers a partition or moves its definition. The same id
	// and path again changes nothing.
	AddPartition(ctx context.Context, id intent.PartitionID, definition, reason string, by intent.Actor) error
	// RemovePartition forgets the registration. Assets in production, and
	// what was stored, stay as they are.
	RemovePartition(ctx context.Context, id intent.PartitionID, reason string, by intent.Actor) error
	// Partition is NotFound when it is not registered.
	Partition(ctx context.Context, id intent.PartitionID) (Partition, error)
	ListPartitions(ctx context.Context) ([]Partition, error)
	// Hint says that a partition's sources may have changed, to whichever replica
	// acts for it; NotFound when it is not registered.
	Hint(ctx context.Context, id intent.PartitionID) error
	// Hints is how often that was said.
	Hints(ctx context.Context, id intent.PartitionID) (int64, error)
}

// Lease is the fenced right of one replica to act for a partition.
type Lease struct {
	Partition intent.PartitionID
	Holder    string
	// Epoch is never reused and never decreases.
	Epoch uint64
}

// Leases hands out leases. On an engine whose file one process locks, the
// lock is the lease: its taker raises the epoch at once. On others a holder's
// leases run until the end that it last asked for with Renew; one that never
// did has leases that anybody may take.
type Leases interface {
	// Acquire raises the epoch, and marks the partition's open pushes as in
	// doubt. Conflict while another holder's lease runs.
	Acquire(ctx context.Context, partition intent.PartitionID, holder string) (Lease, error)
	// Free lists the registered partitions that the holder could acquire: no
	// other's lease of them runs. In the order of their ids; none where a lock is
	// the lease.
	Free(ctx context.Context, holder string) ([]intent.PartitionID, error)
	// Check is Conflict when the lease is not current.
	Check(ctx context.Context, lease Lease) error
	// Release ends the lease at once; the epoch stays.
	Release(ctx context.Context, lease Lease) error
	// Renew lets all leases of a holder run for the period, by the database's
	// clock. It waits for no other writer. Where a lock is the lease, it does
	// nothing.
	Renew(ctx context.Context, holder string, period time.Duration) error
	// Retire ends all leases of a holder at once.
	Retire(ctx context.Context, holder string) error
	// Replicas lists the holders whose leases run, in the order of their names;
	// none where a lock is the lease.
	Replicas(ctx context.Context) ([]Replica, error)
}

// Replica is a process that serves.
type Replica struct {
	Name string `json:"name"`
	// Left is how long its leases run if it is not heard of again.
	Left time.Duration `json:"left"`
	// Partitions that it acts for.
	Partitions int `json:"partitions"`
}

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
	// Members lists one page, in the order of the ids.
	Members(ctx context.Context, id intent.IncarnationID, filter AssetFilter) ([]intent.Member, error)
	// Changes lists what differs between two incarnations of a partition, one
	// page in the order of the ids, at cost ∝ the difference. A zero from is
	// the empty incarnation.
	Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]Change, error)
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
	SetLabel(ctx context.Context, id intent.IncarnationID, key, value, reason string, by intent.Actor) error
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
	// by the store, see MembershipDigest, and returned with the incarnation.
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
	Acknowledge(ctx context.Context, id intent.CandidateID, reason string, by intent.Actor) error
	// Acknowledged reports whether somebody did, and who, while it may still be
	// used.
	Acknowledged(ctx context.Context, id intent.CandidateID) (by intent.Actor, acknowledged bool, err error)
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

// OriginName begins the names of an incarnation's blobs of the kind OriginBlobs.
func OriginName(sequence intent.Sequence) string { return fmt.Sprintf("%019d", sequence) }

// Brakes are pins, holds and the stop.
type Brakes interface {
	// SetPin returns the pin with its revision, higher than any before (S16).
	// The incarnation must exist and have the asset.
	SetPin(ctx context.Context, pin intent.Pin) (intent.Pin, error)
	// Unpin removes the holder's rank of pin; NotFound when there is none.
	Unpin(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, rank intent.Rank, reason string, by intent.Actor) error
	// Pins lists all that are stored, expired ones too.
	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	SetHold(ctx context.Context, partition intent.PartitionID, hold intent.Hold) error
	Unhold(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, by intent.Actor) error
	Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error)
	// Retry has an asset looked at now, and pushed if it differs, as if nothing of
	// it had failed before.
	Retry(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, by intent.Actor) error
	// Retries lists the assets that Retry was called for since a revision of the
	// partition, as long as that is not an hour ago.
	Retries(ctx context.Context, partition intent.PartitionID, since uint64) ([]intent.AssetID, error)
	// SetStop stops a partition, or all when the stop names none, also those
	// registered later. Stopping again changes nothing.
	SetStop(ctx context.Context, stop intent.Stop) error
	// Resume ends the stop of that very scope; NotFound when there is none.
	Resume(ctx context.Context, partition intent.PartitionID, reason string, by intent.Actor) error
	// Stops lists those in force.
	Stops(ctx context.Context) ([]intent.Stop, error)
}

// Consents are what people said of pushes: expired ones too, but no approval
// that was used.
type Consents struct {
	Approvals  []intent.Approval
	Rejections []intent.Rejection
	Overrides  []intent.Override
}

// Approvals of destructive or marked pushes (S9), rejections and overrides.
// All are bound to a content, and void when an incarnation is published that
// changes or removes the asset.
type Approvals interface {
	// Approve allows one push of one plan, as far as the approver goes.
	// Approving again what was used allows one more.
	Approve(ctx context.Context, approval intent.Approval) error
	// Reject blocks a plan, in the place of the person's earlier rejection.
	Reject(ctx context.Context, rejection intent.Rejection) error
	// Withdraw takes all rejections of an asset's plans by one person back;
	// NotFound when there is none.
	Withdraw(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, of, reason string, by intent.Actor) error
	// Override takes the place of the earlier one of the check. It must end.
	Override(ctx context.Context, override intent.Override) error
	// Consents lists them for a partition, each kind in the order of the
	// assets.
	Consents(ctx context.Context, partition intent.PartitionID) (Consents, error)
	// Authors names, sorted, who changed the asset since it was enforced last,
	// as far as the target has it, and who pinned it there.
	Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error)
}

// Admission is what authorises one push.
type Admission struct {
	Push        intent.PushID
	Asset       intent.AssetID
	Target      intent.IncarnationID
	Effective   intent.Digest
	Plan        intent.Digest
	Base        string
	ResourceKey intent.ResourceKey
	// Revision of the partition that target and verdicts rested on.
	Revision uint64
	// ValidUntil is the earliest end of what they rested on; zero: none.
	ValidUntil time.Time
	// Quiet assets must have no open push: the neighbours that were in sync.
	Quiet []intent.AssetID
	// NeedsApproval: consume all approvals of (asset, effective, plan) that
	// count, or refuse where they do not come to the Quorum. A rejection refuses
	// in any case.
	NeedsApproval bool
	Quorum        intent.Quorum
	// Overrides are the checks that passed by an override, which must be in
	// force still.
	Overrides []string
	// Budgets to take; released when the push is closed.
	Budgets []BudgetUse
	// Rates are the rate limits that the push counts under, until its end and for
	// the period after it: whatever becomes of it, it may have had an effect.
	Rates []RateUse
	// Removes: the push carries out the asset's Turndown. It takes no claim
	// over from another asset.
	Removes bool
	// Checks names the verdicts that passed, for the audit.
	Checks []string
	// Grounds say what they looked at, for whoever asks later; what goes beyond
	// intent.Bounded is cut off.
	Grounds []intent.Ground
	// At is now by the actor's clock.
	At time.Time
}

// BudgetUse takes one of at most Limit under the key, within the partition.
type BudgetUse struct {
	Key   string
	Limit int
}

// RateUse counts a push under the key, within the partition, and asks that
// fewer than Limit that count under it are open or ended within the Period
// before it. Limit 0 only counts.
type RateUse struct {
	Key    string
	Limit  int
	Period time.Duration
}

// EndedPush is when a push ended that counts under a key.
type EndedPush struct {
	Push intent.PushID
	At   time.Time
}

// LongestRate is how long it is known that a push counts: the longest Period.
const LongestRate = 7 * 24 * time.Hour

// Refusal says why an admission was not granted; nil: it was.
type Refusal struct {
	Waiting intent.WaitingOn
}

// OpenPush is an admission in the journal that has no end yet.
type OpenPush struct {
	Push        intent.PushID        `json:"push"`
	Asset       intent.AssetID       `json:"asset"`
	Target      intent.IncarnationID `json:"target"`
	Effective   intent.Digest        `json:"effective"`
	Plan        intent.Digest        `json:"plan"`
	ResourceKey intent.ResourceKey   `json:"resourceKey"`
	Epoch       uint64               `json:"epoch"`
	Admitted    time.Time            `json:"admitted"`
	ResumeToken []byte               `json:"-"`
	// Budgets are the scopes in which it takes a place.
	Budgets []string `json:"budgets,omitempty"`
	// Rates are the keys of rate limits that it counts under.
	Rates []string `json:"rates,omitempty"`
	// Doubt: its end was lost, and it may still be running.
	Doubt bool `json:"doubt"`
}

// EndingInDoubt is the ending that is none: the push stays open and keeps its
// budgets, marked as in doubt, until it is closed as "settled".
const EndingInDoubt = "in-doubt"

// Closing ends a push in the journal.
type Closing struct {
	Push intent.PushID
	// Ending is one of plugin.Ending's values, or "settled" after doubt.
	Ending string
	Reason string
	At     time.Time
}

// PushRecord is a push in the journal, open or ended.
type PushRecord struct {
	OpenPush
	Ending string    `json:"ending,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Ended  time.Time `json:"ended,omitzero"`
	// Grounds it was decided on; none: it is from before they were kept.
	Grounds []intent.Ground `json:"grounds,omitempty"`
}

// Enforced is what an asset was seen in sync with.
type Enforced struct {
	Asset       intent.AssetID       `json:"asset"`
	Type        intent.TypeName      `json:"type"`
	Effective   intent.Digest        `json:"effective"`
	Policy      intent.Digest        `json:"policy"`
	Incarnation intent.IncarnationID `json:"incarnation"`
	ResourceKey intent.ResourceKey   `json:"resourceKey"`
	// Absent: nothing was there, as the asset's Turndown asks. Its claim, if
	// it had one, was given back with this record. An admission that claims a
	// resource ends it.
	Absent bool      `json:"absent,omitempty"`
	At     time.Time `json:"at"`
}

// Journal is admission, its end, and what was enforced.
type Journal interface {
	// Admit decides each admission on its own, all in one transaction: lease
	// epoch, stop, revision equal, time before ValidUntil, no open push of
	// the asset, of its resource key or of a quiet asset, claim free or ours,
	// no rejection, approvals and overrides there, budgets and rates left. Admitted ones are in the journal and the
	// audit when it returns. One refusal (or nil) per admission. An error
	// admits none: Conflict says that the lease is lost.
	Admit(ctx context.Context, lease Lease, admissions []Admission) ([]*Refusal, error)
	// Permit is nil while the push may go on: lease current, no stop, the
	// asset's target still the admitted one. Conflict says why not.
	Permit(ctx context.Context, lease Lease, push intent.PushID, now time.Time) error
	// ClosePushes ends pushes and releases their budgets. An unknown or ended
	// push is left as it is.
	ClosePushes(ctx context.Context, lease Lease, closings []Closing) error
	// SaveResumeToken keeps the resume token of a push under way.
	SaveResumeToken(ctx context.Context, lease Lease, push intent.PushID, token []byte) error
	// OpenPushes lists all without an end.
	OpenPushes(ctx context.Context, partition intent.PartitionID) ([]OpenPush, error)
	// Pushes lists an asset's, newest first; an empty asset: the partition's.
	Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) ([]PushRecord, error)
	// Ended lists when the newest pushes ended that count under each key of a rate
	// limit, at most so many of each, the oldest first.
	Ended(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]EndedPush, error)
	// Push is one of them; NotFound when there is none, or not any more.
	Push(ctx context.Context, partition intent.PartitionID, push intent.PushID) (PushRecord, error)
	// SaveEnforced stores what was seen in sync, and claims the resource keys
	// in the same transaction. It returns the holder of each key that belongs
	// to another asset; those are not stored.
	SaveEnforced(ctx context.Context, lease Lease, enforced []Enforced) (map[intent.AssetID]Claim, error)
	// EnforcedPage lists enforced records in the order of the ids.
	EnforcedPage(ctx context.Context, partition intent.PartitionID, after intent.AssetID, limit int) ([]Enforced, error)
	EnforcedCount(ctx context.Context, partition intent.PartitionID) (int, error)
	// Orphans lists, in the order of the ids, enforced records of assets that
	// are not in head, unless they are Absent.
	Orphans(ctx context.Context, partition intent.PartitionID, after intent.AssetID, limit int) ([]Enforced, error)
	OrphanCount(ctx context.Context, partition intent.PartitionID) (int, error)
	// Arrivals says when each of the assets was first pushed to the incarnation or a
	// later one, or is on record as in sync with such a one. Those that were not are
	// left out.
	Arrivals(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID]Arrival, error)
	// Disown forgets an orphan's record and its claim. NotFound when it is no
	// orphan; Conflict while a push of it is open.
	Disown(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, by intent.Actor) error
}

// Arrival of an incarnation, or of the later one that is named, at an asset.
type Arrival struct {
	At          time.Time
	Incarnation intent.IncarnationID
	// Push that brought it; empty: it was found so.
	Push intent.PushID
}

// Claim says which asset a resource key belongs to. It passes to another asset
// of the partition that claims it when its holder has left head, as after a
// rename, or has a Turndown in head and the other has none; never while a push
// of the holder is open, or a pin keeps the holder followed. The holder's
// enforced record goes with it: until the other is seen in sync that is no
// record of it, but Orphans lists it when the other leaves head unseen.
type Claim struct {
	Key       intent.ResourceKey
	Partition intent.PartitionID
	Asset     intent.AssetID
}

// ReportFilter selects reports. Empty fields select all.
type ReportFilter struct {
	Prefix string
	State  intent.State
	After  intent.AssetID
	Limit  int
	// Group whose members are meant, at cost ∝ those in the state.
	Group intent.Group
}

// PastReport is a report that was kept, without its plan's changes and the fields left
// to production.
type PastReport struct {
	// Number grows by one with each in its partition, in the order of the commits: whoever
	// has read one finds none before it later.
	Number uint64 `json:"number"`
	intent.Report
}

// HistoryFilter selects reports that were kept.
type HistoryFilter struct {
	Asset intent.AssetID
	// Until: those reported at that time or before it; zero: all.
	Until time.Time
	// Before: those with a lower number; 0: all.
	Before uint64
	Limit  int
}

// Reports keeps the last report of each asset, and of those before it what was in the
// way: each report that is not settled (intent.Report.Settled), and each that replaced
// one that was not. Pushes that nothing was in the way of are in the Journal alone.
type Reports interface {
	SaveReports(ctx context.Context, lease Lease, reports []intent.Report) error
	// Report is NotFound before the asset's first pass.
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	ListReports(ctx context.Context, partition intent.PartitionID, filter ReportFilter) ([]intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	// ReportHistory lists an asset's, the newest first.
	ReportHistory(ctx context.Context, partition intent.PartitionID, filter HistoryFilter) ([]PastReport, error)
	// ReportsAfter lists those of a partition after a number, in their order.
	ReportsAfter(ctx context.Context, partition intent.PartitionID, after uint64, limit int) ([]PastReport, error)
	// LastReport is the number given last; 0: none was.
	LastReport(ctx context.Context, partition intent.PartitionID) (uint64, error)
}

// GroupFilter selects groups. Empty fields select all.
type GroupFilter struct {
	// Of the service, or of one instance.
	Of intent.Group
	// After the service, in the order of their names.
	After string
	// Limit of the services, as AssetFilter's.
	Limit int
}

// GroupStates counts the members of a group by the states of their reports.
type GroupStates struct {
	intent.Group
	States map[intent.State]int
}

// Groups reads what the Group addons say of what was reported.
type Groups interface {
	// ListGroups lists the instances of services in the order of their names, and
	// what is of a service but of no instance as one without a name. Members
	// that were not reported yet are not counted, unless none of the group asked
	// for was: then those of head are, as StateUnseen. It reads an index
	// alone: some 50 ms for 100 000 members.
	ListGroups(ctx context.Context, head intent.IncarnationID, filter GroupFilter) ([]GroupStates, error)
}

// Retention says what the collector keeps beside what is live.
type Retention struct {
	// Incarnations newest, and those that were head within Period: guards
	// measure from what was served when a period began (S23).
	Incarnations int
	Period       time.Duration
	// Pushes, candidates and past reports older than this are forgotten, but what an
	// asset still was when it began.
	History time.Duration
	// Reports of an asset that are kept at most; 0: as many as History lets.
	Reports int
}

// Collector removes what nothing needs (S17): not head, nor what a pin, an
// enforced record, an open admission or a held candidate names.
type Collector interface {
	// Collect works in bounded transactions and returns how many rows went.
	Collect(ctx context.Context, lease Lease, keep Retention, now time.Time) (int, error)
}
