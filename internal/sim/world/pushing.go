package world

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// freshRequest is how old a permit request may be when a push starts.
	freshRequest = 2 * time.Second
	// recentGrant is how soon a second permit for the same base is not worth
	// another look.
	recentGrant = plugin.PermitPeriod / 16
)

// openPush is one call of Push: the caller's side.
type openPush struct {
	ctx      context.Context
	push     plugin.Push
	result   *plugin.PushResult
	progress string
	wake     chan struct{}

	judging, refused bool
	// granted is when the last permit was given, base what it covers.
	granted time.Time
	base    string
}

// start is the message that begins a push.
type start struct {
	push plugin.Push
	// asked is when the plugin sent the request that the first permit answers.
	asked time.Time
	// befalls, and of its process.
	befalls, process *armed
}

// Push asks the process to carry out an admitted push.
func (c *child) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	l := c.life
	if l == nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: c.down.Error(), Retryable: true}
	}
	notStarted := func(err error) plugin.PushResult {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the push was not started: " + err.Error(), Retryable: true}
	}
	requestTime, waited, err := l.request(ctx)
	if err != nil {
		return notStarted(err)
	}
	if waited {
		if err := push.Permit(ctx, push.Base); err != nil {
			return plugin.PushResult{Ending: plugin.Stopped, Reason: err.Error()}
		}
	}
	open := &openPush{ctx: ctx, push: push, granted: c.world.now(), base: push.Base, wake: make(chan struct{}, 1)}
	push.Memos = c.handed(ctx, push.Asset, push.Memos, push.ID)
	c.replica.Point("push start")
	switch {
	case l.over != nil:
		return notStarted(l.over)
	case l.find(push.ID) != nil:
		return notStarted(fault.New(fault.Internal, "push %s is open already", push.ID))
	}
	l.pushes = append(l.pushes, open)
	defer func() { l.pushes = slices.DeleteFunc(l.pushes, func(other *openPush) bool { return other == open }) }()
	l.sendStart(start{push: push, asked: requestTime})
	return l.awaitPush(ctx, open)
}

// request returns when the newest permit request that has arrived was sent.
// The plugin sends one each second; the one of a plugin that stands still is
// waited for.
func (l *life) request(ctx context.Context) (requestTime time.Time, waited bool, err error) {
	w := l.world
	if !l.process.Paused() {
		requestTime = w.now().Add(-w.latency() - time.Duration(w.random.Int64N(int64(permitInterval))))
		if requestTime.Before(l.began) {
			requestTime = l.began
		}
		return requestTime, false, nil
	}
	deadline, came := w.now().Add(plugin.PermitPeriod), make(chan struct{}, 1)
	l.in.send(func() {
		at := w.now()
		l.out.send(func() {
			requestTime = at
			notify(came)
		})
	})
	for requestTime.IsZero() || w.now().Sub(requestTime) > freshRequest {
		remaining := deadline.Sub(w.now())
		if remaining <= 0 {
			err = fault.New(fault.Unavailable, "plugin %s asked for no permit for %s; it was ended", l.child.program.name, plugin.PermitPeriod)
			l.kill(err)
			return requestTime, true, err
		}
		if l.over != nil {
			return requestTime, true, l.over
		}
		if err := l.child.replica.Wait(ctx, remaining, came); err != nil {
			return requestTime, true, err
		}
	}
	return requestTime, true, nil
}

// sendStart tells the plugin, as far as troubles let it.
func (l *life) sendStart(s start) {
	w := l.world
	class := plugin.Unguarded
	if wanted, err := w.look(context.Background(), s.push.Incarnation, s.push.Asset); err == nil {
		if served, serves := l.child.program.serves(wanted.Payload.Type); serves {
			class = served.Guarantee
		}
	}
	s.befalls, s.process = w.hitPush(s.push.Asset, class), w.hit(s.push.Asset, TroubleKind.ofProcess)
	receive := func() { l.receive(s) }
	if s.befalls != nil {
		switch s.befalls.Kind {
		case PushStartLost:
			return
		case PushStartLate:
			l.in.late(s.befalls.within(100*time.Millisecond, 3*plugin.PermitPeriod), receive)
			return
		case PushStartTwice:
			l.in.send(receive)
		}
	}
	l.in.send(receive)
}

func (l *life) find(id intent.PushID) *openPush {
	for _, open := range l.pushes {
		if open.push.ID == id {
			return open
		}
	}
	return nil
}

// awaitPush returns when the push has ended, or when nothing more can be
// known.
func (l *life) awaitPush(ctx context.Context, open *openPush) plugin.PushResult {
	inDoubt := func(why error) plugin.PushResult {
		return plugin.PushResult{Ending: plugin.InDoubt, Reason: why.Error(), Gone: l.process.Ended()}
	}
	for {
		if open.progress != "" && open.push.Progress != nil {
			text := open.progress
			open.progress = ""
			open.push.Progress(text)
		}
		remaining := l.settle - l.world.now().Sub(open.granted)
		switch {
		case open.result != nil:
			return *open.result
		case l.over != nil:
			return inDoubt(l.over)
		case remaining <= 0:
			err := fault.New(fault.Unavailable, "plugin %s neither ended the push of %s nor had a permit for %s; it was ended", l.child.program.name, open.push.Asset, l.settle)
			l.kill(err)
			return inDoubt(err)
		}
		if err := l.child.replica.Wait(ctx, remaining, open.wake); err != nil && open.result == nil {
			open.refused = true
			l.in.send(func() { l.granted(open.push.ID, grant{reason: "lehr ended the push"}) })
			return inDoubt(err)
		}
	}
}

// ask is a plugin's question for a permit.
type ask struct {
	push intent.PushID
	base string
	at   time.Time
}

// grant is the answer.
type grant struct {
	ok     bool
	base   string
	reason string
	// asked is when the question was sent.
	asked time.Time
}

// judge has a permit looked at: one at a time, and not again at once.
func (l *life) judge(q ask) {
	w := l.world
	open := l.find(q.push)
	if open == nil || open.judging || open.refused || q.base == open.base && w.now().Sub(open.granted) < recentGrant {
		return
	}
	open.judging = true
	l.child.replica.Go("permit", func() {
		err := open.push.Permit(open.ctx, q.base)
		open.judging = false
		if open.refused {
			return
		}
		answer := grant{ok: err == nil, base: q.base, asked: q.at}
		if err != nil {
			open.refused, answer.reason = true, err.Error()
		} else {
			open.granted, open.base = w.now(), q.base
		}
		l.sendGrant(open.push, answer)
	})
}

// sendGrant tells the plugin, as far as troubles let it.
func (l *life) sendGrant(push plugin.Push, answer grant) {
	receive := func() { l.granted(push.ID, answer) }
	befalls := l.world.hit(push.Asset, func(kind TroubleKind) bool { return kind == PermitLost || kind == PermitLate })
	switch {
	case befalls == nil:
		l.in.send(receive)
	case befalls.Kind == PermitLate:
		l.in.late(befalls.within(time.Second, 2*plugin.PermitPeriod), receive)
	}
}

// result takes what the plugin says of a push.
func (l *life) result(id intent.PushID, result plugin.PushResult) {
	if open := l.find(id); open != nil && open.result == nil {
		open.result = &result
		notify(open.wake)
	}
}
