package store

import (
	"context"

	"lehr.dev/internal/ground/intent"
)

// Memos keeps what plugins asked Lehr to remember of assets. A memo goes with its asset's
// enforced record, with its partition's registration, or, of an asset that left head and
// has no such record, when the collector's history ends.
type Memos interface {
	// SaveMemo sets the memo of the push's asset and one resource key, or with no bytes
	// forgets it. It checks in the same transaction that the lease is current (S4) and
	// that the push is open, was admitted under the lease's epoch and is not in doubt:
	// Conflict where not. Invalid for a memo that intent.Memo.Check refuses. The memo of
	// the asset that was set first gives way to one beyond intent.MaxMemosPerAsset.
	SaveMemo(ctx context.Context, lease Lease, push intent.PushID, memo intent.Memo) error
	// Memos are those of the assets, in the order of their keys. Those that have none are
	// left out.
	Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error)
	// MemoAssets lists the assets that have memos, in the order of their ids.
	MemoAssets(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]intent.AssetID, error)
}
