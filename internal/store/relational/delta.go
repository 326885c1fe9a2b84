package relational

import (
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// deltaRow is an entry as it is stored; its body lies with the others.
type deltaRow struct {
	Removed    bool               `json:"removed,omitempty"`
	Member     intent.Member      `json:"member"`
	References []intent.Reference `json:"references,omitempty"`
	Fields     []intent.Field     `json:"fields,omitempty"`
	HasBody    bool               `json:"hasBody,omitempty"`
}

// encodeDelta returns the row of each entry, and the digest of them all.
func encodeDelta(delta []store.Entry) (rows []string, digest intent.Digest, err error) {
	sorted := make(map[intent.AssetID]string, len(delta))
	rows = make([]string, len(delta))
	for i, entry := range delta {
		rows[i], err = encode(deltaRow{
			Removed: entry.Removed, Member: entry.Member, References: entry.References, Fields: entry.Fields,
			HasBody: !entry.Removed && entry.Body != nil,
		})
		if err != nil {
			return nil, digest, err
		}
		sorted[entry.Asset] = rows[i]
	}
	return rows, deltaDigest(sorted), nil
}

// deltaDigest covers the rows in the order of their assets.
func deltaDigest(rows map[intent.AssetID]string) intent.Digest {
	parts := make([][]byte, 0, 2*len(rows))
	for _, asset := range slices.Sorted(maps.Keys(rows)) {
		parts = append(parts, []byte(asset), []byte(rows[asset]))
	}
	return intent.Sum("lehr.delta.v1", parts...)
}

// readDelta decodes rows and adds their bodies, in the order of the ids.
func readDelta(q querier, rows map[intent.AssetID]string) ([]store.Entry, error) {
	delta := make([]store.Entry, 0, len(rows))
	for _, asset := range slices.Sorted(maps.Keys(rows)) {
		var row deltaRow
		if err := decode("entry of "+string(asset), rows[asset], &row); err != nil {
			return nil, err
		}
		entry := store.Entry{Asset: asset, Removed: row.Removed, Member: row.Member, References: row.References, Fields: row.Fields}
		if row.HasBody {
			body, ok, err := bodyOf(q, row.Member.Digest)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, fault.New(fault.Internal, "the content of %q with digest %s is missing", asset, row.Member.Digest).
					WithHint("the store is damaged: restore it from a backup")
			}
			entry.Body = body
		}
		delta = append(delta, entry)
	}
	return delta, nil
}
