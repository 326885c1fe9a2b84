package relational

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Permit is nil while the push may go on. Conflict says why not.
func (s *Store) Permit(ctx context.Context, lease store.Lease, push intent.PushID, now time.Time) error {
	attempt := fmt.Sprintf("permitting push %s", push)
	refuse := func(format string, arguments ...any) error {
		return fault.New(fault.Conflict, "%s: %s", attempt, fmt.Sprintf(format, arguments...))
	}
	return s.read(ctx, attempt, func(q querier) error {
		standing, err := s.fence(q, lease)
		if err != nil {
			return err
		}
		if standing.stopped {
			return refuse("%s stopped by %s: %s", scopeName(standing.stop.Partition), standing.stop.Owner.Name, standing.stop.Reason)
		}
		var asset intent.AssetID
		var admitted intent.Sequence
		var effective intent.Digest
		var epoch uint64
		var doubt bool
		ok, err := q.one("SELECT asset, target, effective, epoch, doubt FROM push WHERE id = $1 AND partition = $2 AND open = 1",
			[]any{string(push), string(lease.Partition)}, &asset, &admitted, digestColumn{&effective}, &epoch, &doubt)
		switch {
		case err != nil:
			return err
		case !ok:
			return refuse("it is not open")
		case epoch != lease.Epoch:
			return refuse("it was admitted under epoch %d, now it is %d", epoch, lease.Epoch)
		case doubt:
			return refuse("its end was lost")
		}
		pins, err := scanPins(q, lease.Partition, asset)
		if err != nil {
			return err
		}
		target, _ := intent.Target(intent.IncarnationID{Partition: lease.Partition, Sequence: standing.head}, pins, now)
		if target.Sequence == admitted {
			return nil
		}
		m, err := memberAt(q, target, asset)
		switch {
		case fault.Is(err, fault.NotFound):
			return refuse("%q now follows %s, which does not have it", asset, target)
		case err != nil:
			return err
		case m.Effective != effective:
			return refuse("%q now follows %s, with other content", asset, target)
		}
		return nil
	})
}
