package enforcer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
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

// failedLook takes up a look that failed as a whole.
func (e *Enforcer) failedLook(s *served, err error, now time.Time) {
	_, downErr := s.plugin.Describe()
	e.failedAsk(s, cmp.Or(downErr, err), downErr != nil, now)
}

// failedPush takes up a push whose plugin may have failed with it. One that is
// up and says that it failed works.
func (e *Enforcer) failedPush(s *served, now time.Time) {
	if _, downErr := s.plugin.Describe(); downErr != nil {
		e.failedAsk(s, downErr, true, now)
		s.measureBreaker()
	}
}

// measureBreaker keeps what is measured of the breaker.
func (s *served) measureBreaker() {
	s.measure.Open.Store(s.open())
	s.measure.InARow.Store(int64(s.failures))
}

// failedAsk counts a failure, and opens the breaker: at once where the plugin is
// down. What was asked together fails together, and counts once. That a plugin is still
// starting opens the breaker, and is no failure.
func (e *Enforcer) failedAsk(s *served, err error, isDown bool, now time.Time) {
	if s.until.After(now) {
		return
	}
	if errors.Is(err, plugin.ErrStarting) {
		s.starts++
		s.until = now.Add(e.pluginPause(s.starts))
		s.reason = fmt.Sprintf("%v; asked again at %s", err, s.until.UTC().Format(time.TimeOnly))
		return
	}
	s.starts = 0
	if s.failures == 0 {
		s.since = now
	}
	s.failures++
	if !isDown && s.failures < patience && !s.open() {
		return
	}
	s.until = now.Add(e.pluginPause(s.failures))
	s.reason = fmt.Sprintf("plugin %s fails (%d in a row since %s): %v; tried again at %s, and nothing else is asked of it until it answers",
		s.name, s.failures, s.since.UTC().Format(time.TimeOnly), err, s.until.UTC().Format(time.TimeOnly))
	if !isDown { // That one is down is told by who runs or dials it.
		e.Log.Warn("a plugin is up and fails", "partition", e.Partition, "plugin", s.name, "failures", s.failures, "again", s.until, "error", err)
	}
}

// pluginPause is short at first, since a plugin that was just started, or
// started again, is soon up; asking costs little while it is down.
func (e *Enforcer) pluginPause(failures int) time.Duration {
	pace := loop.Backoff{First: 50 * time.Millisecond, Most: e.Limits.Sweep}
	return pace.After(failures)
}

// try starts the one look that an open breaker lets through, when its pause is
// over. Until then all that is ready is told what it waits for.
func (e *Enforcer) try(ctx context.Context, s *served, now time.Time) {
	if s.until.After(now) {
		for _, waiting := range []*loop.Queue[*asset]{&s.ready, &s.suspects} {
			for a, priority, ready := waiting.Pop(now); ready; a, priority, ready = waiting.Pop(now) {
				e.look(ctx, a, priority, now)
			}
		}
		return
	}
	// First what has not failed yet: a suspect might break the plugin again.
	for s.inFlight == 0 {
		priority, ready := s.ready.Turn(now)
		if !ready {
			e.startSuspects(ctx, s, now)
			return
		}
		e.startBatches(ctx, s, priority, 1, now)
	}
}

// nameOf a plugin, for people: its program or address.
func nameOf(binding *intentpb.PluginBinding) string {
	return cmp.Or(binding.Dial, strings.Join(binding.Run[:min(1, len(binding.Run))], ""))
}
