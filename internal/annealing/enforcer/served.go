package enforcer

import (
	"errors"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/pluginhost/plugin"
)

// served is a plugin in use, and how it does.
type served struct {
	plugin plugin.Plugin
	// name for people; key tells two bindings apart.
	name, key string
	// atOnce bounds the batches under way by policy; 0: it does not.
	atOnce  int
	measure *measure.Plugin
	// ready are the assets to be looked at next; suspects were in a batch
	// that failed.
	ready, suspects loop.Queue[*asset]
	// inFlight counts batches under way, others those that are not of what is
	// fresh; suspecting: one is of suspects.
	inFlight, otherBatches int
	pace                   pace
	suspecting             bool
	hints                  hinting
	breaker
}

// longestEffect is E of a type, at least 1 ns; 0 while its plugin does not say.
func (s *served) longestEffect(typeName intent.TypeName) time.Duration {
	if s == nil {
		return 0
	}
	description, err := s.plugin.Describe()
	if err != nil {
		return 0
	}
	for _, served := range description.Types {
		if served.Type == typeName {
			return max(served.LongestEffect, 1)
		}
	}
	return 0
}

// cadence is how old answers of the plugin may be that nobody asked for in particular; 0
// while it is down.
func (s *served) cadence() time.Duration {
	description, err := s.plugin.Describe()
	if err != nil {
		return 0
	}
	return description.Cadence()
}

// version of a plugin; empty: it is down, or there is none.
func (s *served) version() string {
	if s == nil {
		return ""
	}
	description, err := s.plugin.Describe()
	if err != nil {
		return ""
	}
	return description.Name + " " + description.Version
}

// guarantee is what the plugin promises of a type; empty: it does not say, or is down.
func (s *served) guarantee(typeName intent.TypeName) plugin.Guarantee {
	description, err := s.plugin.Describe()
	if err == nil {
		for _, served := range description.Types {
			if served.Type == typeName {
				return served.Guarantee
			}
		}
	}
	return ""
}

// turn says of which priority the next batch is. Of several places the last is
// kept for what is fresh: it never waits for sweeps that take long.
func (s *served) turn(places int, now time.Time) (loop.Priority, bool) {
	priority, ready := s.ready.Turn(now)
	if ready && priority != loop.Fresh && places > 1 && s.otherBatches >= places-1 {
		return loop.Fresh, s.ready.Has(loop.Fresh)
	}
	return priority, ready
}

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

// measureBreaker keeps what is measured of the breaker.
func (s *served) measureBreaker() {
	s.measure.Open.Store(s.open())
	s.measure.InARow.Store(int64(s.failures))
	reason := s.reason
	s.measure.Reason.Store(&reason)
}

// pluginPause is short at first, since a plugin that was just started, or
// started again, is soon up; asking costs little while it is down.
func pluginPause(failures int, most time.Duration) time.Duration {
	pace := loop.Backoff{First: 50 * time.Millisecond, Most: most}
	return pace.After(failures)
}
