package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// SetLabel sets or removes one label. Nothing decided rests on labels, so the
// revision stays.
func (s *Store) SetLabel(ctx context.Context, id intent.IncarnationID, key, value, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("labelling %s", id)
	if err := store.CheckLabel(key, value); err != nil {
		return err
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, id.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, id.Partition); err != nil {
			return err
		}
		if err := mustRetain(t, id); err != nil {
			return err
		}
		var previous string
		var person bool
		ok, err := t.one("SELECT value, person FROM label WHERE partition = $1 AND seq = $2 AND name = $3",
			[]any{string(id.Partition), int64(id.Sequence), key}, &previous, &person)
		switch {
		case err != nil:
			return err
		case ok && !person:
			return fault.New(fault.Conflict, "%s: it was published with the label %s=%s, which stays", attempt, key, previous).WithHint("choose another key")
		case !ok && value == "":
			return fault.New(fault.NotFound, "%s: it has no label %q to remove", attempt, key).WithHint("lehr describe incarnation %s shows its labels", id)
		case previous == value:
			return nil
		}
		return changeLabel(t, attempt, id, key, value, ok, reason, actor)
	})
}

func changeLabel(t *transaction, attempt string, id intent.IncarnationID, key, value string, ok bool, reason string, actor intent.Actor) error {
	arguments := []any{string(id.Partition), int64(id.Sequence)}
	if err := t.tell(id.Partition); err != nil {
		return err
	}
	if value == "" {
		t.audit(id.Partition, t.now, actor, "unlabel", id.String(), key).because(reason)
		_, err := t.exec("DELETE FROM label WHERE partition = $1 AND seq = $2 AND name = $3", append(arguments, key)...)
		return err
	}
	if !ok {
		var count int
		if _, err := t.one("SELECT count(*) FROM label WHERE partition = $1 AND seq = $2", arguments, &count); err != nil {
			return err
		}
		if count >= store.MaxLabels {
			return fault.New(fault.Invalid, "%s: it has %d labels, and at most %d are allowed", attempt, count, store.MaxLabels).
				WithHint("remove one first")
		}
	}
	t.audit(id.Partition, t.now, actor, "label", id.String(), key+"="+value).because(reason)
	_, err := t.exec(`INSERT INTO label (partition, seq, name, value, person) VALUES ($1, $2, $3, $4, 1)
		ON CONFLICT (partition, seq, name) DO UPDATE SET value = excluded.value`, append(arguments, key, value)...)
	return err
}

// publishLabels makes those that an incarnation is published with findable.
func publishLabels(t *transaction, incarnation *intent.Incarnation) error {
	for key, value := range incarnation.Labels {
		_, err := t.exec("INSERT INTO label (partition, seq, name, value, person) VALUES ($1, $2, $3, $4, 0)",
			string(incarnation.ID.Partition), int64(incarnation.ID.Sequence), key, value)
		if err != nil {
			return err
		}
	}
	return nil
}

// addLabels adds what people set to incarnations of a partition, which are in
// the order of their sequences, up or down.
func addLabels(q querier, partition intent.PartitionID, list []intent.Incarnation) error {
	if len(list) == 0 {
		return nil
	}
	places := make(map[intent.Sequence]*intent.Incarnation, len(list))
	for i := range list {
		places[list[i].ID.Sequence] = &list[i]
	}
	first, last := list[0].ID.Sequence, list[len(list)-1].ID.Sequence
	return q.queryEach("SELECT seq, name, value FROM label WHERE partition = $1 AND seq >= $2 AND seq <= $3 AND person = 1",
		[]any{string(partition), int64(min(first, last)), int64(max(first, last))}, func(row scanner) error {
			var sequence intent.Sequence
			var key, value string
			err := row.Scan(&sequence, &key, &value)
			if incarnation := places[sequence]; incarnation != nil && err == nil {
				if incarnation.Labels == nil {
					incarnation.Labels = map[string]string{}
				}
				incarnation.Labels[key] = value
			}
			return err
		})
}
