package sim

import (
	"time"

	"lehr.dev/intent"
)

const (
	// attention is how often it is asked whether each asset that waits says
	// why (L4), while Lehr could have said so for wellTime. A reason may be
	// sayGrace older than a sweep: a diff that times out, and a pass.
	attention = 2 * time.Minute
	wellTime  = 2 * time.Minute
	sayGrace  = 2 * time.Minute
)

// attend asks, now and then, whether all that waits says why.
func (l *Lab) attend() {
	now := l.Now()
	if !l.well() {
		l.wellSince = time.Time{}
		return
	}
	if l.wellSince.IsZero() {
		l.wellSince = now
	}
	if now.Sub(l.wellSince) < wellTime || now.Sub(l.attended) < attention {
		return
	}
	l.attended = now
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil {
		return
	}
	var unlike []intent.AssetID
	for _, m := range l.headMembers() {
		if ok, _ := l.World.Matches(l.ctx, partition.Head, m.Asset); !ok && m.Asset != intent.PolicyAsset {
			unlike = append(unlike, m.Asset)
		}
	}
	l.Monitor.Waiting(now, l.sweep()+sayGrace, unlike...)
}

// well reports whether nothing keeps Lehr from saying what it does: one process
// with a right clock that is not stopped, and a store that works.
func (l *Lab) well() bool {
	alive := 0
	for _, r := range l.replicas {
		if r.Alive() {
			alive++
			if r.Paused() || r.Client == nil || !r.Now().Equal(l.Now()) {
				return false
			}
		}
	}
	s := l.store
	return alive == 1 && s.left == 0 && !s.full.After(l.Now()) && !s.lagUntil.After(l.Now()) && len(l.armed) == 0 && len(l.rotten) == 0
}
