package prodspec_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// TestTenTimesAsMany: a generator gone wild is held, with words for whoever meant it,
// and head stays; it is served once somebody lets it through, or dropped when it is
// mended.
func TestTenTimesAsMany(t *testing.T) {
	w := newWorld(t, "web")
	program := func(many string) {
		w.write("web.star", `def generate(ctx):
    return [asset("team/%d" % i, lehr.intent.v1.Owner(owner = "ann")) for i in range(`+many+`)]
`)
	}
	program("120")
	w.start()
	w.served(1)
	program("1200")
	f := w.refused(prodspec.Held, 1)
	if f.Rule != "growth" || f.Severity != intent.Holding || !strings.HasPrefix(f.Message, "the partition grows from 120 assets to 1200 within 24h; 1200 or more are held") ||
		!strings.Contains(f.Hint, "lehr approve --candidate shop@~") {
		t.Errorf("%+v", f)
	}
	held := w.pipeline.Status().Candidate
	program("1199")
	w.served(2)
	program("1201")
	w.wait("another candidate", func(s prodspec.Status) bool { return s.State == prodspec.Held && s.Candidate != held })
	if err := w.store.Acknowledge(t.Context(), w.pipeline.Status().Candidate, "a region more", person); err != nil {
		t.Fatal(err)
	}
	w.served(3)
	if found := len(w.assets()); found != 1202 {
		t.Errorf("%d assets, want 1201 and the policy", found)
	}
}
