package world

import (
	"context"
	"slices"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/sim/virtual"
)

const (
	diffTimeout = 10 * time.Second
	// hangGrace is how long after a diff that timed out without any answer
	// the process is given, before it is killed.
	hangGrace = 10 * time.Second
)

// child is a plugin as a replica reaches it: the caller's side.
type child struct {
	world   *World
	replica *virtual.Process
	program *program
	alone   chan struct{}
	isAlone bool
	life    *life
	// hints is the caller's side of hints; nil: its plugins give none.
	hints *remote.HintDesk
	// down says why there is no life.
	down error
}

func newChild(w *World, replica *virtual.Process, p *program) *child {
	c := &child{
		world: w, replica: replica, program: p, alone: make(chan struct{}),
		down: fault.New(fault.Unavailable, "plugin %s is starting", p.name),
	}
	if w.options.HintCadence > 0 {
		c.hints = remote.NewHintDesk(w.now)
	}
	return c
}

// lone is a child on the machine of its replica.
type lone struct{ *child }

// Alone is closed when no older process of this plugin can be running.
func (l lone) Alone() <-chan struct{} { return l.alone }

func (c *child) face(apart bool) plugin.Plugin {
	switch {
	case c.hints != nil && apart:
		return hinting{c}
	case c.hints != nil:
		return loneHinting{lone{c}}
	case apart:
		return c
	}
	return lone{c}
}

// Describe returns what the process said when it was started last.
func (c *child) Describe() (plugin.Description, error) {
	if c.life == nil {
		return plugin.Description{}, c.down
	}
	description := c.life.description
	description.Types = slices.Clone(description.Types)
	return description, nil
}

// diffCall is one call of Diff.
type diffCall struct {
	incarnation intent.IncarnationID
	assets      []intent.AssetID
	// sent is when it was, since the earliest that production may have been read.
	sent, since time.Time
	memos       map[intent.AssetID][]intent.Memo
	differences []intent.Difference
	answered    []bool
	missing     int
	err         error
	wake        chan struct{}
}

// Diff asks the process to compare assets with production.
func (c *child) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation, assets := request.Incarnation, request.Assets
	if len(assets) > plugin.MaxBatch {
		return nil, fault.New(fault.Internal, "diff of %d assets at once, at most %d are allowed", len(assets), plugin.MaxBatch)
	}
	if len(assets) == 0 {
		return nil, nil
	}
	l := c.life
	if l == nil {
		return nil, c.down
	}
	call := &diffCall{
		incarnation: incarnation, assets: slices.Clone(assets), sent: c.replica.Now(), since: request.Since, memos: map[intent.AssetID][]intent.Memo{}, missing: len(assets), answered: make([]bool, len(assets)),
		differences: make([]intent.Difference, len(assets)), wake: make(chan struct{}, 1),
	}
	for i, asset := range assets {
		if memos := c.handed(ctx, asset, request.Memos[asset], ""); len(memos) > 0 {
			call.memos[asset] = memos
		}
		call.differences[i] = intent.Difference{Asset: asset, Incarnation: incarnation, At: call.sent, Reason: "the plugin did not answer"}
	}
	if c.hints != nil {
		c.hints.Ask(incarnation.Partition, call.assets)
	}
	l.diffs = append(l.diffs, call)
	defer func() { l.diffs = slices.DeleteFunc(l.diffs, func(other *diffCall) bool { return other == call }) }()
	l.in.send(func() { l.process.Go("diff", func() { l.answer(call) }) })
	return l.await(ctx, call)
}

func (l *life) await(ctx context.Context, call *diffCall) ([]intent.Difference, error) {
	name := l.child.program.name
	deadline := l.world.now().Add(diffTimeout)
	for {
		switch remaining := deadline.Sub(l.world.now()); {
		case call.missing == 0:
			return call.differences, nil
		case call.err != nil:
			return nil, call.err
		case l.over != nil:
			return nil, l.over
		case remaining <= 0:
			return l.late(call)
		default:
			if err := l.child.replica.Wait(ctx, remaining, call.wake); err != nil {
				return nil, fault.New(fault.Unavailable, "diff of %d assets by plugin %s: %w", len(call.assets), name, err)
			}
		}
	}
}

// late takes what was answered so far. A plugin that has answered nothing is
// watched, and ended if it stays silent.
func (l *life) late(call *diffCall) ([]intent.Difference, error) {
	name := l.child.program.name
	if call.missing < len(call.assets) {
		for i := range call.differences {
			if !call.answered[i] {
				call.differences[i].Reason = "plugin " + name + " did not answer within " + diffTimeout.String()
			}
		}
		// The call's own copy takes nothing any more.
		return slices.Clone(call.differences), nil
	}
	heard := l.heard
	l.child.replica.Go("judge hung", func() {
		_ = l.child.replica.Wait(context.Background(), hangGrace, nil)
		if l.over == nil && l.heard == heard {
			l.kill(fault.New(fault.Unavailable, "plugin %s hung; it was ended", name))
		}
	})
	return nil, fault.New(fault.Unavailable, "plugin %s did not answer a diff of %d assets within %s", name, len(call.assets), diffTimeout)
}

// take accepts results: of assets that the call named, and each once. What
// they say is checked as the real caller does.
func (l *life) take(call *diffCall, results []*pluginpb.AssetDiff) {
	l.heard++
	for _, result := range results {
		place := slices.Index(call.assets, intent.AssetID(result.Asset))
		if place < 0 || call.answered[place] {
			continue
		}
		call.answered[place] = true
		call.missing--
		if l.world.OnAnswer != nil {
			l.world.OnAnswer(call.incarnation, call.assets[place], result.GetInSync() != nil)
		}
		l.noteHinted(result)
		remote.CheckDifference(result, &call.differences[place], call.since, l.description.Cadence())
	}
	notify(call.wake)
}
