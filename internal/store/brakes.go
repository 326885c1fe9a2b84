package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Brakes are pins, holds and the stop.
type Brakes interface {
	// SetPin returns the pin with its revision, higher than any before (S16).
	// The incarnation must exist and have the asset.
	SetPin(ctx context.Context, pin intent.Pin) (intent.Pin, error)
	// Unpin removes the holder's rank of pin; NotFound when there is none.
	Unpin(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, rank intent.Rank, reason string, actor intent.Actor) error
	// Pins lists all that are stored, expired ones too.
	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	// PinsOf lists those of some assets, by asset and rank.
	PinsOf(ctx context.Context, partition intent.PartitionID, assets ...intent.AssetID) ([]intent.Pin, error)
	SetHold(ctx context.Context, partition intent.PartitionID, hold intent.Hold) error
	Unhold(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error
	Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error)
	// Retry has an asset looked at now, and pushed if it differs, as if nothing of
	// it had failed before.
	Retry(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error
	// Retries lists the assets that Retry was called for since a revision of the
	// partition, as long as that is not an hour ago.
	Retries(ctx context.Context, partition intent.PartitionID, since uint64) ([]intent.AssetID, error)
	// SetStop stops a partition, or all when the stop names none, also those
	// registered later. Stopping again changes nothing.
	SetStop(ctx context.Context, stop intent.Stop) error
	// Resume ends the stop of that very scope; NotFound when there is none.
	Resume(ctx context.Context, partition intent.PartitionID, reason string, actor intent.Actor) error
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
	Withdraw(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, of, reason string, actor intent.Actor) error
	// Override takes the place of the earlier one of the check. It must end.
	Override(ctx context.Context, override intent.Override) error
	// Consents lists them for a partition, each kind in the order of the
	// assets.
	Consents(ctx context.Context, partition intent.PartitionID) (Consents, error)
	// Authors names, sorted, who changed the asset since it was enforced last,
	// as far as the target has it, and who pinned it there.
	Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error)
}
