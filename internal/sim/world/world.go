// Package world is a simulated production and the plugins that look after it.
// The plugins keep the protocol that internal/pluginhost/remote and sdk/serve speak, in
// virtual time; troubles are what breaks it, and others change production
// beside Lehr. Every change is told to OnEffect. The world judges nothing and
// knows no store: what Lehr did wrong is for whoever watches to say. Package
// sim calls it, from tasks of its scheduler or between its runs.
package world

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

// Options are what the world is made of.
type Options struct {
	// Process is the world's own, which never dies.
	Process *virtual.Process
	Random  *rand.Rand
	// Memos draws what goes wrong with memos until all heals: one is refused, an answer or
	// what was kept is lost. Nil: nothing does.
	Memos *rand.Rand
	// Served says what the plugin of a command line serves; its class decides
	// what targets of that type compare.
	Served func(run []string) []plugin.Served
	// Schemas finds the types of an incarnation; Contents its assets. Both
	// read without waiting.
	Schemas  func(ctx context.Context, id intent.IncarnationID) (*schema.Set, error)
	Contents plugin.Contents
	// Nameless: a payload's name says nothing; each asset has a thing of its
	// own. So it is with types of which nothing is known.
	Nameless bool
	// Apart: plugins run as servers, on machines of their own, so they have no
	// Alone.
	Apart bool
	// Machines: replicas of different names run on different machines. The
	// Alone of a plugin is that of its replica's.
	Machines bool
	// Ails says after how long something with this payload becomes unhealthy of
	// itself; 0: never. Nil: nothing does.
	Ails func(payload []byte) time.Duration
	// Cadence is how old an answer may be that nobody asked for in particular: plugins
	// keep what they read. 0: they read at each call.
	Cadence time.Duration
	// ReadsAhead: such plugins also read by themselves, at half of the cadence.
	ReadsAhead bool
	// HintCadence, if not 0, has plugins hint what changes, and declare it as their cadence:
	// for so long Lehr may let be what nobody hints.
	HintCadence time.Duration
	// Secret is what each value of a secret begins with; empty: no payload names any. See
	// secrets.go.
	Secret string
	// Owners: targets record who set each field, and plugins tell it, as API servers with
	// managers of fields do. They answer from watches, which lag. See owners.go.
	Owners bool
	// Outputs is the name of the message type whose things have an address that plugins tell;
	// empty: none have.
	Outputs string
	// Devices: assets of DeviceType stand for devices, which pushes lead by workflows. See device.go.
	Devices bool
	// Steps are the effects that a push takes, if so much changes; 0: as chance
	// has it.
	Steps int
}

// World is production: what really exists, and who changed it.
type World struct {
	// OnEffect, if any, is called with every effect as it happens.
	OnEffect func(Effect)
	// OnAnswer, if any, is called with what a plugin says of an asset, as it
	// says it: whether it is in sync, for what differs and what nobody can tell
	// are not.
	OnAnswer func(id intent.IncarnationID, asset intent.AssetID, inSync bool)

	// OnRead, if any, is called when plugins keep what they read: with when production
	// began to be read for an answer about an asset.
	OnRead func(asset intent.AssetID, start time.Time)

	// OnSwap, if any, is called when a plugin tells, as what it found of an asset,
	// what is there under the key of another.
	OnSwap func(asset intent.AssetID, key intent.ResourceKey)

	// OnMemos, if any, is called with the memos that Lehr hands to a plugin with an asset
	// to look at, or, where a push is named, to push, and whose plugin it is. OnMemoSaved is when Lehr says that
	// a memo is kept, OnRun when a push begins a run.
	OnMemos func(asset intent.AssetID, memos []intent.Memo, push intent.PushID, replica string)
	// OnMemosLost is when a plugin is handed no memos with a push, although there are some.
	OnMemosLost func(asset intent.AssetID)
	OnMemoSaved func(asset intent.AssetID, memo intent.Memo)
	OnRun       func(Run)

	// OnHint, if any, is called when something becomes of hints.
	OnHint func(HintNews)

	// OnSealed, if any, is called when a plugin plans with the value of a secret, OnRotated
	// when it finds that one was rotated since.
	OnSealed  func(asset intent.AssetID, plan intent.Digest, value string)
	OnRotated func(RotationNews)

	// OnOutput, if any, is called when a plugin tells the outputs of an asset in sync.
	OnOutput func(OutputNews)

	// OnDeviceCall, if any, is called with each call of a push that reaches a device or the pager.
	OnDeviceCall func(DeviceCall)
	// CallTrouble, if any, says what goes wrong with a call of a push to a device, by the last part of its
	// path; empty: nothing.
	CallTrouble func(call string) string

	// OnHealth, if any, is called when something has become unhealthy, or healthy.
	OnHealth func()

	options   Options
	process   *virtual.Process
	random    *rand.Rand
	resources map[intent.ResourceKey]*resource
	// runs are the newest that were begun.
	runs       map[runPlace]Run
	memoFaults *rand.Rand
	// version of the newest base, number of the newest effect.
	version, number uint64
	children        []*child
	programs        map[string]*program
	// carried are the pushes that plugins were told of and have not ended.
	carried []*carried
	armed   []*armed
	struck  map[TroubleKind]int
	// lied is when a plugin last told what is not so of an asset.
	lied  map[intent.AssetID]time.Time
	hints hints
	// lag of all watches until lagsUntil; beside that it is leastLag.
	lag       time.Duration
	lagsUntil time.Time
	// rotations counts those of each secret.
	rotations map[string]int
	// outputs are the addresses of things.
	outputs map[intent.ResourceKey]*outputState
	// devices by their names.
	devices map[string]*Device
	// sealedPlans are the newest plans with the value of a secret.
	sealedPlans []sealedPlan
	// known is what was read of incarnations.
	known map[place]*wanted
	// healed is closed, and replaced, when everything heals.
	healed chan struct{}
}

// New returns a production in which nothing exists.
func New(o Options) *World {
	return &World{
		options: o, process: o.Process, random: o.Random, memoFaults: o.Memos,
		resources: map[intent.ResourceKey]*resource{}, runs: map[runPlace]Run{}, programs: map[string]*program{}, known: map[place]*wanted{},
		rotations: map[string]int{}, outputs: map[intent.ResourceKey]*outputState{}, struck: map[TroubleKind]int{}, lied: map[intent.AssetID]time.Time{}, healed: make(chan struct{}), devices: map[string]*Device{},
		hints: hints{lost: map[intent.AssetID]time.Time{}},
	}
}

// now is the true time, by which plugins hold their permits: the clock that
// they use for it does not jump.
func (w *World) now() time.Time { return w.process.Scheduler().Now() }

// latency of one message.
func (w *World) latency() time.Duration {
	const least, most = time.Millisecond, 50 * time.Millisecond
	return least + time.Duration(w.random.Int64N(int64(most-least)))
}

// Resource returns what is there under the key. One that is not known never
// existed.
func (w *World) Resource(key intent.ResourceKey) (Resource, bool) {
	r := w.resources[key]
	if r == nil {
		return Resource{}, false
	}
	return r.shown(), true
}

// Resources returns all that exists or has existed, in the order of the keys.
func (w *World) Resources() []Resource {
	resources := make([]Resource, 0, len(w.resources))
	for _, key := range slices.Sorted(maps.Keys(w.resources)) {
		resources = append(resources, w.resources[key].shown())
	}
	return resources
}

// Push is one that runs in some plugin.
type Push struct {
	ID          intent.PushID
	Asset       intent.AssetID
	Incarnation intent.IncarnationID
	// Key is known once the plugin has read the intent.
	Key     intent.ResourceKey
	Replica string
	Token   uint64
	Since   time.Time
	// PermitUntil is when the permit that the plugin holds ends.
	PermitUntil time.Time
}

// Pushing returns the pushes that run now, oldest first.
func (w *World) Pushing() []Push {
	var running []Push
	for _, c := range w.carried {
		if !c.life.process.Alive() {
			continue
		}
		push := Push{
			ID: c.start.push.ID, Asset: c.start.push.Asset, Incarnation: c.start.push.Incarnation,
			Key: c.key, Replica: c.life.child.replica.Name(), Token: c.start.push.Token, Since: c.since,
		}
		if c.holds {
			push.PermitUntil = c.until
		}
		running = append(running, push)
	}
	return running
}

// Matches reports whether production is as an asset's content asks, apart from
// what the content leaves to production; if not, it says why. What cannot be
// read does not match.
func (w *World) Matches(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (bool, string) {
	wanted, err := w.look(ctx, id, asset)
	if err != nil {
		return false, err.Error()
	}
	if wanted.procedure != nil {
		return w.deviceMatches(wanted)
	}
	state := w.snapshot(wanted.key)
	if t := wanted.told; t.diff == nil || t.version != state.version || t.secret != wanted.sealed.now() {
		if _, err := wanted.difference(state, plugin.Served{}); err != nil {
			return false, err.Error()
		}
	}
	if other := w.holdsOther(wanted, state); other != "" {
		return false, other
	}
	if wanted.told.diff.GetInSync() != nil {
		return true, ""
	}
	diff, err := wanted.compare(state, plugin.Served{})
	if err != nil {
		return false, err.Error()
	}
	if diff.plan.Action == "" {
		return true, ""
	}
	paths := make([]string, 0, len(diff.plan.Changes))
	for _, change := range diff.plan.Changes {
		paths = append(paths, change.Path+": "+change.Current+" → "+change.Target)
	}
	return false, string(diff.plan.Action) + " of " + string(wanted.key) + " (" + strings.Join(paths, ", ") + ")"
}

// Well reports whether production is as an asset's content asks, and not unhealthy.
func (w *World) Well(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) bool {
	wanted, err := w.look(ctx, id, asset)
	if err != nil || w.snapshot(wanted.key).health == intent.Unhealthy {
		return false
	}
	matches, _ := w.Matches(ctx, id, asset)
	return matches
}

// machine on which a replica's plugins run.
func (w *World) machine(replica *virtual.Process) string {
	if w.options.Machines {
		return replica.Name()
	}
	return ""
}

// Plugin is what a replica reaches by a command line: a child process of the
// replica, started anew when it died.
func (w *World) Plugin(replica *virtual.Process, run []string) plugin.Plugin {
	w.children = slices.DeleteFunc(w.children, func(c *child) bool { return !c.replica.Alive() })
	key := strings.Join(run, "\x00")
	for _, c := range w.children {
		if c.replica == replica && c.program.key == key {
			return c.face(w.options.Apart)
		}
	}
	p := w.programs[key]
	if p == nil {
		p = &program{key: key, name: programName(run), served: w.options.Served(run), holders: map[string]*virtual.Process{}}
		w.programs[key] = p
	}
	c := newChild(w, replica, p)
	w.children = append(w.children, c)
	replica.Go("supervise "+p.name, c.supervise)
	return c.face(w.options.Apart)
}
