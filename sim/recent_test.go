package sim

import (
	"testing"
	"time"

	"lehr.dev/intent"
	"lehr.dev/sim/virtual"
	"lehr.dev/store"
)

// TestWhatTurnsInACircleIsSeen: the same admission, refused again and again.
func TestWhatTurnsInACircleIsSeen(t *testing.T) {
	stale := &store.Refusal{Waiting: intent.WaitingOn{Kind: intent.WaitStale, Reason: "over"}}
	elsewhere := &store.Refusal{Waiting: intent.WaitingOn{Kind: intent.WaitTurn}}
	for _, test := range []struct {
		name  string
		turn  func(l *Lab, n int)
		found bool
	}{
		{"at once", func(l *Lab, _ int) { l.turns([]store.Admission{{Asset: "a", Revision: 7}}, []*store.Refusal{stale}) }, true},
		{"as the world moves", func(l *Lab, n int) {
			l.turns([]store.Admission{{Asset: "a", Revision: uint64(n)}}, []*store.Refusal{stale})
		}, false},
		{"now and then", func(l *Lab, _ int) {
			l.turns([]store.Admission{{Asset: "a", Revision: 7}}, []*store.Refusal{stale})
			l.Run(l.Now().Add(time.Second))
		}, false},
		{"with another reason between", func(l *Lab, n int) {
			l.turns([]store.Admission{{Asset: "a", Revision: 7}}, []*store.Refusal{[]*store.Refusal{stale, elsewhere, nil}[n%3]})
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &Lab{Scheduler: virtual.New(1, beginnings[0]), turned: map[intent.AssetID]turn{}}
			for n := range 100 {
				test.turn(l, n)
			}
			if found := len(l.found) > 0; found != test.found {
				t.Errorf("found: %+v", l.found)
			}
		})
	}
}
