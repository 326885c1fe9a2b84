package sim

import (
	"time"

	"lehr.dev/internal/ground/intent"
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
	l.leads()
	if !l.well() {
		l.wellSince = time.Time{}
		l.Monitor.Owed(now, now)
		return
	}
	if l.wellSince.IsZero() {
		l.wellSince = now
	}
	l.Monitor.Owed(now, l.wellSince)
	l.Monitor.Rolling(now, l.wellSince, l.failover, l.sweep())
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
		if ok, _ := l.World.Matches(l.ctx, partition.Head, m.Asset); !ok && m.Asset != intent.PolicyAsset && !l.touchedLately(m.Asset) {
			unlike = append(unlike, m.Asset)
		}
	}
	l.Monitor.Waiting(now, l.sweep()+sayGrace, unlike...)
	l.Monitor.OutputsKept(now, l.wellSince, 2*l.sweep())
}

// touchedLately reports whether somebody changed an asset's resource, or a plugin told of
// it what is not so, so lately that Lehr may not have seen it: between two questions it may
// have been right.
func (l *Lab) touchedLately(asset intent.AssetID) bool {
	grace := l.sweep() + sayGrace
	for _, start := range []time.Time{l.World.LiedOf(asset), l.World.LostHintOf(asset)} {
		if !start.IsZero() && l.Now().Sub(start) < l.unseenFor()+grace {
			return true
		}
	}
	if l.readsAhead() || l.shares() {
		grace += l.cadence() // An answer may be so old.
	}
	report, err := l.reading.Report(l.ctx, l.partition, asset)
	return err == nil && l.Now().Sub(l.touched[report.ResourceKey]) < grace
}

// well reports whether nothing keeps Lehr from saying what it does: one process,
// or several of which one acts, with right clocks and not stopped, and a store that works.
func (l *Lab) well() bool {
	alive := 0
	for _, r := range l.replicas {
		if r.Alive() {
			alive++
			if r.Paused() || r.Client == nil || r.unreachable() || !r.Now().Equal(l.Now()) {
				return false
			}
		}
	}
	s := l.store
	return (alive == 1 || alive > 1 && l.fleet() && l.leading() != nil) && s.left == 0 && !s.full.After(l.Now()) && !s.hung.After(l.Now()) && !s.lagUntil.After(l.Now()) && len(l.armed) == 0 && len(l.rotten) == 0
}
