package app

import (
	"context"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// Collecting says what the collector keeps beside what is live, and how often
// it runs.
type Collecting struct {
	Every time.Duration
	Keep  store.Retention
}

// DefaultCollecting keeps what a person may still want to look at or pin.
func DefaultCollecting() Collecting {
	const day = 24 * time.Hour
	return Collecting{
		Every: time.Hour,
		Keep:  store.Retention{Incarnations: 100, Period: 30 * day, History: 30 * day, Reports: 200},
	}
}

// collect removes what nothing needs (S17), again and again, at moments that
// differ from partition to partition. A run that fails is no reason to stop.
func (a *App) collect(ctx context.Context, s *state, runtime loop.Runtime, lease store.Lease) error {
	for count := 0; ; count++ {
		pause := loop.Jitter(a.options.Collecting.Every, string(lease.Partition), count)
		if err := runtime.Wait(ctx, pause, nil); err != nil {
			return err
		}
		removed, err := a.store.Collect(ctx, lease, a.options.Collecting.Keep, runtime.Now())
		switch {
		case fault.Is(err, fault.Conflict):
			return err
		case err != nil && ctx.Err() == nil:
			a.log.Warn("collecting failed; the next run goes on", "partition", lease.Partition, "error", err)
		case removed > 0:
			s.measure.Collected.Add(removed)
			a.log.Info("collected", "partition", lease.Partition, "rows", removed)
		}
	}
}
