package relational

import (
	"fmt"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestPartsAreBounded: a delta is cut into parts that keep all of it, in its
// order, each of few entries and, but for a single entry, of few rows.
func TestPartsAreBounded(t *testing.T) {
	for _, c := range []struct{ entries, fields, want int }{
		{0, 0, 0}, {1, 0, 1}, {1, 20_000, 1}, {3, 20_000, 3}, {1000, 0, 1}, {2500, 0, 3}, {1000, 6, 2}, {1000, 49, 10},
	} {
		delta := make([]store.Entry, c.entries)
		for i := range delta {
			delta[i].Asset = intent.AssetID(fmt.Sprint(i))
			delta[i].Fields = make([]intent.Field, c.fields)
		}
		count, next := 0, 0
		for part := range parts(delta) {
			count++
			for _, entry := range part {
				if entry.Asset != intent.AssetID(fmt.Sprint(next)) {
					t.Fatalf("%d entries of %d fields: %q comes where %d should", c.entries, c.fields, entry.Asset, next)
				}
				next++
			}
		}
		if count != c.want || next != c.entries {
			t.Errorf("%d entries of %d fields: %d parts with %d entries, want %d parts", c.entries, c.fields, count, next, c.want)
		}
	}
}
