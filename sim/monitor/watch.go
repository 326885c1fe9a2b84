package monitor

import (
	"context"
	"time"

	"lehr.dev/intent"
	"lehr.dev/plugin"
)

// spoilt takes up a diff of several assets that failed as a whole: they are
// looked at in ever smaller batches, so that one at which the plugin fails keeps
// no other from being seen (L2).
func (m *Monitor) spoilt(assets []intent.AssetID) {
	const most, within = 100, 10 * time.Second
	m.ask("L2")
	if len(assets) < 2 {
		return
	}
	now := m.options.Now()
	for _, asset := range assets {
		f := m.failures[asset]
		if now.Sub(f.since) > within {
			f = failures{since: now}
		}
		if f.count++; f.count == most {
			m.fail("L2", "asset %s was looked at %d times within %s, each time with others, and each time the plugin failed: %v", asset, most, within, assets)
		}
		m.failures[asset] = f
	}
}

// failures of diffs of an asset with others, since a while.
type failures struct {
	since time.Time
	count int
}

// Watch returns the plugin, whose answers the monitor hears as Lehr does.
func (m *Monitor) Watch(p plugin.Plugin) plugin.Plugin {
	m.watching++
	w := watched{p, m, m.watching}
	if alone, ok := p.(lone); ok {
		return watchedAlone{w, alone}
	}
	return w
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
func (w watched) Diff(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) ([]intent.Difference, error) {
	differences, err := w.Plugin.Diff(ctx, id, assets)
	if err != nil {
		w.monitor.spoilt(assets)
	}
	answers := map[intent.AssetID]Diff{}
	for _, d := range differences {
		answers[d.Asset] = Diff{Outcome: d.Outcome, Action: d.Plan.Action, Plan: d.Plan.Digest()}
	}
	for _, asset := range assets {
		answer, answered := answers[asset] // None is Unknown.
		if !answered && err != nil {
			continue // Of a call that failed nothing is heard: what was answered before still holds.
		}
		answer.At = w.monitor.options.Now()
		own, _ := w.monitor.at(asset, id.Sequence)
		answer.Effective, answer.from = own.effective, w.number
		w.monitor.Diffed(asset, answer)
	}
	return differences, err
}
