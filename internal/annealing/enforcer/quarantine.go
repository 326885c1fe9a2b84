package enforcer

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// tries is how often in a row an asset may break its plugin, or Lehr, before it
// is kept apart.
const tries = 3

// contain does a step of one asset's pass. A panic in it is that asset's own
// trouble: it is kept apart, and the others go on (L2, S12). What was begun with
// the store or a plugin is not contained so: where that fails, the actor is
// started anew, and settles what it finds.
func (e *Enforcer) contain(a *asset, step func()) {
	defer func() {
		if cause := recover(); cause != nil {
			e.quarantine(a, e.panicked(cause, "asset", a.id).Error(), e.Runtime.Now())
		}
	}()
	step()
}

// panicked records a panic, and makes an error of it.
func (e *Enforcer) panicked(cause any, attrs ...any) error {
	e.Log.Error("an actor panicked", append(attrs, "cause", cause, "stack", string(debug.Stack()))...)
	return fault.New(fault.Internal, "lehr panicked over it: %v", cause)
}

// quarantine keeps an asset from being looked at with others, or soon: it breaks
// what looks at it. It is tried again, alone, in the slowest pace; new content,
// another plugin and a person's retry release it at once.
func (e *Enforcer) quarantine(a *asset, reason string, now time.Time) {
	t := e.trouble(a)
	t.failures++
	t.share = 1
	t.apart = now.Add(loop.Jitter(e.Limits.Retry.Most, string(a.id), t.failures))
	a.seenAt = 0
	e.neighbours.facts.drop(a)
	target, effective, _, _ := e.view.target(a, now)
	e.wait(a, target, effective, intent.WaitingOn{
		Kind: intent.WaitQuarantined, Until: t.apart,
		Reason: fmt.Sprintf("%s; it is kept apart from the others, and tried again at %s", reason, t.apart.UTC().Format(time.TimeOnly)),
	})
	e.queue.Add(a, t.apart, loop.Retry)
}

// diff asks the plugin about a batch. A panic is a failed batch, so that the
// asset at which it comes is found and kept apart.
func (e *Enforcer) diff(ctx context.Context, s *served, target intent.IncarnationID, ids []intent.AssetID) (differences []intent.Difference, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = e.panicked(cause, "plugin", s.name, "assets", len(ids))
		}
	}()
	return s.plugin.Diff(ctx, plugin.DiffRequest{Incarnation: target, Assets: ids})
}

// readSafely reads the content of what was looked at.
func (e *Enforcer) readSafely(ctx context.Context, g *observation) {
	defer func() {
		if cause := recover(); cause != nil {
			g.panicked = e.panicked(cause, "asset", g.asset.id)
		}
	}()
	e.readContent(ctx, g)
}
