package world

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// permitInterval is how often permits are asked for, permitTick how often
	// a real plugin looks at those it holds.
	permitInterval = time.Second
	permitTick     = 250 * time.Millisecond
)

// carried is a push in a plugin's process: the plugin's side.
type carried struct {
	life  *life
	start start
	key   intent.ResourceKey
	since time.Time
	over  bool
	ended chan struct{}

	// wanted is the base that a permit must cover, covered the one that the
	// permit held covers, until when it ends.
	wanted, covered string
	holds           bool
	until           time.Time
	// refused says why there will be no permit.
	refused string
	changed chan struct{}
	// kept is the answer to the memo that was set last; nil: there is none yet.
	kept *memoAnswer
	// silent: it asks for no permits. ignores: it begins without one.
	silent, ignores bool
	// asLooked: when it planned, production was as the look had found it.
	asLooked bool
}

// granted takes Lehr's answer.
func (l *life) granted(id intent.PushID, g grant) {
	now := l.world.now()
	for _, c := range l.carrying {
		if c.start.push.ID != id || c.over {
			continue
		}
		switch {
		case !g.ok:
			c.refused = "no permit: " + g.reason
		case g.base == c.wanted && now.Sub(g.asked) <= plugin.PermitPeriod:
			c.hold(g.base, g.asked)
		}
		notify(c.changed)
	}
}

// hold notes a permit that was asked for at the time.
func (c *carried) hold(base string, requestTime time.Time) {
	c.holds, c.covered = true, base
	if end := requestTime.Add(plugin.PermitPeriod); end.After(c.until) {
		c.until = end
	}
}

// keep asks for permits each second, as long as the push goes on: when the
// process asks for all that it carries, at some time within the first one.
func (c *carried) keep() {
	p := c.life.process
	for next := time.Duration(c.life.world.random.Int64N(int64(permitInterval))); ; next = permitInterval {
		_ = p.Wait(context.Background(), next, c.ended)
		if c.over {
			return
		}
		c.ask()
	}
}

// ask sends a question. The time is taken before the sending, so that a permit
// is never held for longer than Lehr believes.
func (c *carried) ask() {
	if c.silent {
		return
	}
	q := ask{push: c.start.push.ID, base: c.wanted, at: c.life.world.now()}
	c.life.out.send(func() { c.life.judge(q) })
}

// cover waits for a permit that names the base.
func (c *carried) cover(base string) (refused string) {
	c.wanted = base
	c.ask()
	return c.permit()
}

// permit returns "" when an effect may begin, in this very step.
func (c *carried) permit() (refused string) {
	for {
		now := c.life.world.now()
		switch {
		case c.ignores:
			return ""
		case c.refused != "":
			return c.refused
		case c.holds && c.covered == c.wanted && now.Before(c.until):
			return ""
		case c.until.Sub(now) < permitTick:
			return "no permit: the last one ran out and Lehr gave no other"
		}
		_ = c.life.process.Wait(context.Background(), c.until.Sub(now)-permitTick+time.Millisecond, c.changed)
	}
}
