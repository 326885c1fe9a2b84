package relational

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// SetPin stores the pin with a revision above all before it (S16). It takes
// the place of the asset's pin of the same rank.
func (s *Store) SetPin(ctx context.Context, pin intent.Pin) (intent.Pin, error) {
	partition := pin.Incarnation.Partition
	attempt := fmt.Sprintf("pinning %q to %s", pin.Asset, pin.Incarnation)
	if pin.Rank < intent.RankRollout || pin.Rank > intent.RankPerson {
		return pin, fault.New(fault.Invalid, "%s: there is no rank %d", attempt, pin.Rank)
	}
	err := s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, partition); err != nil {
			return err
		}
		if _, err := memberAt(t, pin.Incarnation, pin.Asset); err != nil {
			return err
		}
		var err error
		if pin.Back, err = goesBack(t, pin); err != nil {
			return err
		}
		if pin, err = setPin(t, pin); err != nil {
			return err
		}
		return t.bump(partition)
	})
	return pin, err
}

// goesBack reports whether a pin takes its asset back: to an older incarnation than it
// follows, of content that it had. It had what was pushed to it, and, before its first
// push that is known, what it was found with.
func goesBack(t *transaction, pin intent.Pin) (bool, error) {
	if pin.Rank != intent.RankPerson {
		return pin.Rank == intent.RankRollback, nil
	}
	partition := pin.Incarnation.Partition
	sequence, err := headOf(t, partition)
	if err != nil {
		return false, err
	}
	head := intent.IncarnationID{Partition: partition, Sequence: sequence}
	pins, err := scanPins(t, partition, pin.Asset)
	if err != nil {
		return false, err
	}
	for _, existing := range pins { // One that is only prolonged stays what it is.
		if existing.Rank == pin.Rank && existing.Incarnation == pin.Incarnation && !intent.Expired(existing.Until, t.now) {
			return existing.Back, nil
		}
	}
	followed, led := intent.Target(head, pins, t.now)
	if led != nil && led.Waits() {
		followed = head
	}
	if pin.Incarnation.Sequence >= followed.Sequence {
		return false, nil
	}
	member, err := memberAt(t, pin.Incarnation, pin.Asset)
	if err != nil {
		return false, err
	}
	var enforced int64
	ok, err := t.one("SELECT seq FROM enforced WHERE partition = $1 AND asset = $2 AND carried = 0", []any{string(partition), string(pin.Asset)}, &enforced)
	if err != nil || !ok || intent.Sequence(enforced) < member.Since {
		return false, err
	}
	var one int64
	pushed, err := t.one("SELECT 1 FROM push WHERE partition = $1 AND asset = $2 AND effective = $3 LIMIT 1",
		[]any{string(partition), string(pin.Asset), member.Effective[:]}, &one)
	if err != nil || pushed {
		return pushed, err
	}
	hasPush, err := t.one("SELECT 1 FROM push WHERE partition = $1 AND asset = $2 AND target <= $3 LIMIT 1",
		[]any{string(partition), string(pin.Asset), int64(pin.Incarnation.Sequence)}, &one)
	return !hasPush, err
}

// Unpin removes the pin of the rank.
func (s *Store) Unpin(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, rank intent.Rank, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("unpinning %q in %q", asset, partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		removed, err := t.exec("DELETE FROM pin WHERE partition = $1 AND asset = $2 AND pin_rank = $3",
			string(partition), string(asset), int64(rank))
		if err != nil {
			return err
		}
		if removed == 0 {
			return fault.New(fault.NotFound, "%s: it has no such pin", attempt).WithHint("lehr get pins lists them")
		}
		t.audit(partition, t.now, actor, "unpin", string(asset), "").because(reason)
		return t.bump(partition)
	})
}

// Pins lists all, expired ones too, in the order of the assets.
func (s *Store) Pins(ctx context.Context, partition intent.PartitionID) (pins []intent.Pin, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the pins of %q", partition), func(q querier) error {
		pins, err = scanPins(q, partition, "")
		return err
	})
	return pins, err
}

// PinsOf lists the pins of one asset.
func (s *Store) PinsOf(ctx context.Context, partition intent.PartitionID, assets ...intent.AssetID) (pins []intent.Pin, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the pins of %d assets of %q", len(assets), partition), func(q querier) error {
		pins = nil
		return eachSeveral(q, pinsOfSeveral, []any{string(partition)}, assets, func(row scanner) error {
			pin, err := scanPin(row, partition)
			pins = append(pins, pin)
			return err
		})
	})
	slices.SortFunc(pins, func(a, b intent.Pin) int { return cmp.Or(cmp.Compare(a.Asset, b.Asset), cmp.Compare(a.Rank, b.Rank)) })
	return pins, err
}

var pinsOfSeveral = "SELECT " + pinColumns + " FROM pin WHERE partition = $1 AND asset IN " + severalAssets(2)

// scanPins lists the pins of an asset, or of all when it is empty.
func scanPins(q querier, partition intent.PartitionID, asset intent.AssetID) (pins []intent.Pin, err error) {
	text := "SELECT " + pinColumns + " FROM pin WHERE partition = $1"
	arguments := []any{string(partition)}
	if asset != "" {
		text += " AND asset = $2"
		arguments = append(arguments, string(asset))
	}
	text += " ORDER BY asset, pin_rank"
	err = q.queryEach(text, arguments, func(row scanner) error {
		pin, err := scanPin(row, partition)
		pins = append(pins, pin)
		return err
	})
	return pins, err
}

const (
	pinColumns  = "asset, pin_rank, seq, revision, holder, origin, reason, created, ends, governed, back"
	holdColumns = "asset, owner, origin, reason, created, ends"
)

func scanPin(row scanner, partition intent.PartitionID) (intent.Pin, error) {
	pin := intent.Pin{Incarnation: intent.IncarnationID{Partition: partition}}
	var created, ends, backFlag int64
	err := row.Scan(&pin.Asset, &pin.Rank, &pin.Incarnation.Sequence, &pin.Revision,
		&pin.Holder.Name, &pin.Holder.Origin, &pin.Reason, &created, &ends, &pin.Governed, &backFlag)
	pin.Created, pin.Until, pin.Back = unstamp(created), unstamp(ends), backFlag != 0
	return pin, err
}

func scanHold(row scanner) (hold intent.Hold, err error) {
	var created, ends int64
	err = row.Scan(&hold.Asset, &hold.Owner.Name, &hold.Owner.Origin, &hold.Reason, &created, &ends)
	hold.Created, hold.Until = unstamp(created), unstamp(ends)
	return hold, err
}

// SetHold stores a hold, in the place of the asset's earlier one.
func (s *Store) SetHold(ctx context.Context, partition intent.PartitionID, hold intent.Hold) error {
	attempt := fmt.Sprintf("holding %q in %q", hold.Asset, partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, partition); err != nil {
			return err
		}
		if hold.Created.IsZero() {
			hold.Created = t.now
		}
		_, err := t.exec(`INSERT INTO hold (partition, asset, owner, origin, reason, created, ends) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (partition, asset) DO UPDATE SET owner = excluded.owner, origin = excluded.origin,
			reason = excluded.reason, created = excluded.created, ends = excluded.ends`,
			string(partition), string(hold.Asset), hold.Owner.Name, hold.Owner.Origin, hold.Reason, stamp(hold.Created), stamp(hold.Until))
		if err != nil {
			return err
		}
		t.audit(partition, t.now, hold.Owner, "hold", string(hold.Asset), "").because(hold.Reason)
		return t.bump(partition)
	})
}

// Unhold removes the hold.
func (s *Store) Unhold(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("ending the hold of %q in %q", asset, partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		removed, err := t.exec("DELETE FROM hold WHERE partition = $1 AND asset = $2", string(partition), string(asset))
		if err != nil {
			return err
		}
		if removed == 0 {
			return fault.New(fault.NotFound, "%s: it is not held", attempt).WithHint("lehr get holds lists them")
		}
		t.audit(partition, t.now, actor, "unhold", string(asset), "").because(reason)
		return t.bump(partition)
	})
}

// Holds lists all, expired ones too, in the order of the assets.
func (s *Store) Holds(ctx context.Context, partition intent.PartitionID) (holds []intent.Hold, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the holds of %q", partition), func(q querier) error {
		return q.queryEach("SELECT "+holdColumns+" FROM hold WHERE partition = $1 ORDER BY asset",
			[]any{string(partition)}, func(row scanner) error {
				hold, err := scanHold(row)
				holds = append(holds, hold)
				return err
			})
	})
	return holds, err
}

// Retry asks the enforcer, whichever replica it runs in, to try an asset now.
func (s *Store) Retry(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error {
	const keep = time.Hour
	attempt := fmt.Sprintf("trying %q of %q again", asset, partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, partition); err != nil {
			return err
		}
		if _, err := t.exec("DELETE FROM retry WHERE partition = $1 AND created < $2", string(partition), stamp(t.now.Add(-keep))); err != nil {
			return err
		}
		if err := t.bump(partition); err != nil {
			return err
		}
		t.audit(partition, t.now, actor, "retry", string(asset), "").because(reason)
		_, err := t.exec(`INSERT INTO retry (partition, asset, revision, created) SELECT id, $2, revision, $3 FROM partitions WHERE id = $1
			ON CONFLICT (partition, asset) DO UPDATE SET revision = excluded.revision, created = excluded.created`,
			string(partition), string(asset), stamp(t.now))
		return err
	})
}

// Retries lists the assets in order.
func (s *Store) Retries(ctx context.Context, partition intent.PartitionID, revision uint64) (assets []intent.AssetID, err error) {
	err = s.read(ctx, fmt.Sprintf("listing what of %q is to be tried again", partition), func(q querier) error {
		return q.queryEach("SELECT asset FROM retry WHERE partition = $1 AND revision > $2 ORDER BY asset",
			[]any{string(partition), int64(revision)}, func(row scanner) error {
				var asset intent.AssetID
				err := row.Scan(&asset)
				assets = append(assets, asset)
				return err
			})
	})
	return assets, err
}
