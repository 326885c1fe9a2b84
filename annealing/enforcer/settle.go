package enforcer

import (
	"context"
	"time"

	"lehr.dev/plugin"
	"lehr.dev/store"
)

// settledEnding closes a push whose end was lost.
const settledEnding plugin.Ending = "settled"

// inherit takes up pushes that an earlier holder of the lease left open. Each
// may still be running until its plugin is known to be gone, or until permit
// and lock delay have passed.
func (e *Enforcer) inherit(ctx context.Context) error {
	open, err := e.Store.OpenPushes(ctx, e.Partition)
	if err != nil {
		return err
	}
	for _, left := range open {
		a := e.assets[left.Asset]
		if a == nil {
			member, err := e.Store.Member(ctx, left.Target, left.Asset)
			if err != nil {
				return err
			}
			a = &asset{id: left.Asset, kind: e.view.kindOf(member.Type)}
			e.assets[left.Asset] = a
		}
		e.trouble(a).push = &push{id: left.Push, target: left.Target, plan: left.Plan, admitted: left.Admitted, doubt: true}
		if len(left.ResumeToken) > 0 {
			a.resume = resume{left.Plan, left.ResumeToken}
		}
		e.settle(ctx, a, e.goneBefore(a, left.Epoch))
	}
	return nil
}

// goneBefore returns a channel that closes when no process of the asset's
// plugin that was told of a push under the epoch can be running; nil when
// only time tells.
func (e *Enforcer) goneBefore(a *asset, epoch uint64) <-chan struct{} {
	if a.kind.served == nil || epoch >= e.Since {
		return nil
	}
	if lone, ok := a.kind.served.plugin.(interface{ Alone() <-chan struct{} }); ok {
		return lone.Alone()
	}
	return nil
}

// lockDelay is D + E + a margin: after it a push without permits is over.
func (e *Enforcer) lockDelay(k *kind) time.Duration {
	const longestAllowed = 10 * time.Minute
	effect := longestAllowed
	if k.served != nil {
		if description, err := k.served.plugin.Describe(); err == nil {
			for _, served := range description.Types {
				if served.Type == k.name {
					effect = served.LongestEffect
				}
			}
		}
	}
	return plugin.PermitPeriod + effect + plugin.LockDelayMargin
}

// settle waits, away from the owner, until a push in doubt can no longer be
// running: its plugin is gone, or permit and lock delay have passed. Then the
// journal lets go of it, and the next look tells what production is.
func (e *Enforcer) settle(ctx context.Context, a *asset, gone <-chan struct{}) {
	delay := time.Duration(-1)
	if gone == nil {
		delay = e.lockDelay(a.kind)
	}
	id := a.push.id
	e.Runtime.Go("settle", func() {
		if e.Runtime.Wait(ctx, delay, gone) != nil {
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
