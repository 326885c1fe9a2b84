package conduct_test

import (
	"testing"
	"time"

	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// TestWhatTheNextPublicationGovernsIsKept: its pin is there before head says that it is
// governed. Taken back, it would let the asset follow the next head at once (S19).
func TestWhatTheNextPublicationGovernsIsKept(t *testing.T) {
	at := func(sequence intent.Sequence) intent.IncarnationID {
		return intent.IncarnationID{Partition: "shop", Sequence: sequence}
	}
	content := intent.Digest{1}
	for _, test := range []struct {
		what     string
		governed intent.Sequence
		head     intent.Digest
		keeps    bool
	}{
		{"what head has, and the next governs", 6, content, true},
		{"what head does not have yet", 6, intent.Digest{}, true},
		{"what head governs no more", 5, content, false},
		{"what head has no more", 5, intent.Digest{}, false},
	} {
		decision := conduct.Decide(conduct.Facts{
			Now: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), Partition: "shop", Name: "web", Head: at(5),
			Course: func(bool) selection.Policy { return selection.Policy{} },
			Assets: []conduct.Asset{{ID: "a", Pin: intent.Pin{Asset: "a", Incarnation: at(4), Governed: test.governed}, Pinned: content, Head: test.head}},
		})
		if keeps := len(decision.Step.Unpin) == 0; keeps != test.keeps {
			t.Errorf("%s: keeps the pin: %v", test.what, keeps)
		}
	}
}
