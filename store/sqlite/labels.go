package sqlite

import (
	"context"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

func (s *Store) FindIncarnation(context.Context, intent.PartitionID, store.Lookup) (intent.Incarnation, error) {
	return intent.Incarnation{}, fault.New(fault.Unavailable, "lookups are not built yet")
}

func (s *Store) SetLabel(context.Context, intent.IncarnationID, string, string, intent.Actor) error {
	return fault.New(fault.Unavailable, "labels are not built yet")
}
