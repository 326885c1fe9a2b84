package monitor

import (
	"testing"
	"time"

	"lehr.dev/intent"
)

// TestWhoWaitsIsTold: each receiver, of what waited for long enough, since it did.
func TestWhoWaitsIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		waits time.Duration
		told  func(r *run)
		found bool
	}{
		"told":                {8 * time.Minute, func(r *run) { r.Notified("chat", "a", r.now.Add(time.Minute)) }, false},
		"never told":          {8 * time.Minute, func(*run) {}, true},
		"told of another":     {8 * time.Minute, func(r *run) { r.Notified("chat", "b", r.now.Add(time.Minute)) }, true},
		"told before":         {8 * time.Minute, func(r *run) { r.Notified("chat", "a", r.now.Add(-time.Hour)) }, true},
		"another one is told": {8 * time.Minute, func(r *run) { r.Notified("mail", "a", r.now.Add(time.Minute)) }, true},
		"not for long":        {6 * time.Minute, func(*run) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			r.options.Receivers = []string{"chat"}
			r.waitsFor("a", intent.WaitingOn{Kind: intent.WaitApproval, Reason: "lehr approve"})
			c.told(r)
			for range int(c.waits / (10 * time.Second)) {
				r.Owed(r.now, noon)
				r.pass(10 * time.Second)
			}
			r.everybodyTold()
			if found := len(r.Violations()) > 0; found != c.found {
				t.Errorf("found %v", r.Violations())
			}
		})
	}
}
