package monitor

import (
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/sim/world"
)

// frequency is so many pushes within a period.
type frequency struct {
	most   int
	period time.Duration
	// past: somebody let the push past it.
	past bool
}

// ratesOf are the rate limits that a push of the content counts under, as far
// as they are about all assets.
func ratesOf(policy *intentpb.Policy, of content, rollback, over bool) map[string]frequency {
	limits := map[string]frequency{}
	for _, c := range policy.GetChecks() {
		r := c.GetRate()
		value, impacted := of.scopes[r.GetScope()]
		if r == nil || c.GetWhere() != "" || r.GetBy() == intentpb.Rate_BY_SCOPE && !impacted {
			continue
		}
		switch r.GetBy() {
		case intentpb.Rate_BY_ASSET:
			value = string(of.id)
		case intentpb.Rate_BY_TYPE:
			value = string(of.kind)
		}
		past := over && !c.GetRollbacks()
		if rollback && !past {
			value += Back
		}
		limits[c.GetName()+" "+r.GetBy().String()+" "+r.GetScope()+" "+value] = frequency{int(r.GetAtMost()), r.GetPer().AsDuration(), past}
	}
	return limits
}

// rated: rate limits are kept at admission (S8), by the clocks of those who
// admitted and closed: what is open counts, and what ended within the period. They
// are those of head's policy and of where a pin leads, the stricter.
func (m *Monitor) rated(p *push, overridden []string) {
	content, _ := m.contentAt(p.asset, p.target)
	rollback, over := m.goesBack(p), m.passesOver(p)
	p.rates = ratesOf(m.policyAt(m.follows(p.asset, p.admitted)), content, rollback, over)
	for key, other := range ratesOf(m.policyAt(m.head), content, rollback, over) {
		if known, ok := p.rates[key]; !ok || other.most < known.most {
			p.rates[key] = other
		}
	}
	for key, limit := range p.rates {
		limit.past = limit.past || slices.ContainsFunc(overridden, func(check string) bool { return len(key) > len(check) && key[:len(check)+1] == check+" " })
		p.rates[key] = limit
		if limit.past || m.options.Lenient.ClockFaults {
			continue
		}
		m.ask("S8")
		within := m.under(key, func(other *push) bool {
			return m.running[other.id] != nil || p.admitted.Sub(other.ended) < limit.period
		})
		if within > limit.most {
			m.fail("S8", "push %s of %s is the %dth under way within %s under the rate limit %s, which is %d", p.id, p.asset, within, limit.period, key, limit.most)
		}
	}
}

// inPace: rate limits are kept by what really happens (S8): no more pushes take
// effect within any period than were counted when the last of them was admitted.
func (m *Monitor) inPace(e world.Effect, p *push) {
	if disobeyed(e) {
		return
	}
	p.touched = e.At
	if m.options.Lenient.ClockFaults {
		return
	}
	for key := range p.rates {
		var last *push // that asked
		m.under(key, func(other *push) bool {
			limit := other.rates[key]
			if !limit.past && e.At.Sub(other.touched) < limit.period && (last == nil || other.ordinal > last.ordinal) {
				last = other
			}
			return false
		})
		if last == nil {
			continue
		}
		m.ask("S8")
		limit := last.rates[key]
		within := m.under(key, func(other *push) bool {
			return other.ordinal <= last.ordinal && e.At.Sub(other.touched) < limit.period
		})
		if within > limit.most {
			m.fail("S8", "with push %s of %s %d have had effects within %s under the rate limit %s, which is %d", p.id, p.asset, within, limit.period, key, limit.most)
		}
	}
}

// under counts the pushes under a limit of which it is so.
func (m *Monitor) under(key string, is func(*push) bool) (n int) {
	for _, other := range m.pushes {
		if _, counts := other.rates[key]; counts && is(other) {
			n++
		}
	}
	return n
}
