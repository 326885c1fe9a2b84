package world

import (
	"context"
	"slices"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// Plugins of a world with Options.HintCadence watch production, and hint which assets may
// have changed. What their callers drop of that, and how far they rely on it, is decided by
// the code that does so in life (remote.HintDesk). They are honest but for what BreakHints,
// SilenceHints and SayHints have them do.

const (
	// hintGather is for how long a plugin gathers hints before it sends them.
	hintGather = 100 * time.Millisecond
	// hintBeat is the longest pause between two messages of a plugin that watches.
	hintBeat = 5 * time.Second
	// hintSilence is how long a caller relies on hints without a message.
	hintSilence = 15 * time.Second
	// hintedFor is how soon after a hint a look counts as one for it.
	hintedFor = 3 * time.Second
)

// HintNews is what became of hints.
type HintNews string

const (
	// HintSawDrift: somebody changed production, and a look for the hint about it found so.
	HintSawDrift HintNews = "a drift was seen by one"
	// HintsBroke: their plugin's connection broke, as its caller knows.
	HintsBroke HintNews = "lost, as is known"
	// HintLost: a change was not hinted, and nobody knows.
	HintLost HintNews = "lost, as nobody knows"
	// HintWasFalse: a look for a hint found nothing.
	HintWasFalse HintNews = "a false one was looked at"
	// HintForeign: one was dropped, for it was about what the plugin was not asked.
	HintForeign HintNews = "a foreign one was dropped"
	// HintFlooded: one was dropped, for there were too many.
	HintFlooded HintNews = "one too many was dropped"
)

// hints are what is wrong with the hints of all plugins.
type hints struct {
	// brokenUntil: no message arrives until then, and callers know it. silentUntil: messages
	// arrive until then, without hints about what changes.
	brokenUntil, silentUntil time.Time
	// lost is when a change of an asset's resource was last not hinted, and nobody was told.
	lost map[intent.AssetID]time.Time
}

// hintedLife are the hints of one process of a plugin.
type hintedLife struct {
	// watches are what is to be hinted when a resource changes.
	watches map[intent.ResourceKey][]*pluginpb.Hint
	// waiting hints go with the next message; wake has it sent soon.
	waiting []*pluginpb.Hint
	wake    chan struct{}
	// heard is when the caller heard the last message.
	heard time.Time
	// drifts and lies are when a hint about an asset was last given because others changed
	// its resource, and though nothing changed.
	drifts, lies map[intent.AssetID]time.Time
}

func newHintedLife() hintedLife {
	return hintedLife{
		watches: map[intent.ResourceKey][]*pluginpb.Hint{}, wake: make(chan struct{}, 1),
		drifts: map[intent.AssetID]time.Time{}, lies: map[intent.AssetID]time.Time{},
	}
}

// hinting is a child whose plugin gives hints, loneHinting one on its replica's machine.
type hinting struct{ *child }

type loneHinting struct{ lone }

// WatchHints implements plugin.Hinting.
func (h hinting) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	stop := h.hints.Watch(partition, take)
	defer stop()
	_ = h.replica.Wait(ctx, -1, nil)
}

// WatchHints implements plugin.Hinting.
func (h loneHinting) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	hinting{h.child}.WatchHints(ctx, partition, take)
}

// beginHints has a process that was started give hints, if those of this world do.
func (l *life) beginHints() {
	if l.child.hints == nil {
		return
	}
	l.child.hints.Connect()
	l.hinted.heard = l.world.now()
	l.process.Go("hints", l.giveHints)
	l.child.replica.Go("silence of hints", l.judgeSilence)
}

// giveHints sends what waits, gathered, and a message without hints now and then.
func (l *life) giveHints() {
	for {
		_ = l.process.Wait(context.Background(), hintBeat, l.hinted.wake)
		if len(l.hinted.waiting) > 0 {
			_ = l.process.Wait(context.Background(), hintGather, nil)
		}
		waiting := l.hinted.waiting
		l.hinted.waiting = nil
		if l.world.now().Before(l.world.hints.brokenUntil) {
			continue
		}
		l.out.send(func() { l.takeHints(waiting) })
	}
}

// takeHints is what the caller does with a message.
func (l *life) takeHints(message []*pluginpb.Hint) {
	if l.over != nil {
		return
	}
	desk := l.child.hints
	l.hinted.heard = l.world.now()
	before := desk.Counts()
	desk.Take(message)
	after := desk.Counts()
	if after.Foreign > before.Foreign {
		l.world.tellHint(HintForeign)
	}
	if after.Flood > before.Flood {
		l.world.tellHint(HintFlooded)
	}
}

// judgeSilence has the caller rely on hints no longer while the process sends none.
func (l *life) judgeSilence() {
	for l.over == nil {
		_ = l.child.replica.Wait(context.Background(), hintBeat, l.process.Ended())
		if l.over == nil && l.world.now().Sub(l.hinted.heard) > hintSilence {
			l.loseHints()
		}
		if !l.process.Alive() {
			return
		}
	}
}

func (l *life) loseHints() {
	if l.child.hints.Reliable() {
		l.world.tellHint(HintsBroke)
	}
	l.child.hints.Lose()
}

// watch notes that changes of a resource are to be hinted as changes of an asset.
func (l *life) watch(partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) {
	if l.child.hints == nil {
		return
	}
	known := l.hinted.watches[key]
	if !slices.ContainsFunc(known, func(h *pluginpb.Hint) bool { return h.Asset == string(asset) && h.Partition == string(partition) }) {
		l.hinted.watches[key] = append(known, &pluginpb.Hint{Partition: string(partition), Asset: string(asset)})
	}
}

// hint has all plugins hint that a resource has changed, by others or not.
func (w *World) hint(key intent.ResourceKey, byOthers bool) {
	for _, c := range w.children {
		if c.hints == nil || c.life == nil {
			continue
		}
		h := &c.life.hinted
		for _, watch := range h.watches[key] {
			asset := intent.AssetID(watch.Asset)
			if w.now().Before(w.hints.silentUntil) {
				w.hints.lost[asset] = w.now()
				w.tellHint(HintLost)
				continue
			}
			h.waiting = append(h.waiting, watch)
			if byOthers {
				h.drifts[asset] = w.now()
			}
		}
		if len(h.waiting) > 0 {
			notify(h.wake)
		}
	}
}

// noteHinted tells what a look for a hint came to.
func (l *life) noteHinted(result *pluginpb.AssetDiff) {
	asset := intent.AssetID(result.Asset)
	within := func(given map[intent.AssetID]time.Time) bool {
		at, ok := given[asset]
		return ok && l.world.now().Sub(at) < hintedFor
	}
	switch {
	case l.child.hints == nil:
	case result.GetDiffers() != nil && within(l.hinted.drifts):
		l.world.tellHint(HintSawDrift)
		delete(l.hinted.drifts, asset)
	case result.GetInSync() != nil && within(l.hinted.lies) && !within(l.hinted.drifts):
		l.world.tellHint(HintWasFalse)
		delete(l.hinted.lies, asset)
	}
}

func (w *World) tellHint(news HintNews) {
	if w.OnHint != nil {
		w.OnHint(news)
	}
}

// BreakHints has the connections for hints break for so long, as callers know.
func (w *World) BreakHints(d time.Duration) {
	w.hints.brokenUntil = w.now().Add(d)
	for _, c := range w.children {
		if c.hints != nil && c.life != nil {
			l := c.life
			l.hinted.waiting = nil
			l.out.send(func() {
				if l.over == nil {
					l.loseHints()
				}
			})
		}
	}
}

// SilenceHints has plugins hint nothing for so long, and nobody told.
func (w *World) SilenceHints(d time.Duration) { w.hints.silentUntil = w.now().Add(d) }

// SayHints has all plugins hint about assets of a partition, whatever has changed: those
// that were asked about them, or all that give hints.
func (w *World) SayHints(all bool, partition intent.PartitionID, assets ...intent.AssetID) {
	for _, c := range w.children {
		if c.hints == nil || c.life == nil {
			continue
		}
		h := &c.life.hinted
		known := h.watched(partition)
		for _, asset := range assets {
			if all || known[asset] {
				h.waiting = append(h.waiting, &pluginpb.Hint{Partition: string(partition), Asset: string(asset)})
			}
			if known[asset] {
				h.lies[asset] = w.now()
			}
		}
		notify(h.wake)
	}
}

// watched are the assets of a partition that the process hints about.
func (h *hintedLife) watched(partition intent.PartitionID) map[intent.AssetID]bool {
	assets := map[intent.AssetID]bool{}
	for _, watches := range h.watches {
		for _, watch := range watches {
			if watch.Partition == string(partition) {
				assets[intent.AssetID(watch.Asset)] = true
			}
		}
	}
	return assets
}

// LostHintOf is when a change of an asset's resource was last not hinted while its plugin
// seemed to hint all; zero: never.
func (w *World) LostHintOf(asset intent.AssetID) time.Time { return w.hints.lost[asset] }
