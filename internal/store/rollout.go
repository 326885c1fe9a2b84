package store

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// Governed is an asset that a rollout governs by pins.
type Governed = intent.Governed

// RolloutStep is what a rollout does at once: all of it, or nothing.
type RolloutStep struct {
	// Rollout whose step it is; empty: Run's.
	Rollout string
	// Revision of the partition that it rests on: Conflict when that has moved.
	Revision uint64
	// Run as it is from now on: a new one, or the newest of its name; of no name:
	// none changes.
	Run intent.Rollout
	// Pins to set, of the ranks RankRollout and RankRollback; those that have an
	// incarnation must have the asset. Unpin are taken back first.
	Pins  []intent.Pin
	Unpin []PinOf
	// Observed and Judged take the places of those of the same rollout and asset,
	// or asset and content; what was judged bad stays so. Forgiven forgets that.
	Observed []intent.Observation
	Judged   []intent.Judgement
	Forgiven []intent.Judgement
	// Forget the rollout's observations of these assets.
	Forget []intent.AssetID
	// Event for the audit; empty: nothing is recorded but the pins.
	Event intent.RolloutEvent
}

// PinOf names a pin.
type PinOf struct {
	Asset intent.AssetID
	Rank  intent.Rank
}

// RolloutFilter selects runs. Empty fields select all.
type RolloutFilter struct {
	Name string
	// Run of the name.
	Run uint64
	// Open: only those that go on. Newest: only the newest of each name.
	Open, Newest bool
	// Before: of the name, those with a lower number; 0: all.
	Before uint64
	Limit  int
}

// Rollouts keeps what rollouts do and saw. An asset that is governed by pins has
// one of the rank RankRollout from the moment on in which head says so; one of no
// incarnation: nothing was selected for it yet.
type Rollouts interface {
	// Govern pins those that have no pin of a rollout yet: where they were enforced
	// last, else nowhere. Publish of the incarnation comes after it, and does the same
	// for what is left: many are pinned a part at a time.
	Govern(ctx context.Context, lease Lease, base intent.IncarnationID, governed []Governed) error
	// SaveRollout carries a step out.
	SaveRollout(ctx context.Context, lease Lease, step RolloutStep) error
	// Rollouts lists runs: by name, the newest of each first. Limit as AssetFilter's.
	Rollouts(ctx context.Context, partition intent.PartitionID, filter RolloutFilter) ([]intent.Rollout, error)
	// Observations lists what a rollout saw, in the order of the assets.
	Observations(ctx context.Context, partition intent.PartitionID, rollout string) ([]intent.Observation, error)
	// Judgements lists what is known of the contents of assets, in their order; of
	// none: of all.
	Judgements(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) ([]intent.Judgement, error)
	// OrderRollout keeps what a person asks of a rollout, or says of one of its stages, and returns it with its
	// number. From then on no step that rests on what was before is carried out.
	OrderRollout(ctx context.Context, order intent.RolloutOrder) (intent.RolloutOrder, error)
	// SetFields edits a document as a rollout: as Documents.EditDocument does, under
	// the lease; Conflict too when the partition's revision has moved, as of a step.
	SetFields(ctx context.Context, lease Lease, revision uint64, name string, edit document.Edit, actor intent.Actor) (document.Document, error)
	// RolloutOrders lists those with a higher number, in their order.
	RolloutOrders(ctx context.Context, partition intent.PartitionID, cursor uint64) ([]intent.RolloutOrder, error)
}
