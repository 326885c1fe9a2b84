package world

import (
	"context"
	"path"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
	"lehr.dev/plugins/workflow/procedures"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// program is what a command line runs, on all machines.
type program struct {
	key, name string
	served    []plugin.Served
	// holders are the processes that have a machine's lock on it.
	holders map[string]*virtual.Process
	// Until when it dies at each start, cannot be started, or is of another
	// version: one that serves other types, if skewTypes.
	crashUntil, downUntil, skewUntil time.Time
	skewTypes                        bool
}

func programName(run []string) string {
	if len(run) == 0 {
		return "plugin"
	}
	return path.Base(run[0])
}

func (p *program) serves(name intent.TypeName) (plugin.Served, bool) {
	for _, served := range p.served {
		if served.Type == name {
			if served.LongestEffect <= 0 {
				served.LongestEffect = time.Second
			}
			return served, true
		}
	}
	return plugin.Served{}, false
}

// life is one process of a plugin, and the connection with it.
type life struct {
	world       *World
	child       *child
	process     *virtual.Process
	description plugin.Description
	skewed      bool
	// settle is the most that a push may outlive its last permit.
	settle time.Duration
	began  time.Time
	// in carries to the plugin, out to the replica.
	in, out *mailbox

	// Of the replica: calls that are open, signs of life, and why it ended.
	diffs  []*diffCall
	pushes []*openPush
	heard  int
	killed error
	over   error

	// Of the plugin: pushes that go on, and all that it was told of.
	carrying []*carried
	known    map[intent.PushID]bool
	readings map[intent.ResourceKey]*reading
	hinted   hintedLife
	// flow serves devices; nil: it was not asked about one.
	flow *procedures.Procedures
}

// supervise keeps one process alive as long as the replica lives.
func (c *child) supervise() {
	w := c.world
	for failures := 0; ; failures++ {
		start := w.now()
		err := c.live()
		c.life, c.down = nil, err
		if w.now().Sub(start) > maxBackoff {
			failures = 0
		}
		delay := maxBackoff
		if failures < 10 {
			delay = min(maxBackoff, minBackoff<<failures)
		}
		_ = c.replica.Wait(context.Background(), delay-time.Duration(w.random.Float64()*float64(delay)/2), nil)
	}
}

// live is one life. It returns why it ended.
func (c *child) live() error {
	w, p := c.world, c.program
	machine := w.machine(c.replica)
	for holder := p.holders[machine]; !w.options.Apart && holder != nil && holder.Alive(); holder = p.holders[machine] {
		c.down = fault.New(fault.Unavailable, "plugin %s waits until its older process has ended", p.name)
		_ = c.replica.Wait(context.Background(), -1, holder.Ended())
	}
	if !c.isAlone {
		c.isAlone = true
		close(c.alone)
	}
	if w.now().Before(p.downUntil) {
		return fault.New(fault.Unavailable, "plugin %s cannot be started", p.name)
	}
	process := c.replica.Child(c.replica.Name() + "/" + p.name)
	p.holders[machine] = process
	l := &life{
		world: w, child: c, process: process, began: w.now(), known: map[intent.PushID]bool{}, readings: map[intent.ResourceKey]*reading{}, hinted: newHintedLife(),
		in: &mailbox{world: w, to: process}, out: &mailbox{world: w, to: c.replica},
	}
	process.Go("outlives its parent", l.outlive)
	_ = c.replica.Wait(context.Background(), 5*w.latency(), nil)
	if err := l.describe(); err != nil {
		process.Scheduler().Kill(process)
		_ = c.replica.Wait(context.Background(), -1, process.Ended())
		return err
	}
	c.life, c.down = l, nil
	l.beginHints()
	if w.options.ReadsAhead {
		process.Go("read ahead", l.readAhead)
	}
	_ = c.replica.Wait(context.Background(), -1, process.Ended())
	l.end()
	return l.over
}

// describe finds out what was started.
func (l *life) describe() error {
	w, p := l.world, l.child.program
	l.description = plugin.Description{Name: p.name, Version: "1"}
	for _, served := range p.served {
		served, _ = p.serves(served.Type)
		served.Cadence = max(w.options.Cadence, w.options.HintCadence)
		l.description.Types = append(l.description.Types, served)
		l.settle = max(l.settle, served.LongestEffect)
	}
	l.settle += plugin.PermitPeriod + plugin.LockDelayMargin
	switch {
	case !l.process.Alive() || w.now().Before(p.crashUntil):
		return fault.New(fault.Unavailable, "plugin %s ended while starting", p.name)
	case w.now().Before(p.skewUntil) && p.skewTypes:
		l.skewed = true
		l.description.Types = []plugin.Served{{Type: "sim.v9.Other", Guarantee: plugin.Unguarded, LongestEffect: time.Second}}
	case w.now().Before(p.skewUntil):
		return fault.New(fault.Invalid, "plugin %s speaks protocol version %d, this lehr speaks version %d", p.name, plugin.Protocol+1, plugin.Protocol)
	}
	return nil
}

// end tells whoever waits for the process that it is gone.
func (l *life) end() {
	l.over = l.killed
	if l.over == nil {
		l.over = fault.New(fault.Unavailable, "plugin %s ended: killed", l.child.program.name)
	}
	if l.child.hints != nil {
		l.child.hints.Lose()
	}
	for _, call := range l.diffs {
		notify(call.wake)
	}
	for _, open := range l.pushes {
		notify(open.wake)
	}
}

// kill ends a process that does not keep the protocol.
func (l *life) kill(why error) {
	if l.killed == nil {
		l.killed = why
		l.process.Scheduler().Kill(l.process)
	}
}

// outlive is what a process does whose parent died without it: it goes on
// until its permits end.
func (l *life) outlive() {
	p := l.process
	_ = p.Wait(context.Background(), -1, l.child.replica.Ended())
	for l.mayRun() {
		_ = p.Wait(context.Background(), permitTick, nil)
	}
	p.Point("orphan ends")
	p.Scheduler().Kill(p)
}

func (l *life) mayRun() bool {
	for _, c := range l.carrying {
		if !c.over && (c.ignores || l.world.now().Before(c.until)) {
			return true
		}
	}
	return false
}

// befall does to the process what a trouble says.
func (l *life) befall(t *armed) {
	if t == nil {
		return
	}
	w, p := l.world, l.child.program
	const least, most = 5 * time.Second, 30 * time.Second
	switch t.Kind {
	case PluginCrashLoop:
		p.crashUntil = w.now().Add(t.lasts(least, most))
	case PluginDown:
		p.downUntil = w.now().Add(t.lasts(least, most))
	case PluginVersionSkew:
		p.skewUntil, p.skewTypes = w.now().Add(t.lasts(least, most)), t.Seed%2 == 1
		// The next life is as good as new once it is over.
		w.process.Go("skew ends", func() { w.endSkew(p) })
	case PluginPaused:
		l.process.Pause(t.lasts(time.Second, 3*plugin.PermitPeriod))
		l.process.Point("paused")
		return
	case PluginOutlivesParent:
		l.child.replica.Abandon()
		return
	}
	l.process.Scheduler().Kill(l.process)
	// Ends here.
	_ = l.process.Wait(context.Background(), -1, nil)
}

// endSkew ends the lives of another version when their time is over.
func (w *World) endSkew(p *program) {
	_ = w.process.Wait(context.Background(), max(0, p.skewUntil.Sub(w.now())), w.healed)
	for _, c := range w.children {
		if c.program == p && c.life != nil && c.life.skewed && !w.now().Before(p.skewUntil) {
			w.process.Scheduler().Kill(c.life.process)
		}
	}
}
