package enforcer

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// contain does a step of one asset's pass. A panic in it is that asset's own
// trouble: it is kept apart, and the others go on (L2, S12). What was begun with
// the store or a plugin is not contained so: where that fails, the actor is
// started anew, and settles what it finds.
func (e *Enforcer) contain(a *asset, step func()) {
	defer func() {
		if cause := recover(); cause != nil {
			e.quarantine(a, panicked(e.Log, cause, "asset", a.id).Error(), e.Runtime.Now())
		}
	}()
	step()
}

// panicked records a panic, and makes an error of it.
func panicked(log *slog.Logger, cause any, attrs ...any) error {
	log.Error("an actor panicked", append(attrs, "cause", cause, "stack", string(debug.Stack()))...)
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
