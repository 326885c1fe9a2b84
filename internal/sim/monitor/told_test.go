package monitor

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
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
			r.options.Receivers, r.options.Awaiting = []string{"chat"}, "awaiting"
			r.publish(policy(func(p *intentpb.Policy) {
				p.Notifications = []*intentpb.Notification{{Name: "awaiting", When: "true", To: []string{"chat"}}}
			}))
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

// TestAReceiverHoldsUpNoOther: one that works is told in time, whatever others do.
func TestAReceiverHoldsUpNoOther(t *testing.T) {
	const tick = 10 * time.Second
	for name, c := range map[string]struct {
		before func(r *run)
		found  bool
	}{
		"it works":             {func(*run) {}, true},
		"it works again":       {func(r *run) { r.Receives("chat", false); r.Receives("chat", true) }, true},
		"it does not":          {func(r *run) { r.Receives("chat", false) }, false},
		"another does not":     {func(r *run) { r.Receives("mail", false) }, true},
		"it was told":          {func(r *run) { r.Notified("chat", "a", r.now) }, false},
		"another was told":     {func(r *run) { r.Notified("mail", "a", r.now) }, true},
		"it is named no more":  {func(r *run) { r.names("mail"); r.Notified("mail", "a", r.now) }, false},
		"nobody is to be told": {func(r *run) { r.publish(policy()) }, false},
		"it was told otherwise": {func(r *run) {
			r.Notified("chat", "a", r.now.Add(-2*lingers))
			r.names("chat", "mail")
			r.Notified("mail", "a", r.now)
		}, true},
		"it was named just then": {func(r *run) { r.names("mail"); r.Owed(r.now, noon); r.names("chat") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			r.options.Receivers, r.options.Awaiting = []string{"chat", "mail"}, "awaiting"
			r.names("chat")
			r.waitsFor("a", intent.WaitingOn{Kind: intent.WaitApproval, Reason: "lehr approve"})
			c.before(r)
			for range owed / tick {
				r.Owed(r.now, noon)
				r.fine()
				r.pass(tick)
			}
			r.Owed(r.now, noon)
			r.fine()
			r.pass(tick)
			if r.Owed(r.now, noon); len(r.Violations()) > 0 != c.found {
				t.Errorf("found %v", r.Violations())
			}
		})
	}
}

// names whom head has told of what waits.
func (r *run) names(receivers ...string) {
	r.Helper()
	r.publish(policy(func(p *intentpb.Policy) {
		p.Notifications = []*intentpb.Notification{{Name: "awaiting", When: "true", To: receivers}}
	}))
}
