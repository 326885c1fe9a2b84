package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Admission is what authorises one push.
type Admission struct {
	Push      intent.PushID
	Asset     intent.AssetID
	Target    intent.IncarnationID
	Effective intent.Digest
	Plan      intent.Digest
	// PlanDetail is what Plan is the digest of. Its record is kept with the push
	// (intent.PlanRecord), within bounds and without secrets; empty: nothing is kept.
	PlanDetail  intent.Plan
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
	// Rule of generations or previews that is the approval, in place of people's: the policy of
	// head must have it still, and the plan must remove the asset's own thing and nothing else; a
	// preview's own thing is what Lehr created for the asset. Nil: no rule is.
	Rule *intent.RuleApproval
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

// EndingSettled closes a push that was in doubt.
const EndingSettled = "settled"

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
	// PlanRecord is what was kept of its plan; nil: it is from before plans were kept.
	PlanRecord *intent.PlanRecord `json:"planRecord,omitempty"`
	// AdmittedBy is the holder of the lease that admitted it; empty: it is from before
	// that was kept.
	AdmittedBy string `json:"admittedBy,omitempty"`
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
	// no rejection, approvals (or the rule in their place) and overrides there, budgets and rates left. Admitted ones are in the journal and the
	// audit when it returns. One refusal (or nil) per admission. An error
	// admits none: Conflict says that the lease is lost.
	Admit(ctx context.Context, lease Lease, admissions []Admission) ([]*Refusal, error)
	// HasMade reports whether an asset has the claim of a resource that it was admitted to create:
	// what was there before the asset came is not made by it, also where it has the claim.
	HasMade(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (bool, error)
	// Permit is nil while the push may go on: lease current, no stop, the
	// asset's target still the admitted one. Conflict says why not.
	Permit(ctx context.Context, lease Lease, push intent.PushID, now time.Time) error
	// ClosePushes ends pushes and releases their budgets. An unknown or ended
	// push is left as it is.
	ClosePushes(ctx context.Context, lease Lease, closings []Closing) error
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
	EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]Enforced, error)
	EnforcedCount(ctx context.Context, partition intent.PartitionID) (int, error)
	// Orphans lists, in the order of the ids, enforced records of assets that
	// are not in head, unless they are Absent.
	Orphans(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]Enforced, error)
	OrphanCount(ctx context.Context, partition intent.PartitionID) (int, error)
	// Arrivals says when each of the assets was first pushed to the incarnation or a
	// later one, or is on record as in sync with such a one. Those that were not are
	// left out.
	Arrivals(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID]Arrival, error)
	// Disown forgets an orphan's record and its claim. NotFound when it is no
	// orphan; Conflict while a push of it is open.
	Disown(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error
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
// rename, or was seen in sync as another resource since, or has a Turndown in
// head and the other has none; never while a push of the holder is open, or a pin
// keeps the holder followed. A record of the holder with this resource goes with it: until the other is seen in sync that is no
// record of it, but Orphans lists it when the other leaves head unseen.
type Claim struct {
	Key       intent.ResourceKey
	Partition intent.PartitionID
	Asset     intent.AssetID
}
