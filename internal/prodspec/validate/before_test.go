package validate

import (
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
)

// A page of one after a.JustBefore() begins with a, if a is there: no other id
// lies between.
func TestJustBefore(t *testing.T) {
	ids := rapid.StringMatching(`[a-c0-1][a-c0-1._-]{0,3}(/[ab0]{1,2}){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		asset, other := intent.AssetID(ids.Draw(t, "asset")), intent.AssetID(ids.Draw(t, "other"))
		before := asset.JustBefore()
		if before >= asset {
			t.Fatalf("%q is not before %q", before, asset)
		}
		if other < asset && other > before {
			t.Fatalf("%q lies between %q and %q", other, before, asset)
		}
	})
}
