package enforcer

import (
	"errors"
	"fmt"
	"time"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// breaker is how a plugin does as a whole. Once it is open nothing is asked of
// the plugin until a pause is over, and then one look at a time, until one is
// answered. Plugins have breakers of their own: no other is touched (L2).
type breaker struct {
	// failures in a row, and since when.
	failures int
	since    time.Time
	// until the next look is tried; zero: the breaker is closed.
	until  time.Time
	reason string
	// starts counts looks in a row that found the plugin starting.
	starts int
}

// patience is how many looks in a row may fail at a plugin that is up. It is more
// than it takes to halve a batch down to the one asset that breaks it.
const patience = 12

func (b *breaker) open() bool { return !b.until.IsZero() }

// answered closes the breaker.
func (b *breaker) answered() { *b = breaker{} }

// measureBreaker keeps what is measured of the breaker.
func (s *served) measureBreaker() {
	s.measure.Open.Store(s.open())
	s.measure.InARow.Store(int64(s.failures))
}

// failed counts a failure of the plugin, and opens the breaker: at once where the plugin is
// down. What was asked together fails together, and counts once. That a plugin is still
// starting opens the breaker, and is no failure. most is the longest pause. It reports
// whether it opened the breaker of a plugin that is up.
func (s *served) failed(err error, isDown bool, most time.Duration, now time.Time) (openedWhileUp bool) {
	if s.until.After(now) {
		return false
	}
	if errors.Is(err, plugin.ErrStarting) {
		s.starts++
		s.until = now.Add(pluginPause(s.starts, most))
		s.reason = fmt.Sprintf("%v; asked again at %s", err, s.until.UTC().Format(time.TimeOnly))
		return false
	}
	s.starts = 0
	if s.failures == 0 {
		s.since = now
	}
	s.failures++
	if !isDown && s.failures < patience && !s.open() {
		return false
	}
	s.until = now.Add(pluginPause(s.failures, most))
	s.reason = fmt.Sprintf("plugin %s fails (%d in a row since %s): %v; tried again at %s, and nothing else is asked of it until it answers",
		s.name, s.failures, s.since.UTC().Format(time.TimeOnly), err, s.until.UTC().Format(time.TimeOnly))
	return !isDown
}

// pluginPause is short at first, since a plugin that was just started, or
// started again, is soon up; asking costs little while it is down.
func pluginPause(failures int, most time.Duration) time.Duration {
	pace := loop.Backoff{First: 50 * time.Millisecond, Most: most}
	return pace.After(failures)
}
