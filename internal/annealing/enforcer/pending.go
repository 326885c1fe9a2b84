package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// Of a plugin that declares a cadence an answer may be old. Lehr takes an old one only
// where it looks by itself at an asset that was in sync, or for a hint about one: all that somebody waits for, and
// all that a push rests on, is asked as of now. While an answer is pending, the question
// stays the same: it is asked as of when it was asked first, so that a read which takes
// longer than the pause between two looks answers it.

// sinceOf is the earliest time at which production may have begun to be read for a look at
// an asset; zero: as long ago as its plugin's cadence allows.
func (o *observer) sinceOf(s *served, a *asset, priority loop.Priority, now time.Time) time.Time {
	isQuiet := a.trouble == nil && !o.facts.wanted[a] && !o.sight.Watches(a.id)
	switch {
	case (priority == loop.Sweep || priority == loop.Hint) && isQuiet && !o.plans, s.cadence() == 0:
		return time.Time{}
	case a.trouble != nil && !a.askedSince.IsZero() && !a.askedSince.After(now):
		return a.askedSince
	}
	return now
}

// readTime is when what was found counts as seen. What takes long to read keeps some of the
// time for which it may be relied on; what was old when it was asked for does not.
func (s *neighbourStore) readTime(g *observation, now time.Time) time.Time {
	if g.old {
		return g.difference.At
	}
	return s.seenTime(g.difference.At, now)
}

// notePending keeps the question of a look that found a change pending, and forgets it
// after any other answer.
func (a *asset) notePending(g *observation) {
	if a.trouble == nil {
		return
	}
	a.pending, a.askedSince = g.difference.Outcome == intent.Pending, time.Time{}
	if a.pending {
		a.askedSince = g.since
		if g.since.IsZero() {
			a.askedSince = g.asked
		}
	}
}

// reportPending reports an asset of which a change is under way that no push hastens. It is
// no failure; nothing is known of the asset that a push could rest on (S11).
func (e *Enforcer) reportPending(a *asset, g *observation, now time.Time) {
	t := e.trouble(a)
	t.share, t.broken, t.apart, t.difference, a.seenAt = 0, 0, time.Time{}, intent.Difference{}, 0
	a.notePending(g)
	e.neighbours.facts.drop(a)
	end := now.Add(e.pendingPause(a, g.difference.RetryAfter))
	a.calm = min(a.calm+1, calmest)
	reason := g.difference.Reason
	if g.difference.PendingEnd != "" {
		reason += "; it ends with " + g.difference.PendingEnd
	}
	e.wait(a, g.target, g.effective, intent.WaitingOn{
		Kind: intent.WaitPending, Reason: reason, Quotes: true, Since: g.difference.PendingSince, Until: end,
	})
	e.queue.Add(a, end, loop.Retry)
}

// pendingPause is how long an asset is let be whose change is pending: as its plugin asks,
// within the pace of quiet assets.
func (e *Enforcer) pendingPause(a *asset, asked time.Duration) time.Duration {
	pause := e.pause(a)
	if asked <= 0 {
		return pause
	}
	most := e.Limits.Sweep
	if e.Sight.Watches(a.id) {
		most = min(most, e.Limits.Watched) // Patience is counted by looks.
	}
	return loop.Jitter(max(e.Limits.Retry.First, min(asked, most)), string(a.id), int(a.calm))
}
