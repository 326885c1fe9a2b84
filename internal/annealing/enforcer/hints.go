package enforcer

import (
	"context"
	"hash/fnv"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// hintGap is the least time between two looks at an asset for hints.
const hintGap = time.Second

// hinting is how the hints of a plugin stand. A hint makes an asset due, and changes
// nothing else of it: no fact, no failure and no quarantine ends by one.
type hinting struct {
	// watched: a goroutine waits for hints.
	watched bool
	// reliable: a change of production is hinted, so the cadences may replace the sweep.
	reliable bool
	// cadences by type, as the plugin declared them when it became reliable.
	cadences map[intent.TypeName]time.Duration
	// wakes: wakeWatched is to come back.
	wakes bool
	// looks for the last hints about assets.
	looks map[*asset]hintedLook
}

// hintedLook is a look for a hint, due at a time; claimed: it was begun.
type hintedLook struct {
	due     time.Time
	claimed bool
}

// claimLook reports whether the look that begins now is the one for a hint.
func (h *hinting) claimLook(a *asset, now time.Time) bool {
	look, ok := h.looks[a]
	if !ok || look.claimed || look.due.After(now) {
		return false
	}
	look.claimed = true
	h.looks[a] = look
	return true
}

// watchHints has the hints of the plugins in use handed to the owner, from each one's
// first use until ctx ends. A plan looks at all once, and waits for no hints.
func (e *Enforcer) watchHints(ctx context.Context) {
	for _, s := range e.observer.plugins.order {
		source, ok := s.plugin.(plugin.Hinting)
		if !ok || s.hints.watched || e.Plans {
			continue
		}
		s.hints.watched = true
		e.Runtime.Go("hints", func() {
			for {
				source.WatchHints(ctx, e.Partition, func(hints plugin.Hints) {
					e.inbox.Put(func() { e.takeHints(ctx, s, hints) })
				})
				e.inbox.Put(func() { e.takeHints(ctx, s, plugin.Hints{}) })
				if e.Runtime.Wait(ctx, e.Limits.Sweep, nil) != nil {
					return
				}
			}
		})
	}
}

// takeHints makes due what a plugin hints, and has its assets looked at each sweep again
// when its hints are no longer reliable.
func (e *Enforcer) takeHints(ctx context.Context, s *served, hints plugin.Hints) {
	now := e.now()
	lost := s.hints.reliable && !hints.Reliable
	if !s.hints.reliable && hints.Reliable {
		s.hints.cadences = map[intent.TypeName]time.Duration{}
		description, _ := s.plugin.Describe() // Of one that is down by now no cadence counts.
		for _, t := range description.Types {
			s.hints.cadences[t.Type] = t.Cadence
		}
	}
	s.hints.reliable = hints.Reliable
	if lost {
		e.returnToSweep(s, now)
	}
	if s.hints.reliable && !s.hints.wakes {
		e.wakeWatched(ctx, s)
	}
	for _, id := range hints.Assets {
		if a := e.assets[id]; a != nil && a.kind.served == s {
			e.hint(s, a, now)
		}
	}
}

// hint makes an asset due: now, or a gap after the last look for a hint. The answer of a
// look under way may be older than the change, so the next one waits until it is over.
func (e *Enforcer) hint(s *served, a *asset, now time.Time) {
	const most = 4096
	due, last := now, s.hints.looks[a]
	switch next := last.due.Add(hintGap); {
	case !last.claimed && last.due.After(now):
		return // It is due already.
	case next.After(now):
		due = next
	}
	if a.isBusy() {
		due = now.Add(hintGap)
	}
	if len(s.hints.looks) >= most {
		for old, look := range s.hints.looks {
			if !look.due.Add(hintGap).After(now) {
				delete(s.hints.looks, old)
			}
		}
	}
	if s.hints.looks == nil {
		s.hints.looks = map[*asset]hintedLook{}
	}
	s.hints.looks[a] = hintedLook{due: due}
	e.queue.Add(a, due, loop.Hint)
}

// wakeWatched has what a rollout watches looked at, once each sweep while hints are
// reliable: of what was quiet when it began to be watched, the next look may be a cadence
// away. From that look on its pauses are short.
func (e *Enforcer) wakeWatched(ctx context.Context, s *served) {
	s.hints.wakes = s.hints.reliable
	if !s.hints.reliable {
		return
	}
	now := e.now()
	for _, id := range e.Sight.Watched() {
		if a := e.assets[id]; a != nil && a.kind.served == s {
			e.queue.Add(a, now.Add(loop.Jitter(e.Limits.Watched, string(id), 0)), loop.Sweep)
		}
	}
	e.later(ctx, e.Limits.Sweep, func() { e.wakeWatched(ctx, s) })
}

// returnToSweep has each quiet asset of a plugin looked at within one sweep, spread over
// it (L11). What is in trouble has pauses of its own, which were never longer.
func (e *Enforcer) returnToSweep(s *served, now time.Time) {
	for _, a := range e.assets {
		if a.kind.served != s || a.trouble != nil {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(a.id))
		delay := time.Duration(h.Sum64() % uint64(max(e.Limits.Sweep, 1)))
		e.queue.Add(a, now.Add(delay), loop.Sweep)
	}
}

// returnAllToSweep does so where a new policy may ask for more frequent looks than the
// cadences give, as for health that a budget counts.
func (e *Enforcer) returnAllToSweep(now time.Time) {
	for _, s := range e.observer.plugins.order {
		if s.hints.reliable {
			e.returnToSweep(s, now)
		}
	}
}

// longestPause between two looks at an asset: the cadence that its plugin declares, where
// that is longer than the sweep, its hints are reliable, and nothing of the asset needs a
// look by itself: no trouble, no check after a push, no health that a budget counts.
func (e *Enforcer) longestPause(a *asset) time.Duration {
	s := a.kind.served
	if s == nil || !s.hints.reliable || a.trouble != nil || a.aftermath != nil || a.unwell || len(e.pushLimits.health.byAsset[a]) > 0 {
		return e.Limits.Sweep
	}
	return max(e.Limits.Sweep, s.hints.cadences[a.kind.name])
}
