package prodspec_test

import (
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/prodspec"
)

// TestMirrorOfASourceThatIsGone is removed with it, though no other source came.
func TestMirrorOfASourceThatIsGone(t *testing.T) {
	w, origin := inGit(t)
	origin.Commit("Begin")
	w.start()
	w.served(1)
	mirrors := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(w.fetched, "shop", strings.Repeat("?", 32)))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := mirrors(); len(found) != 1 {
		t.Fatalf("the mirrors are %v, want one", found)
	}
	w.write("other.star", `def generate(ctx):
    return [asset("team/a", lehr.intent.v1.Owner(owner = ctx.files["notes.txt"]))]
`)
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  notes: {files: [notes.txt]}
generate:
  web: {starlark: other.star, from: [notes]}
`)
	w.refused(prodspec.Held, 1) // Nothing that was there remains.
	if found := mirrors(); len(found) != 0 {
		t.Errorf("the mirrors are %v, want none", found)
	}
}
