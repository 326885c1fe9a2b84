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
