package enforcer

import "time"

// pace is how long a plugin takes to look.
type pace struct {
	slowest time.Duration
	at      time.Time
}

// observe keeps the slowest of late.
func (p *pace) observe(d time.Duration, now time.Time) {
	const late = 2 * time.Minute
	if d >= p.slowest || now.Sub(p.at) > late {
		p.slowest, p.at = d, now
	}
}

// holdOf is how long what was seen of an asset may be relied on by its
// neighbours: while a plugin that is slow looks at all the neighbours of one
// that waits, what it told first must not expire, or that one waits for ever
// (L1). Pushes end it at any time: only what others do to production meanwhile
// is seen later.
func (e *Enforcer) holdOf(a *asset) time.Duration {
	const longest, rounds = 2 * time.Minute, 2
	if a.kind.served == nil {
		return e.Limits.FactHold
	}
	return max(e.Limits.FactHold, min(rounds*a.kind.served.pace.slowest, longest))
}
