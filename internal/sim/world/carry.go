package world

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/secret"
)

// receive begins a push under the permit that it names. Under one that is too
// old it waits for another before its first effect. A push that it has heard
// of before is ignored: ids are never used again.
func (l *life) receive(s start) {
	w := l.world
	if l.known[s.push.ID] {
		return
	}
	l.known[s.push.ID] = true
	c := &carried{life: l, start: s, since: w.now(), wanted: s.push.Base, ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	if w.now().Sub(s.asked) <= plugin.PermitPeriod {
		c.hold(s.push.Base, s.asked)
	} else {
		c.until = w.now().Add(plugin.PermitPeriod)
	}
	l.carrying = append(l.carrying, c)
	w.carried = slices.DeleteFunc(w.carried, func(other *carried) bool { return !other.life.process.Alive() })
	w.carried = append(w.carried, c)
	l.process.Go("permits", c.keep)
	l.process.Go("push in plugin", c.run)
}

// run carries the push out and says how it ended.
func (c *carried) run() {
	l, w := c.life, c.life.world
	c.stage(0)
	result := c.carryOut()
	c.over = true
	close(c.ended)
	same := func(other *carried) bool { return other == c }
	l.carrying, w.carried = slices.DeleteFunc(l.carrying, same), slices.DeleteFunc(w.carried, same)
	c.stage(stages)
	l.process.Point("reply")
	switch {
	case c.befallen(PushReplyLost):
		return
	case c.befallen(PushReplyLate):
		_ = l.process.Wait(context.Background(), c.start.befalls.within(time.Second, 4*plugin.PermitPeriod), nil)
	}
	l.out.send(func() { l.result(c.start.push.ID, result) })
}

// stages are where something may befall the process: at the start, before the
// first effect, after one, before the reply.
const stages = 3

// stage lets happen to the process what comes at this one, or should have
// come before.
func (c *carried) stage(stage int) {
	t := c.start.process
	if t != nil && (stage == stages || int(t.Seed%(stages+1)) == stage) {
		c.start.process = nil
		c.life.befall(t)
	}
}

func (c *carried) befallen(kind TroubleKind) bool {
	return c.start.befalls != nil && c.start.befalls.Kind == kind
}

// carryOut plans again and, when the plan is the admitted one, brings it
// about.
func (c *carried) carryOut() plugin.PushResult {
	l, w, push := c.life, c.life.world, c.start.push
	p := l.process
	p.Point("push in plugin")
	switch {
	case c.befallen(PushHang):
		c.silent = c.start.befalls.Seed%2 == 1
		_ = p.Wait(context.Background(), c.start.befalls.lasts(20*time.Second, 40*time.Second), w.healed)
		c.silent = false
	case c.befallen(PushSlow):
		_ = p.Wait(context.Background(), c.start.befalls.lasts(time.Second, 2*plugin.PermitPeriod), w.healed)
	}
	// It asks for the content, and reads production.
	_ = p.Wait(context.Background(), w.latency()+w.latency(), nil)
	wanted, err := w.read(context.Background(), push.Incarnation, push.Asset)
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error(), Retryable: true}
	}
	served, serves := l.child.program.serves(wanted.Payload.Type)
	if !serves || l.skewed {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "this plugin does not serve the type " + string(wanted.Payload.Type), Retryable: true}
	}
	c.key = wanted.key
	if wanted.procedure != nil {
		return c.lead(wanted)
	}
	secrets := wanted.sealed.begin(w.now())
	_ = p.Wait(context.Background(), w.latency(), nil)
	state := w.snapshot(wanted.key)
	diff, err := wanted.compare(state, served)
	if err == nil {
		err = wanted.sealed.bind(secrets, diff.value)
	}
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error()}
	}
	p.Point("planned in plugin")
	c.stage(1)
	digest := diff.plan.Digest()
	if result, ok := c.endEarly(); ok {
		return result
	}
	switch {
	case diff.plan.Action == "":
		return plugin.PushResult{Ending: plugin.Pushed, Reason: "already in sync"}
	case digest != push.Plan:
		wanted.sealed.noteStale(push.Asset, push.Plan, diff.value)
		return plugin.PushResult{Ending: plugin.Stale, Reason: "the plan is now " + digest.Short() + ", admitted was " + push.Plan.Short()}
	case state.base() != push.Base:
		if refused := c.cover(state.base()); refused != "" {
			return plugin.PushResult{Ending: plugin.Stopped, Reason: refused}
		}
	}
	return c.bringAbout(wanted, diff, served, state.base(), secrets)
}

// endEarly returns how a push ends that goes wrong before its first effect; ok: it does.
func (c *carried) endEarly() (result plugin.PushResult, ok bool) {
	switch {
	case c.befallen(PushStaleAnswer):
		return plugin.PushResult{Ending: plugin.Stale, Reason: "the plan is another one"}, true
	case c.befallen(PushRefused):
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the provider refused it", Retryable: c.start.befalls.Seed%4 > 0}, true
	case c.befallen(PushBusy):
		return plugin.PushResult{Ending: plugin.Failed, Reason: "too many requests", Retryable: true, RetryAfter: c.start.befalls.comeBack()}, true
	case c.befallen(PushSuccessButNotApplied):
		return plugin.PushResult{Ending: plugin.Pushed}, true
	}
	return result, false
}

// bringAbout takes the plan's steps, each under a permit.
func (c *carried) bringAbout(wanted *wanted, diff *comparison, served plugin.Served, base string, secrets *secret.Push) plugin.PushResult {
	w, p := c.life.world, c.life.process
	c.asLooked = base == c.start.push.Base
	groups := w.steps(diff)
	c.ignores = c.befallen(PushIgnoresPermitEnd)
	if len(groups) > 1 {
		if result, ok := c.beginRun(wanted); !ok {
			return result
		}
	}
	for i, group := range groups {
		if c.ignores {
			healed := w.healed
			_ = p.Wait(context.Background(), c.start.befalls.within(plugin.PermitPeriod/2, 3*plugin.PermitPeriod), healed)
			c.ignores = healed == w.healed
		}
		p.Point("effect")
		if refused := c.permit(); refused != "" {
			return plugin.PushResult{Ending: plugin.Stopped, Reason: refused}
		}
		l := c.landing(wanted, diff, served, base, group, i+1, len(groups))
		if err := l.reveal(secrets); err != nil {
			return plugin.PushResult{Ending: plugin.Stale, Reason: err.Error()}
		}
		err := c.await(served.LongestEffect, c.befallen(PushCutOff), func(posthumous bool) error {
			l.effect.Posthumous = posthumous
			return w.land(l)
		})
		p.Point("effect done")
		switch {
		case err != nil:
			return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error()}
		case l.refused != "" && i == 0:
			return plugin.PushResult{Ending: plugin.Stale, Reason: "the target refused: " + l.refused}
		case l.refused != "":
			return plugin.PushResult{Ending: plugin.Failed, Reason: "the target refused in the middle: " + l.refused, Retryable: true}
		}
		base = l.made
		c.stage(2)
		c.progress(i+1, len(groups))
		if c.befallen(PushPartialThenFail) {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "the provider failed in the middle", Retryable: true}
		}
	}
	if c.befallen(PushAppliedButError) {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the provider's reply made no sense", Retryable: c.start.befalls.Seed%2 == 0}
	}
	return plugin.PushResult{Ending: plugin.Pushed}
}

// steps cuts a plan into the effects that bring it about.
func (w *World) steps(diff *comparison) [][]change {
	const most = 4
	if diff.plan.Action == intent.ActionDelete || len(diff.changes) < 2 {
		return [][]change{diff.changes}
	}
	count := 1 + w.random.IntN(min(most, len(diff.changes)))
	if w.options.Steps > 0 {
		count = min(w.options.Steps, len(diff.changes))
	}
	size := (len(diff.changes) + count - 1) / count
	return slices.Collect(slices.Chunk(diff.changes, size))
}

func (c *carried) progress(step, steps int) {
	l, id := c.life, c.start.push.ID
	if step == steps {
		return
	}
	l.out.send(func() {
		if open := l.find(id); open != nil {
			open.progress = "step " + string(rune('0'+step))
			notify(open.wake)
		}
	})
}

// landing is one effect of the push.
func (c *carried) landing(wanted *wanted, diff *comparison, served plugin.Served, base string, group []change, step, steps int) *landing {
	now := c.life.world.now()
	return &landing{
		replica: c.life.child.replica, class: served.Guarantee, base: base, set: wanted.set, payloadType: wanted.Payload.Type, changes: group, sealed: wanted.sealed,
		effect: Effect{
			Began: now, Key: wanted.key, Class: served.Guarantee, By: ByLehr, Asset: wanted.ID,
			Push: c.start.push.ID, Incarnation: wanted.incarnation, Effective: wanted.effective,
			Plan: diff.plan.Digest(), Token: c.start.push.Token, Replica: c.life.child.replica.Name(),
			Action: diff.plan.Action, Delete: diff.plan.Action == intent.ActionDelete,
			Destructive: diff.plan.Action == intent.ActionDelete || diff.plan.Action == intent.ActionReplace || slices.ContainsFunc(group, func(c change) bool { return c.Destructive }),
			Step:        step, Steps: steps, PermitLeft: c.until.Sub(now), AsLooked: c.asLooked,
		},
	}
}

// await asks the target and waits for its answer. What was asked may land
// while the plugin stands still. Once it is gone, half of it is lost; the other
// half lands all the same, before the longest effect is over, as a request that
// is on its way does. dies: it ends before the target has answered.
func (c *carried) await(longest time.Duration, dies bool, land func(posthumous bool) error) (err error) {
	w, p := c.life.world, c.life.process
	const shortest = 10 * time.Millisecond
	// Below E by what the steps of the scheduler add.
	most := longest * 9 / 10
	lasts := min(shortest, most/2)
	lasts += time.Duration(w.random.Int64N(int64(max(1, most-lasts))))
	lands := time.Duration(w.random.Int64N(int64(lasts) + 1))
	if dies {
		after := time.Duration(w.random.Int64N(int64(lands) + 1))
		p.Go("cut off", func() {
			_ = p.Wait(context.Background(), after, nil)
			p.Scheduler().Kill(p)
		})
	}
	done := make(chan struct{})
	w.process.Go("target", func() {
		_ = w.process.Wait(context.Background(), lands, nil)
		posthumous := !p.Alive()
		if posthumous {
			if w.random.IntN(2) == 0 {
				return
			}
			_ = w.process.Wait(context.Background(), time.Duration(w.random.Int64N(int64(most-lands)+1)), nil)
		}
		err = land(posthumous)
		_ = w.process.Wait(context.Background(), lasts-lands, nil)
		close(done)
	})
	_ = p.Wait(context.Background(), -1, done)
	return err
}
