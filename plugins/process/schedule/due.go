package schedule

import (
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/plugins/process/cron"
)

// mostMissed are counted one by one; of more it is said that there are more.
const mostMissed = 1000

// ahead is how far the last time considered may lie in the future before it is
// taken for the mistake of a clock: until then, nothing runs twice.
const ahead = 24 * time.Hour

// due is what is to be done at a moment.
type due struct {
	// start a run for this time; zero: none.
	start time.Time
	// replace: stop what runs first.
	replace bool
	// considered are all times up to this one.
	considered time.Time
	// missed are times that came too long ago, and skipped those at which a run
	// was under way.
	missed, skipped int
	// missedLast is the last of the missed.
	missedLast time.Time
}

// decide says what is due now, of the times after the last one considered. At
// most one run begins: the last.
func decide(times *cron.Times, s *processpb.Schedule, considered, now time.Time, running int) due {
	d := due{considered: considered}
	if considered.After(now.Add(ahead)) {
		d.considered = now
	}
	within := startWithin(s)
	var last, before time.Time
	count := 0
	for at := times.Next(d.considered); !at.IsZero() && !at.After(now); at = times.Next(at) {
		before, last = last, at
		if count++; count == mostMissed && now.Add(-within).After(at) {
			at = now.Add(-within)
		}
	}
	if count == 0 {
		return d
	}
	d.considered = last
	if now.Sub(last) > within {
		d.missed, d.missedLast = count, last
		return d
	}
	d.missed, d.missedLast = count-1, before
	if running > 0 && s.Concurrency != processpb.Concurrency_CONCURRENCY_ALLOW && s.Concurrency != processpb.Concurrency_CONCURRENCY_REPLACE {
		d.skipped = 1
		return d
	}
	d.start, d.replace = last, running > 0 && s.Concurrency == processpb.Concurrency_CONCURRENCY_REPLACE
	return d
}
