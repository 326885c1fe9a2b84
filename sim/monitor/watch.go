package monitor

import (
	"context"

	"lehr.dev/intent"
	"lehr.dev/plugin"
)

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
