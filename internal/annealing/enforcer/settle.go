package enforcer

import (
	"cmp"
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// longestAllowed is the longest effect that a plugin may declare.
const longestAllowed = 10 * time.Minute

// inherit takes up pushes that an earlier holder of the lease left open. Each
// may still be running until its plugin is known to be gone, or until permit
// and lock delay have passed.
func (e *Enforcer) inherit(ctx context.Context) error {
	for _, push := range e.Beside {
		e.pushLimits.rates.countOpen(push.Rates, 1)
	}
	open, err := e.Store.OpenPushes(ctx, e.Partition)
	if err != nil {
		return err
	}
	for _, openPush := range open {
		if err := e.takeUpPush(ctx, openPush); err != nil {
			return err
		}
	}
	return nil
}

// takeUpPush has an open push of an earlier holder settled.
func (e *Enforcer) takeUpPush(ctx context.Context, openPush store.OpenPush) error {
	a := e.assets[openPush.Asset]
	if a == nil {
		member, err := e.Store.Member(ctx, openPush.Target, openPush.Asset)
		if err != nil {
			return err
		}
		a = &asset{id: openPush.Asset, kind: e.view.kindOf(member.Type)}
		e.assets[openPush.Asset] = a
		e.restoreEnforced(a)
	}
	e.trouble(a).push = &push{id: openPush.Push, target: openPush.Target, effective: openPush.Effective, plan: openPush.Plan, admitted: openPush.Admitted, rates: openPush.Rates, doubt: true}
	e.pushLimits.rates.countOpen(openPush.Rates, 1)
	e.pushLimits.health.markPushed(a, openPush.Effective, e.now())
	e.Measure.Pushes.Open(string(openPush.Push), openPush.Admitted, true)
	var pluginGone <-chan struct{}
	if openPush.Epoch < e.Since {
		var err error
		if pluginGone, err = e.read.pluginGone(ctx, a, e.view.head, openPush.Target); err != nil {
			return err
		}
	}
	e.settle(ctx, a, pluginGone)
	return nil
}

// pluginGone returns a channel that closes when no process of the asset's plugin that an
// older process of ours told of a push can be running; nil when only time tells: of a plugin
// that is no child, and where head's policy is newer than the push's target, so that another
// plugin may have been told.
func (r *reader) pluginGone(ctx context.Context, a *asset, head, target intent.IncarnationID) (<-chan struct{}, error) {
	if a.kind.served == nil {
		return nil, nil
	}
	lone, ok := a.kind.served.plugin.(interface{ Alone() <-chan struct{} })
	if !ok {
		return nil, nil
	}
	policy, err := r.store.Member(ctx, head, intent.PolicyAsset)
	if err != nil || policy.Since > target.Sequence {
		return nil, err
	}
	return lone.Alone(), nil
}

// outlive waits until nothing takes effect any more that was begun before now
// and a pause: an effect that cannot be cancelled, or a request on its way,
// outlives what began it by E. While that is not known (0), the plugin's next
// process may tell.
func outlive(ctx context.Context, runtime loop.Runtime, k kind, pause, effect time.Duration) error {
	const step = time.Second
	for waited := time.Duration(0); ; waited += step {
		effect = cmp.Or(effect, k.served.longestEffect(k.name))
		if remaining := pause + cmp.Or(effect, longestAllowed) - waited; effect > 0 || remaining <= step {
			return runtime.Wait(ctx, max(0, remaining), nil)
		}
		if err := runtime.Wait(ctx, step, nil); err != nil {
			return err
		}
	}
}

// settle waits, away from the owner, until a push in doubt can no longer be
// running: its plugin is gone, or else no permit can hold any more, and what it
// began until then is over. Then the journal lets go of it, and the next look
// tells what production is.
func (e *Enforcer) settle(ctx context.Context, a *asset, pluginGone <-chan struct{}) {
	pause := time.Duration(0)
	if pluginGone == nil {
		pause = plugin.PermitPeriod + plugin.LockDelayMargin
	}
	id, effect, kind := a.push.id, a.push.effect, *a.kind
	if pluginGone == nil {
		a.push.settles = e.Runtime.Now().Add(pause + cmp.Or(effect, kind.served.longestEffect(kind.name), longestAllowed))
	}
	e.Runtime.Go("settle", func() {
		if pluginGone != nil && e.Runtime.Wait(ctx, -1, pluginGone) != nil {
			return
		}
		if outlive(ctx, e.Runtime, kind, pause, effect) != nil {
			return
		}
		e.Runtime.Point("settled")
		e.inbox.Put(func() {
			e.closings.Add(closing{a, plugin.PushResult{Ending: settledEnding}, store.Closing{
				Push: id, Ending: string(settledEnding), Reason: "it was cut off; production is looked at again", At: e.Runtime.Now(),
			}})
		})
	})
}
