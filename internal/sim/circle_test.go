package sim

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/virtual"
)

// TestWhatTurnsInACircleIsSeen: one admission, refused again and again.
func TestWhatTurnsInACircleIsSeen(t *testing.T) {
	for _, test := range []struct {
		name  string
		of    []intent.AssetID
		pause time.Duration
		found bool
	}{
		{"at once", []intent.AssetID{"a"}, 0, true},
		{"now and then", []intent.AssetID{"a"}, time.Second, false},
		{"many assets", []intent.AssetID{"a", "b", "c", "d", "e"}, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &Lab{Scheduler: virtual.New(1, beginnings[0]), asked: map[intent.AssetID]asks{}}
			for n := range 300 {
				l.refused(test.of[n%len(test.of)])
				l.Run(l.Now().Add(test.pause))
			}
			if found := len(l.found) > 0; found != test.found {
				t.Errorf("found: %+v", l.found)
			}
		})
	}
}
