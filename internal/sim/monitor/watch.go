package monitor

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// often is how often is too often for looks at one asset (L10), and for those
// with others that fail (L2).
const often, oftenWithin = 200, 30 * time.Second

// looked takes up a look at assets. Nothing is looked at again and again (L10).
// When the plugin fails at several, they are looked at in ever smaller batches,
// so that one at which it fails keeps no other from being seen (L2).
func (m *Monitor) looked(assets []intent.AssetID, failed bool) {
	now := m.options.Now()
	m.ask("L2")
	for _, asset := range assets {
		if m.looks.count(asset, now) == often {
			m.fail("L10", "asset %s was looked at %d times within %s", asset, often, oftenWithin)
		}
		if failed && len(assets) > 1 && m.failures.count(asset, now) == often/2 {
			m.fail("L2", "asset %s was looked at %d times within %s, each time with others, and each time the plugin failed: %v", asset, often/2, oftenWithin, assets)
		}
	}
}

// TakenOver is called when another process acts from now on: it looks at all
// anew.
func (m *Monitor) TakenOver() {
	clear(m.looks)
	clear(m.failures)
	m.ailing.taken = m.options.Now()
}

// rates count what happens to assets within a while.
type rates map[intent.AssetID]rate

type rate struct {
	since time.Time
	count int
}

func (r rates) count(asset intent.AssetID, now time.Time) int {
	of := r[asset]
	if now.Sub(of.since) > oftenWithin {
		of = rate{since: now}
	}
	of.count++
	r[asset] = of
	return of.count
}

// Watch returns the plugin, whose answers the monitor hears as Lehr does.
func (m *Monitor) Watch(p plugin.Plugin) plugin.Plugin {
	m.watching++
	w := watched{p, m, m.watching}
	alone, isAlone := p.(lone)
	hints, givesHints := p.(plugin.Hinting)
	switch {
	case isAlone && givesHints:
		return watchedAloneHinting{w, alone, hints}
	case givesHints:
		return watchedHinting{w, hints}
	case isAlone:
		return watchedAlone{w, alone}
	}
	return w
}

// hinting plugins tell by themselves what may have changed.
type hinting interface {
	WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints))
}

type watchedHinting struct {
	watched
	hinting
}

type watchedAloneHinting struct {
	watched
	lone
	hinting
}

// lone plugins tell when they are the only process of theirs.
type lone interface{ Alone() <-chan struct{} }

type watched struct {
	plugin.Plugin
	monitor *Monitor
	number  int
}

type watchedAlone struct {
	watched
	lone
}

// Diff passes the call on, and its answers to the monitor.
func (w watched) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	id, assets := request.Incarnation, request.Assets
	for _, asset := range assets {
		w.monitor.letBe(asset, "looked at", w.number)
		w.monitor.keptApart(asset, w.number)
	}
	differences, err := w.Plugin.Diff(ctx, request)
	w.monitor.looked(assets, err != nil)
	w.monitor.failedAlone(assets, err != nil, w.number)
	for _, asset := range assets {
		w.monitor.toldHealth(asset, "")
	}
	answers := map[intent.AssetID]Diff{}
	for _, d := range differences {
		if d.Outcome == intent.Unknown {
			w.monitor.busy(d.Asset, d.RetryAfter, w.number)
		}
		w.monitor.toldHealth(d.Asset, d.Health.State)
		answers[d.Asset] = Diff{Outcome: d.Outcome, Action: d.Plan.Action, Plan: d.Plan.Digest()}
	}
	for _, asset := range assets {
		answer, answered := answers[asset] // None is Unknown.
		if !answered && err != nil {
			continue // Of a call that failed nothing is heard: what was answered before still holds.
		}
		answer.At = w.monitor.options.Now()
		if read, ok := w.monitor.reads[asset]; ok {
			answer.At = read
		}
		own, _ := w.monitor.at(asset, id.Sequence)
		answer.Effective, answer.from = own.effective, w.number
		w.monitor.Diffed(asset, answer)
	}
	return differences, err
}
