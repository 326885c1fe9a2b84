package prodspec_test

import (
	"fmt"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/test/detector"
)

// TestGoodAndBadAlternate: two good states and a bad one in turn: the bad one is
// never served, and each good one is.
func TestGoodAndBadAlternate(t *testing.T) {
	w := newWorld(t, "many")
	w.write("manifests/a.yaml", "replicas: 1")
	w.write("manifests/b.yaml", "replicas: 1")
	w.start()
	w.served(1)
	for round := range detector.Scale(5, 2) {
		head := intent.Sequence(2*round + 1)
		w.write("manifests/a.yaml", "replicas: many")
		w.wait("the bad one", func(s prodspec.Status) bool { return s.State == prodspec.Rejected && s.Head.Sequence == head })
		for good := range 2 {
			w.write("manifests/a.yaml", fmt.Sprintf("replicas: %d", 2*round+good+2))
			w.served(head + intent.Sequence(good) + 1)
		}
	}
	stored, err := w.store.ListCandidates(t.Context(), "shop", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range stored {
		if c.State != intent.CandidateSuperseded {
			t.Errorf("candidate %s is %s", c.ID, c.State)
		}
	}
}
