package monitor

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// crowd is a target that was too busy, as its plugin told Lehr.
type crowd struct {
	// ok is the true time, asked how long it is to be let be.
	told  time.Time
	asked time.Duration
	epoch uint64
	kind  intent.TypeName
	// by is through whom: another process, which does not know that it lost the lease,
	// or has only just got it, was not told.
	by int
	// void: Lehr may know nothing of it any more.
	void bool
}

// longest pause that Lehr grants.
const longestPause = 5 * time.Minute

func (c crowd) until() time.Time { return c.told.Add(min(c.asked, longestPause)) }

// busy takes up that a plugin asked to let an asset's target be.
func (m *Monitor) busy(asset intent.AssetID, asked time.Duration, replica int) {
	if asked > 0 {
		now := m.options.Now()
		m.crowds[asset] = crowd{told: now, asked: asked, epoch: m.epoch, kind: m.kindOf(asset), by: replica, void: now.Sub(m.retried[asset]) < longestPause}
	}
}

func (m *Monitor) kindOf(asset intent.AssetID) intent.TypeName {
	of, _ := m.at(asset, m.head)
	return of.kind
}

// letBe: what is too busy is neither looked at nor pushed (L10), by whoever was
// told, whatever its intent becomes.
func (m *Monitor) letBe(asset intent.AssetID, what string, replica int) {
	c, ok := m.crowds[asset]
	if !ok || c.void || c.by != replica || m.options.Lenient.ClockFaults || c.epoch != m.epoch || c.kind != m.kindOf(asset) {
		return
	}
	remaining := c.until().Sub(m.options.Now())
	m.hold(remaining <= 0, "L10", "asset %s was %s %s before its plugin wanted to be asked again, for its target is too busy", asset, what, remaining)
}

// Retried is called before a person has an asset tried again.
func (m *Monitor) Retried(asset intent.AssetID) {
	m.retried[asset] = m.options.Now()
	delete(m.paces.of, asset)
	m.forgets(asset)
}

// Forgot is called when Lehr's actors begin anew, and know nothing of what plugins
// told.
func (m *Monitor) Forgot() {
	m.quarantines.release(m.options.Now())
	for asset := range m.crowds {
		m.forgets(asset)
	}
}

func (m *Monitor) forgets(asset intent.AssetID) {
	if c, ok := m.crowds[asset]; ok {
		c.void = true
		m.crowds[asset] = c
	}
}

// left forgets what was told of assets that left head, as Lehr does.
func (m *Monitor) left() {
	for asset := range m.crowds {
		if _, ok := m.members[asset]; !ok {
			m.forgets(asset)
		}
	}
}

// crowded reports whether a report's pause is one that a plugin asked for: a tenth
// is added to it. Where clocks are wrong only its length tells.
func (m *Monitor) crowded(asset intent.AssetID, at, end time.Time) bool {
	c, ok := m.crowds[asset]
	if m.options.Lenient.ClockFaults {
		c.told = at
	}
	return ok && !end.After(c.until().Add(c.asked/5+backedOff))
}

// Push passes the push on, and hears whether its target is too busy.
func (w watched) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	w.monitor.letBe(push.Asset, "pushed", w.number)
	result := w.Plugin.Push(ctx, push)
	if result.Ending == plugin.Failed {
		w.monitor.busy(push.Asset, result.RetryAfter, w.number)
	}
	return result
}
