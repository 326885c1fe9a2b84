package monitor

import (
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// ailing is how well assets are: in production, and as plugins told of it.
type ailing struct {
	// since is when the resource of each asset became unhealthy, of those that are.
	since map[intent.AssetID]time.Time
	// told is when a plugin called each healthy last, pushed the last end of a push.
	told map[intent.AssetID]time.Time
	// taken is when another process began to act.
	taken time.Time
}

// surely is for how much longer than a process may rely on a look it may decide by it.
const surely = 15 * time.Second

// Ailed is to be called after every change of production and of health.
func (m *Monitor) Ailed() {
	if m.options.Ill == nil {
		return
	}
	ill := m.options.Ill()
	for asset := range m.ailing.since {
		if !ill[asset] {
			delete(m.ailing.since, asset)
		}
	}
	for asset := range ill {
		if _, ok := m.ailing.since[asset]; !ok {
			m.ailing.since[asset] = m.options.Now()
		}
	}
}

// toldHealth takes up what a plugin says of an asset's health.
func (m *Monitor) toldHealth(asset intent.AssetID, of intent.HealthState) {
	delete(m.ailing.told, asset)
	if of == intent.Healthy {
		m.ailing.told[asset] = m.options.Now()
	}
}

// mostUnhealthy are how many assets of each value of a scope may be unhealthy or pushed.
func mostUnhealthy(policy *intentpb.Policy, of content) map[string]int {
	limits := map[string]int{}
	for _, budget := range policy.GetBudgets() {
		if value, impacted := of.scopes[budget.GetScope()]; impacted && budget.GetUnhealthy() > 0 {
			limits[budget.GetScope()+"="+value] = int(budget.GetUnhealthy())
		}
	}
	return limits
}

// spared: no healthy asset is pushed while as many of its scope are unhealthy, for longer
// than a look may be relied on, or are pushed, as may be (S8).
func (m *Monitor) spared(p *push) {
	content, _ := m.contentAt(p.asset, p.target)
	if m.options.Ill == nil || m.options.Lenient.ClockFaults || m.goesBack(p) || !m.surelyWell(p.asset) {
		return
	}
	m.Ailed() // Intent may have changed since, and with it what is to be healthy.
	now := m.options.Now()
	limits := mostUnhealthy(m.policyAt(m.follows(p.asset, p.admitted)), content)
	for key, limit := range mostUnhealthy(m.policyAt(m.head), content) {
		if other, ok := limits[key]; !ok || limit < other {
			limits[key] = limit
		}
	}
	for key, limit := range limits {
		m.ask("S8")
		among := map[intent.AssetID]bool{p.asset: true}
		for _, other := range m.running {
			if _, holds := other.budgets[key]; holds {
				among[other.asset] = true
			}
		}
		for asset, start := range m.ailing.since {
			content, ok := m.contentAt(asset, m.head)
			if _, same := mostUnhealthy(m.policyAt(m.head), content)[key]; same && ok && content.mode == intentpb.EnforcementMode_ENFORCEMENT_MODE_UNSPECIFIED &&
				now.Sub(m.heldSince(later(start, m.ailing.taken))) > m.options.Relies+surely {
				among[asset] = true
			}
		}
		if len(among) > limit {
			m.fail("S8", "with push %s of %s %d assets of %s are pushed, or have been unhealthy for longer than a look lasts, and %d may be: %v", p.id, p.asset, len(among), key, limit, slices.Sorted(maps.Keys(among)))
		}
	}
}

// surelyWell: what is pushed is healthy, and was told so since its last push, not long ago.
func (m *Monitor) surelyWell(asset intent.AssetID) bool {
	told, well := m.ailing.told[asset]
	_, ill := m.ailing.since[asset]
	return well && !ill && told.After(m.ends[asset]) && m.options.Now().Sub(told) < m.options.Relies-surely
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
