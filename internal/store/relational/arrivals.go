package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// pushedEnding is that of pushes which were carried out.
const pushedEnding = "pushed"

// Arrivals says when the assets got an incarnation or a later one.
func (s *Store) Arrivals(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID]store.Arrival, error) {
	arrivals := map[intent.AssetID]store.Arrival{}
	err := s.read(ctx, fmt.Sprintf("reading which assets got %s", id), func(q querier) error {
		for _, asset := range assets {
			arrival, arrived, err := arrivalOf(q, id, asset)
			if err != nil {
				return err
			}
			if arrived {
				arrivals[asset] = arrival
			}
		}
		return nil
	})
	return arrivals, err
}

func arrivalOf(q querier, id intent.IncarnationID, asset intent.AssetID) (first store.Arrival, found bool, err error) {
	for _, text := range []string{
		"SELECT target, ended, id FROM push WHERE partition = $1 AND asset = $2 AND target >= $3 AND open = 0 AND ending = '" + pushedEnding + "' ORDER BY number LIMIT 1",
		"SELECT seq, seen, '' FROM enforced WHERE partition = $1 AND asset = $2 AND seq >= $3",
	} {
		a := store.Arrival{Incarnation: intent.IncarnationID{Partition: id.Partition}}
		var at int64
		ok, err := q.one(text, []any{string(id.Partition), string(asset), int64(id.Sequence)}, &a.Incarnation.Sequence, &at, &a.Push)
		if err != nil {
			return first, false, err
		}
		if a.At = unstamp(at); ok && (!found || a.At.Before(first.At)) {
			first, found = a, true
		}
	}
	return first, found, nil
}
