package sqlite

import (
	"context"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

func (s *Store) Orphans(context.Context, intent.PartitionID, intent.AssetID, int) ([]store.Enforced, error) {
	return nil, fault.New(fault.Unavailable, "orphans are not built yet")
}

func (s *Store) OrphanCount(context.Context, intent.PartitionID) (int, error) { return 0, nil }

func (s *Store) Disown(context.Context, intent.PartitionID, intent.AssetID, string, intent.Actor) error {
	return fault.New(fault.Unavailable, "orphans are not built yet")
}
