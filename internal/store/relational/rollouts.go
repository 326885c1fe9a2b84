package relational

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Govern pins what has no pin of a rollout yet.
func (s *Store) Govern(ctx context.Context, lease store.Lease, next intent.IncarnationID, governed []store.Governed) error {
	attempt := fmt.Sprintf("putting %d assets of %q under rollouts", len(governed), lease.Partition)
	for part := range slices.Chunk(governed, chunk) {
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			if next.Partition != lease.Partition || next.Sequence != now.head+1 {
				return fault.New(fault.Conflict, "%s from %s on: head is %d", attempt, next, now.head)
			}
			pinned := 0
			for _, g := range part {
				changed, err := govern(t, lease, next, g)
				if err != nil {
					return err
				}
				if changed {
					pinned++
				}
			}
			if pinned == 0 {
				return nil
			}
			return t.bump(lease.Partition)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// govern pins one asset, unless it is. A pin that there is, is kept for the
// incarnation that comes: by head alone the asset may be governed no more.
func govern(t *transaction, lease store.Lease, next intent.IncarnationID, g store.Governed) (bool, error) {
	pin := intent.Pin{
		Asset: g.Asset, Incarnation: intent.IncarnationID{Partition: lease.Partition}, Rank: intent.RankRollout,
		Holder: intent.RolloutHolder(g.Rollout), Reason: "governed from here on", Created: t.now.UTC(), Governed: next.Sequence,
	}
	var governed intent.Sequence
	pinned, err := t.one("SELECT governed FROM pin WHERE partition = $1 AND asset = $2 AND pin_rank = $3",
		[]any{string(lease.Partition), string(g.Asset), int64(intent.RankRollout)}, &governed)
	if err != nil {
		return false, err
	}
	if pinned {
		updated, err := t.exec("UPDATE pin SET governed = $4 WHERE partition = $1 AND asset = $2 AND pin_rank = $3 AND governed <> $4",
			string(lease.Partition), string(g.Asset), int64(intent.RankRollout), int64(next.Sequence))
		return updated > 0, err
	}
	// What it was enforced with is retained while it is on record.
	_, err = t.one("SELECT seq FROM enforced WHERE partition = $1 AND asset = $2 AND absent = 0 AND carried = 0",
		[]any{string(lease.Partition), string(g.Asset)}, &pin.Incarnation.Sequence)
	if err != nil {
		return false, err
	}
	_, err = setPin(t, pin)
	return true, err
}

// publishGoverned pins what an incarnation puts under rollouts: at no moment does
// it follow head by itself. Most of many are pinned already, which one look tells.
func publishGoverned(t *transaction, lease store.Lease, incarnation *intent.Incarnation) error {
	if len(incarnation.Governed) == 0 {
		return nil
	}
	pins := map[intent.AssetID][]intent.Pin{}
	err := t.queryEach("SELECT asset, pin_rank, holder, seq FROM pin WHERE partition = $1 AND pin_rank IN ($2, $3) ORDER BY pin_rank",
		[]any{string(lease.Partition), int64(intent.RankRollout), int64(intent.RankRollback)}, func(row scanner) error {
			pin := intent.Pin{Incarnation: intent.IncarnationID{Partition: lease.Partition}}
			err := row.Scan(&pin.Asset, &pin.Rank, &pin.Holder.Name, &pin.Incarnation.Sequence)
			pins[pin.Asset] = append(pins[pin.Asset], pin)
			return err
		})
	if err != nil {
		return err
	}
	for _, g := range incarnation.Governed {
		holder := intent.RolloutHolder(g.Rollout)
		if existing := pins[g.Asset]; len(existing) == 0 || existing[0].Rank != intent.RankRollout {
			if _, err := govern(t, lease, incarnation.ID, g); err != nil {
				return err
			}
		}
		for _, pin := range pins[g.Asset] {
			if pin.Holder.Name == holder.Name {
				continue
			}
			if err := takeOver(t, pin, holder, incarnation.ID.Sequence); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOver makes a pin another rollout's, and with it what was seen of the asset: else
// what the former one brought would count as what was always there (S19, S20).
func takeOver(t *transaction, pin intent.Pin, holder intent.Actor, sequence intent.Sequence) error {
	previousRollout := pin.Rollout()
	pin.Reason = "governed from here on, as before by " + pin.Holder.Name
	pin.Holder, pin.Governed = holder, sequence
	if _, err := setPin(t, pin); err != nil {
		return err
	}
	partition, asset := string(pin.Incarnation.Partition), string(pin.Asset)
	var record string
	ok, err := t.one("SELECT record FROM observation WHERE partition = $1 AND rollout = $2 AND asset = $3", []any{partition, previousRollout, asset}, &record)
	if err != nil || !ok {
		return err
	}
	if _, err := t.exec("DELETE FROM observation WHERE partition = $1 AND rollout = $2 AND asset = $3", partition, previousRollout, asset); err != nil {
		return err
	}
	return observed(t, pin.Incarnation.Partition, pin.Rollout(), pin.Asset, record)
}

// SaveRollout carries a step out.
func (s *Store) SaveRollout(ctx context.Context, lease store.Lease, step store.RolloutStep) error {
	partition := lease.Partition
	step.Rollout = cmp.Or(step.Rollout, step.Run.Name)
	attempt := fmt.Sprintf("going on with the rollout %q of %q", step.Rollout, partition)
	return s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
		if now.revision != step.Revision {
			return fault.New(fault.Conflict, "%s: head, a pin, a hold, an approval, an order or a stop changed since it was decided: revision %d is now %d", attempt, step.Revision, now.revision)
		}
		if step.Event.Kind != "" {
			t.audit(partition, t.now, step.Event.By, "rollout-"+step.Event.Kind, step.Rollout, step.Event.Text)
		}
		if step.Run.Name != "" {
			if err := saveRun(t, attempt, step.Run); err != nil {
				return err
			}
		}
		if err := movePins(t, partition, step); err != nil {
			return err
		}
		if err := remember(t, partition, step); err != nil {
			return err
		}
		if len(step.Pins)+len(step.Unpin) > 0 {
			return t.bump(partition)
		}
		return t.tell(partition)
	})
}

// saveRun stores a new run, or the newest of its name as it is now.
func saveRun(t *transaction, attempt string, run intent.Rollout) error {
	var newest uint64
	var open int64
	_, err := t.one("SELECT run, open FROM rollout WHERE partition = $1 AND name = $2 ORDER BY run DESC LIMIT 1",
		[]any{string(run.Partition), run.Name}, &newest, &open)
	if err != nil {
		return err
	}
	if run.Run != newest && run.Run != newest+1 {
		return fault.New(fault.Conflict, "%s: the newest run is %d, not %d", attempt, newest, run.Run)
	}
	if run.Run == newest+1 && open == 1 {
		return fault.New(fault.Conflict, "%s: run %d goes on still", attempt, newest)
	}
	record, err := encode(run)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO rollout (partition, name, run, open, target, base, back, ended, record) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (partition, name, run) DO UPDATE SET open = excluded.open, target = excluded.target, base = excluded.base, back = excluded.back,
		ended = excluded.ended, record = excluded.record`,
		string(run.Partition), run.Name, run.Run, flag(run.State.Open()), int64(run.To.Sequence), int64(run.From.Sequence), int64(run.Back.Sequence),
		stamp(run.Ended), record)
	return err
}

// movePins takes pins back and sets others.
func movePins(t *transaction, partition intent.PartitionID, step store.RolloutStep) error {
	for _, unpinned := range step.Unpin {
		removed, err := t.exec("DELETE FROM pin WHERE partition = $1 AND asset = $2 AND pin_rank = $3", string(partition), string(unpinned.Asset), int64(unpinned.Rank))
		if err != nil {
			return err
		}
		if removed > 0 {
			t.audit(partition, t.now, step.Event.By, "unpin", string(unpinned.Asset), "")
		}
	}
	for _, pin := range step.Pins {
		if pin.Incarnation.Partition != partition || pin.Rank >= intent.RankPerson {
			return fault.New(fault.Invalid, "a rollout cannot pin %q to %s with rank %d", pin.Asset, pin.Incarnation, pin.Rank)
		}
		if pin.Incarnation.Sequence > 0 {
			if _, err := memberAt(t, pin.Incarnation, pin.Asset); err != nil {
				return err
			}
		}
		if _, err := setPin(t, pin); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps what was seen and judged.
func remember(t *transaction, partition intent.PartitionID, step store.RolloutStep) error {
	for _, asset := range step.Forget {
		if _, err := t.exec("DELETE FROM observation WHERE partition = $1 AND rollout = $2 AND asset = $3", string(partition), step.Rollout, string(asset)); err != nil {
			return err
		}
	}
	for _, o := range step.Observed {
		record, err := encode(o)
		if err != nil {
			return err
		}
		if err := observed(t, partition, o.Rollout, o.Asset, record); err != nil {
			return err
		}
	}
	for _, j := range step.Forgiven {
		if _, err := t.exec("DELETE FROM judgement WHERE partition = $1 AND asset = $2 AND effective = $3",
			string(partition), string(j.Asset), j.Effective[:]); err != nil {
			return err
		}
	}
	for _, j := range step.Judged {
		record, err := encode(j)
		if err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO judgement (partition, asset, effective, good, judged, record) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (partition, asset, effective) DO UPDATE SET good = excluded.good, judged = excluded.judged, record = excluded.record
			WHERE judgement.good = 1`,
			string(partition), string(j.Asset), j.Effective[:], flag(j.Good), stamp(j.At), record); err != nil {
			return err
		}
	}
	return nil
}

// observed keeps what a rollout saw of an asset.
func observed(t *transaction, partition intent.PartitionID, rollout string, asset intent.AssetID, record string) error {
	_, err := t.exec(`INSERT INTO observation (partition, rollout, asset, record) VALUES ($1, $2, $3, $4)
		ON CONFLICT (partition, rollout, asset) DO UPDATE SET record = excluded.record`, string(partition), rollout, string(asset), record)
	return err
}

// Rollouts lists runs: by name, the newest of each first.
func (s *Store) Rollouts(ctx context.Context, partition intent.PartitionID, filter store.RolloutFilter) (runs []intent.Rollout, err error) {
	text := "SELECT record FROM rollout WHERE partition = $1"
	arguments := []any{string(partition), pageSize(filter.Limit)}
	and := func(condition string, value any) {
		arguments = append(arguments, value)
		text += fmt.Sprintf(" AND "+condition+" $%d", len(arguments))
	}
	if filter.Name != "" {
		and("name =", filter.Name)
	}
	if filter.Run > 0 {
		and("run =", filter.Run)
	}
	if filter.Before > 0 {
		and("run <", filter.Before)
	}
	if filter.Open {
		text += " AND open = 1"
	}
	if filter.Newest {
		text += " AND run = (SELECT MAX(newest.run) FROM rollout newest WHERE newest.partition = rollout.partition AND newest.name = rollout.name)"
	}
	text += " ORDER BY name, run DESC LIMIT $2 + 0"
	err = s.read(ctx, fmt.Sprintf("listing the rollouts of %q", partition), func(q querier) error {
		return q.queryEach(text, arguments, func(row scanner) error {
			var run intent.Rollout
			err := decodeRow(row, "run of a rollout", &run)
			runs = append(runs, run)
			return err
		})
	})
	return runs, err
}

// decodeRow reads the record of a row that has nothing else.
func decodeRow(row scanner, subject string, target any) error {
	var text string
	if err := row.Scan(&text); err != nil {
		return err
	}
	return decode(subject, text, target)
}

// Observations lists what a rollout saw.
func (s *Store) Observations(ctx context.Context, partition intent.PartitionID, rollout string) (observations []intent.Observation, err error) {
	err = s.read(ctx, fmt.Sprintf("listing what the rollout %q of %q saw", rollout, partition), func(q querier) error {
		return q.queryEach("SELECT record FROM observation WHERE partition = $1 AND rollout = $2 ORDER BY asset", []any{string(partition), rollout}, func(row scanner) error {
			var o intent.Observation
			err := decodeRow(row, "observation", &o)
			o.Rollout = rollout // It may have been taken over.
			observations = append(observations, o)
			return err
		})
	})
	return observations, err
}

// Judgements lists what is known of contents.
func (s *Store) Judgements(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (judged []intent.Judgement, err error) {
	scan := func(row scanner) error {
		var j intent.Judgement
		err := decodeRow(row, "judgement", &j)
		judged = append(judged, j)
		return err
	}
	err = s.read(ctx, fmt.Sprintf("listing what is known to be good in %q", partition), func(q querier) error {
		if len(assets) == 0 {
			return q.queryEach("SELECT record FROM judgement WHERE partition = $1 ORDER BY asset, judged", []any{string(partition)}, scan)
		}
		for _, asset := range assets {
			if err := q.queryEach("SELECT record FROM judgement WHERE partition = $1 AND asset = $2 ORDER BY judged", []any{string(partition), string(asset)}, scan); err != nil {
				return err
			}
		}
		return nil
	})
	return judged, err
}

// OrderRollout keeps what a person asks of a rollout. It is numbered by the
// revision of the partition, which no loss of commits takes back.
func (s *Store) OrderRollout(ctx context.Context, order intent.RolloutOrder) (intent.RolloutOrder, error) {
	attempt := fmt.Sprintf("asking the rollout %q of %q to %s", order.Name, order.Partition, order.Kind)
	if !slices.Contains(intent.OrderKinds(), order.Kind) && !order.Kind.IsVote() {
		return order, fault.New(fault.Invalid, "%s: nothing of that kind can be asked", attempt)
	}
	err := s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorizeOrder(&order); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, order.Partition); err != nil {
			return err
		}
		if order.At.IsZero() {
			order.At = t.now.UTC()
		}
		t.audit(order.Partition, t.now, order.By, "rollout-"+string(order.Kind), order.Name, orderDetail(order)).because(order.Reason)
		if err := t.bump(order.Partition); err != nil {
			return err
		}
		if _, err := t.one("SELECT revision FROM partitions WHERE id = $1", []any{string(order.Partition)}, &order.Number); err != nil {
			return err
		}
		record, err := encode(order)
		if err != nil {
			return err
		}
		_, err = t.exec("INSERT INTO rollout_order (partition, number, created, record) VALUES ($1, $2, $3, $4)",
			string(order.Partition), order.Number, stamp(t.now), record)
		return err
	})
	return order, err
}

// authorizeOrder lets operators order, and of votes on a stage those who have one of the order's roles. The order
// has the roles of its person afterwards.
func (t *transaction) authorizeOrder(order *intent.RolloutOrder) (err error) {
	if !order.Kind.IsVote() {
		order.Roles = nil
		return t.authorize(intent.Operator, order.Partition)
	}
	if len(order.Roles) == 0 {
		order.Roles = []intent.Role{intent.Approver}
	}
	order.Roles, err = t.authorizeAny(order.Roles, order.Partition)
	return err
}

// orderDetail is what the audit says of an order besides its reason.
func orderDetail(order intent.RolloutOrder) string {
	if order.Kind.IsVote() {
		return fmt.Sprintf("run %d, stage %s", order.Run, order.Stage)
	}
	return string(order.Value)
}

// RolloutOrders lists those with a higher number.
func (s *Store) RolloutOrders(ctx context.Context, partition intent.PartitionID, cursor uint64) (orders []intent.RolloutOrder, err error) {
	err = s.read(ctx, fmt.Sprintf("listing what was asked of rollouts of %q", partition), func(q querier) error {
		return q.queryEach("SELECT record FROM rollout_order WHERE partition = $1 AND number > $2 ORDER BY number", []any{string(partition), int64(cursor)}, func(row scanner) error {
			var order intent.RolloutOrder
			err := decodeRow(row, "order of a rollout", &order)
			orders = append(orders, order)
			return err
		})
	})
	return orders, err
}

// setPin stores a pin with a revision above all before it (S16), in the place of
// the asset's pin of the same rank.
func setPin(t *transaction, pin intent.Pin) (intent.Pin, error) {
	partition := pin.Incarnation.Partition
	if pin.Created.IsZero() {
		pin.Created = t.now.UTC()
	}
	if _, err := t.one("UPDATE partitions SET pin_revision = pin_revision + 1 WHERE id = $1 RETURNING pin_revision",
		[]any{string(partition)}, &pin.Revision); err != nil {
		return pin, err
	}
	backFlag := 0
	if pin.Back = pin.Back || pin.Rank == intent.RankRollback; pin.Back {
		backFlag = 1
	}
	_, err := t.exec(`INSERT INTO pin (partition, asset, pin_rank, seq, revision, holder, origin, reason, created, ends, governed, back)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (partition, asset, pin_rank) DO UPDATE SET seq = excluded.seq, revision = excluded.revision, holder = excluded.holder,
		origin = excluded.origin, reason = excluded.reason, created = excluded.created, ends = excluded.ends, governed = excluded.governed, back = excluded.back`,
		string(partition), string(pin.Asset), int64(pin.Rank), int64(pin.Incarnation.Sequence), pin.Revision,
		pin.Holder.Name, pin.Holder.Origin, pin.Reason, stamp(pin.Created), stamp(pin.Until), int64(pin.Governed), backFlag)
	if err != nil {
		return pin, err
	}
	t.audit(partition, t.now, pin.Holder, "pin", string(pin.Asset),
		audit.Pinned{Incarnation: pin.Incarnation, Revision: pin.Revision}.String()).because(pin.Reason)
	return pin, nil
}
