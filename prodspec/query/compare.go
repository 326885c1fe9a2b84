package query

import (
	"context"

	"lehr.dev/intent"
	"lehr.dev/schema"
	"lehr.dev/store"
)

// MostFields bounds the differences that are named of one asset.
const MostFields = 100

// Comparison is one asset that differs between two incarnations.
type Comparison struct {
	store.Change
	// Fields say how its content differs, at most MostFields of them. None: it
	// is an asset that it reads that differs.
	Fields []intent.FieldChange
}

// Compare lists one page of what differs between two incarnations, with the
// fields. A zero from is the empty incarnation.
func (r *Reader) Compare(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]Comparison, error) {
	changes, err := r.store.Changes(ctx, from, to, after, limit)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	_, newer, err := r.environment(ctx, to)
	if err != nil {
		return nil, err
	}
	older := newer
	if !from.IsZero() {
		if _, older, err = r.environment(ctx, from); err != nil {
			return nil, err
		}
	}
	compared := make([]Comparison, len(changes))
	for i, change := range changes {
		compared[i].Change = change
		if change.Before == nil || change.After == nil || change.Before.Digest == change.After.Digest {
			continue
		}
		if compared[i].Fields, err = r.fields(ctx, change, older, newer); err != nil {
			return nil, err
		}
	}
	return compared, nil
}

func (r *Reader) fields(ctx context.Context, change store.Change, older, newer *schema.Set) ([]intent.FieldChange, error) {
	before, err := r.asset(ctx, *change.Before)
	if err != nil {
		return nil, err
	}
	after, err := r.asset(ctx, *change.After)
	if err != nil {
		return nil, err
	}
	return differences(older, before, newer, after)
}
