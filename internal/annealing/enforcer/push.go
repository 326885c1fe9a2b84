package enforcer

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// startPush hands an admitted push to a pusher.
func (e *Enforcer) startPush(ctx context.Context, g admission, keys []string) {
	a := g.asset
	e.trouble(a).push = &push{id: g.Push, target: g.Target, effective: g.Effective, plan: g.Plan, approved: g.NeedsApproval, admitted: g.At, budgets: keys, rates: keysOf(g.Rates), effect: g.served.longestEffect(a.kind.name)}
	j := e.tracing.begin(g)
	a.push.pushTrace = j
	now := e.now()
	e.afterPushes.forget(a)
	a.unwell = g.asksAfter
	e.pushLimits.health.markPushed(a, g.Effective, now)
	e.Measure.Pushes.Open(string(g.Push), g.At, false)
	guard := e.inquiries.guardPush(g, now)
	a.push.protectionRun, a.stopped = guard, nil
	e.PushLog.Open(g.Push)
	a.tried, a.reportedContent = g.Effective, intent.Digest{}
	e.neighbours.facts.drop(a)
	e.reportOpen(a, g.Target, g.Effective)
	order := plugin.Push{
		ID: g.Push, Incarnation: g.Target, Asset: a.id, Plan: g.Plan, Base: g.Base, Token: e.lease.Epoch, Traceparent: e.tracing.parent(j),
		Permit: func(ctx context.Context, _ string) error {
			now := e.Runtime.Now()
			if err := guard.permit(now); err != nil {
				return err
			}
			return e.Store.Permit(ctx, e.lease, g.Push, now)
		},
		Progress: func(text string) { e.progressed(a, g.Push, text) },
		Log:      func(text string) { e.PushLog.Add(g.Push, text, e.Runtime.Now()) },
		SaveMemo: func(ctx context.Context, memo intent.Memo) error {
			return e.memos.save(ctx, e.lease, a.id, g.Push, memo)
		},
	}
	pusher := g.served.plugin
	e.Runtime.Go("push", func() {
		e.Runtime.Point("push")
		startedAt := e.Runtime.Now()
		result := e.memos.push(ctx, order, func(order plugin.Push) plugin.PushResult {
			return carryOut(ctx, e.Runtime, pusher, order, g.At)
		})
		e.Runtime.Point("pushed")
		e.tracing.addPluginStep(j, g.served, startedAt, result)
		e.inbox.Put(func() { e.pushed(ctx, a, g.served, g.Push, result) })
	})
}

// carryOut has the plugin push, unless the admission is not from just now, as
// after a pause of the process, and does not hold any more (S2, S18). A pause
// after that look is for the plugin's side to notice, by Checked.
func carryOut(ctx context.Context, runtime loop.Runtime, pusher plugin.Plugin, order plugin.Push, admitted time.Time) plugin.PushResult {
	const fresh = 500 * time.Millisecond
	now := runtime.Now()
	order.Checked = now
	// By both clocks: one does not count suspension, the other may be set. If
	// that was set back nobody knows how long ago it was.
	age, wallAge := now.Sub(admitted), now.Round(0).Sub(admitted.Round(0))
	if age > fresh || wallAge > fresh || wallAge < 0 {
		if err := order.Permit(ctx, order.Base); err != nil {
			return plugin.PushResult{Ending: plugin.Stopped, Reason: "not begun: " + err.Error()}
		}
	}
	return pusher.Push(ctx, order)
}

// progressed shows what a long push reports: the last line of its log, which holds no secret, where that is
// told of it.
func (e *Enforcer) progressed(a *asset, id intent.PushID, text string) {
	if line, ok := e.PushLog.Last(id); ok {
		text = line
	}
	e.inbox.Put(func() {
		if a.open() && a.push.id == id {
			a.push.progress = text
			e.reportOpen(a, a.push.target, a.difference.Effective)
		}
	})
}

// staleUses is said of a push that ended stale and had used approvals up.
const staleUses = ". The approval that it used stays used: that nothing happened is its plugin's word, and may be wrong; what is to be pushed now is read and approved anew"

// pushed takes up how a push ended. One in doubt stays open until it can no
// longer be running.
func (e *Enforcer) pushed(ctx context.Context, a *asset, s *served, id intent.PushID, result plugin.PushResult) {
	if result.Ending == plugin.Failed || result.Ending == plugin.InDoubt {
		e.observer.failedPush(s, e.now())
	}
	if result.Ending == plugin.InDoubt {
		a.push.doubt, a.push.lostReason = true, result.Reason
		e.Measure.Pushes.Open(string(id), a.push.admitted, true)
		e.settle(ctx, a, result.Gone)
		e.reportOpen(a, a.push.target, a.difference.Effective)
	}
	result = a.push.protectionRun.adjustResult(result)
	if result.Ending == plugin.Stale && a.push.approved {
		result.Reason = strings.TrimSuffix(result.Reason, ".") + staleUses
	}
	e.closings.Add(closing{a, result, store.Closing{
		Push: id, Ending: string(result.Ending), Reason: result.Reason, At: e.Runtime.Now(),
	}})
}

// startClosings hands a group of ends to the store.
func (e *Enforcer) startClosings(ctx context.Context) {
	group := e.closings.Take()
	if group == nil {
		return
	}
	e.Runtime.Go("close", func() {
		e.Runtime.Point("close")
		closings := make([]store.Closing, len(group))
		for i := range group {
			closings[i] = group[i].Closing
		}
		err := e.Store.ClosePushes(ctx, e.lease, closings)
		e.Runtime.Point("closed")
		e.inbox.Put(func() { e.closed(ctx, group, err) })
	})
}

// closed lets assets go on after their pushes ended for good.
func (e *Enforcer) closed(ctx context.Context, group []closing, err error) {
	if fault.Is(err, fault.Conflict) {
		e.failed = err
		return
	}
	if err != nil {
		e.Log.Error("cannot close pushes in the journal; trying again", "partition", e.Partition, "pushes", len(group), "error", err)
		e.later(ctx, time.Second, func() {
			e.closings.Add(group...)
			e.closings.Done()
		})
		return
	}
	e.closings.Done()
	for _, c := range group {
		inDoubt := c.result.Ending == plugin.InDoubt // Marked so, and open still.
		if !inDoubt && c.asset.open() && c.asset.push.id == c.Push {
			e.pushLimits.release(c.asset, c.asset.push.budgets)
			e.pushLimits.rates.countEnded(c.asset.push, c.At)
			push, now := c.asset.push, e.now()
			if push.protectionRun.fails() && c.result.Ending == settledEnding {
				c.result = plugin.PushResult{Ending: plugin.Failed, Retryable: true}
			}
			_, effective, _, _ := e.view.target(c.asset, now)
			e.inquiries.endGuard(c.asset, push, effective)
			c.asset.push = nil
			e.PushLog.Close(c.Push)
			e.Measure.Pushes.End(string(c.Push), c.Ending, now)
			e.tracing.closePush(c.asset, push, c, now)
			e.Log.Debug("a push ended", append(e.tracing.logAttributes(c.asset, c.Push, push.pushTrace), "ending", c.Ending)...)
			e.finishPush(c.asset, c, push)
		}
	}
	e.dispatchQueued(ctx)
}

// finishPush draws the lesson from a push and looks at production again: a push is
// believed only after the next diff.
func (e *Enforcer) finishPush(a *asset, c closing, push *push) {
	t, now := a.trouble, e.now()
	t.note = fmt.Sprintf("push %s %s", c.Push, c.Ending)
	if c.Reason != "" {
		t.note += ": " + c.Reason
	}
	pushed := t.difference.Plan
	t.difference, a.calm = intent.Difference{}, 0
	_, effective, _, _ := e.view.target(a, now)
	e.retries.learn(a, push.effective, effective, c.result, cmp.Or(push.lostReason, c.Reason), pushed, now)
	if a.effective.IsZero() && len(e.view.pins[a.id]) == 0 {
		e.forget(a)
		return
	}
	e.soon(a, loop.Fresh)
}
