package query

import (
	"context"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
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

// What one page of comparisons may cost: bytes of content that are read, and
// of values that are shown.
const (
	mostCompared = 8 << 20
	mostShown    = 1 << 20
)

// Compare lists one page of what differs between two incarnations, with the
// fields. A zero from is the empty incarnation. The page may be short; next is
// where to go on, and empty when that was all.
func (r *Reader) Compare(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) (page []Comparison, next intent.AssetID, err error) {
	changes, err := r.store.Changes(ctx, base, target, cursor, limit)
	if err != nil || len(changes) == 0 {
		return nil, "", err
	}
	_, newer, err := r.environment(ctx, target)
	if err != nil {
		return nil, "", err
	}
	older := newer
	if !base.IsZero() {
		if _, older, err = r.environment(ctx, base); err != nil {
			return nil, "", err
		}
	}
	read, shownBytes := 0, 0
	for i, change := range changes {
		compared := Comparison{Change: change}
		if change.Before != nil && change.After != nil && change.Before.Digest != change.After.Digest {
			bytes := 0
			if compared.Fields, bytes, err = r.fields(ctx, change, older, newer); err != nil {
				return nil, "", err
			}
			read += bytes
			for _, field := range compared.Fields {
				shownBytes += len(field.Path) + len(field.Current) + len(field.Target)
			}
		}
		page = append(page, compared)
		more := i+1 < len(changes) || len(changes) == limit
		if more && (i+1 == limit || read > mostCompared || shownBytes > mostShown) {
			return page, change.Asset, nil
		}
	}
	return page, "", nil
}

// fields compares both contents, and says how many bytes they are.
func (r *Reader) fields(ctx context.Context, change store.Change, older, newer *schema.Set) ([]intent.FieldChange, int, error) {
	oldAsset, err := r.Asset(ctx, *change.Before)
	if err != nil {
		return nil, 0, err
	}
	newAsset, err := r.Asset(ctx, *change.After)
	if err != nil {
		return nil, 0, err
	}
	differences, err := Differences(older, oldAsset, newer, newAsset)
	return differences, size(oldAsset) + size(newAsset), err
}

func size(a intent.Asset) int {
	bytes := len(a.Payload.Bytes)
	for _, addon := range a.Addons {
		bytes += len(addon.Bytes)
	}
	return bytes
}
