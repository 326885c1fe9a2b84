package monitor

import (
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// acknowledgedLabel is on incarnations whose guards a person let through.
const acknowledgedLabel = "lehr/acknowledged"

// unsaid guards a partition whose policy has no guard.
var unsaid = Guard{Share: 0.20, Floor: 3, Period: 24 * time.Hour}

// guardAt is the guard that was in force from an incarnation on.
func (m *Monitor) guardAt(sequence intent.Sequence) Guard {
	policy := m.policyAt(sequence)
	switch {
	case policy == nil:
		return m.options.Guard
	case policy.GetShrink() == nil:
		return unsaid
	}
	return guardOf(policy.GetShrink())
}

func guardOf(said *intentpb.ShrinkGuard) Guard {
	g := Guard{Share: float64(said.GetMaxRemovedPercent()) / 100, Floor: int(said.GetFloor()), Period: said.GetPeriod().AsDuration()}
	if g.Period <= 0 {
		g.Period = unsaid.Period
	}
	return g
}

// strictest of two guards, part by part: no commit loosens its own.
func strictest(a, b Guard) Guard {
	if a == (Guard{}) || b == (Guard{}) {
		return Guard{}
	}
	return Guard{Share: min(a.Share, b.Share), Floor: min(a.Floor, b.Floor), Period: max(a.Period, b.Period)}
}

// guard asks whether too much has gone with this incarnation (S23): all that
// was head at some time in the period before it, and is not in it.
func (m *Monitor) guard(next *incarnation) {
	sequence := next.ID.Sequence
	if candidate, ok := next.Labels[acknowledgedLabel]; ok {
		m.hold(len(m.acknowledged[candidate]) > 0, "S23", "incarnation %d passed its guards by an acknowledgement of candidate %s that nobody gave", sequence, candidate)
		return
	}
	limits := strictest(m.guardAt(sequence), m.guardAt(sequence-1))
	if len(next.removed) > 0 {
		m.ask("S23")
	}
	if limits == (Guard{}) || sequence == 1 || !slices.ContainsFunc(next.removed, m.counted) {
		return
	}
	there, gone := m.period(next, limits)
	count, share := len(gone), float64(len(gone))/float64(max(1, there))
	const rounding = 1e-9
	m.hold(count == 0 || count < there, "S23", "with incarnation %d all of %d assets are gone within %s", sequence, there, limits.Period)
	m.hold(count <= limits.Floor || share <= limits.Share+rounding, "S23",
		"with incarnation %d %d of %d assets are gone within %s, and the guard lets %.0f %% go, or %d: %v",
		sequence, count, there, limits.Period, 100*limits.Share, limits.Floor, gone)
}

// counted tells whether a removal counts: the policy's does not, nor that of
// what was turned down, or is an older generation of what is there.
func (m *Monitor) counted(asset intent.AssetID) bool {
	return asset != intent.PolicyAsset && !m.turnedDown[asset] && !m.replaced(asset)
}

// period counts the assets that there were at any time in the period, and
// lists those that are gone. Where clocks are wrong nobody can tell when a
// period began: then it counts all that ever were, and lists only what this
// incarnation takes away.
func (m *Monitor) period(next *incarnation, limits Guard) (there int, gone []intent.AssetID) {
	unsure := m.options.Lenient.ClockFaults
	first := next.ID.Sequence - 1
	for first > 1 {
		older := m.incarnations[first]
		if !unsure && (older == nil || older.Labels[acknowledgedLabel] != "" || !older.Created.After(next.Created.Add(-limits.Period))) {
			break
		}
		first--
	}
	for asset, spans := range m.spans {
		if asset == intent.PolicyAsset || !slices.ContainsFunc(spans, func(s span) bool { return s.from < next.ID.Sequence && s.to > first }) {
			continue
		}
		there++
		if _, stays := m.members[asset]; !stays && m.counted(asset) && (!unsure || slices.Contains(next.removed, asset)) {
			gone = append(gone, asset)
		}
	}
	slices.Sort(gone)
	return there, gone
}
