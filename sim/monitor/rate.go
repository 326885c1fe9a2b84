package monitor

import (
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/plugin"
	"lehr.dev/sim/world"
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
func ratesOf(policy *intentpb.Policy, of content) map[string]frequency {
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
		limits[c.GetName()+" "+r.GetBy().String()+" "+r.GetScope()+" "+value] = frequency{int(r.GetAtMost()), r.GetPer().AsDuration(), false}
	}
	return limits
}

// rated: rate limits are kept at admission (S8), by the clocks of those who
// admitted: those of head's policy and of where a pin leads, the stricter.
func (m *Monitor) rated(p *push, overridden []string) {
	content, _ := m.contentAt(p.asset, p.target)
	p.rates = ratesOf(m.policyAt(m.follows(p.asset, p.admitted)), content)
	for key, other := range ratesOf(m.policyAt(m.head), content) {
		if known, there := p.rates[key]; !there || other.most < known.most {
			p.rates[key] = other
		}
	}
	for key, limit := range p.rates {
		limit.past = slices.ContainsFunc(overridden, func(check string) bool { return len(key) > len(check) && key[:len(check)+1] == check+" " })
		p.rates[key] = limit
		if limit.past || m.options.Lenient.ClockFaults {
			continue
		}
		m.ask("S8")
		if within := m.under(key, func(other *push) bool { return p.admitted.Sub(other.admitted) < limit.period }); within > limit.most {
			m.fail("S8", "push %s of %s is the %dth admitted within %s under the rate limit %s, which is %d", p.id, p.asset, within, limit.period, key, limit.most)
		}
	}
}

// inPace: rate limits are kept by what really begins (S8), as far as an effect may
// come after its admission.
func (m *Monitor) inPace(e world.Effect, p *push) {
	if !p.began.IsZero() || disobeyed(e) {
		return
	}
	p.began = e.At
	if m.options.Lenient.ClockFaults {
		return
	}
	for key, limit := range p.rates {
		// It begins within a permit's time of its admission, has a permit for as
		// long again, and an effect after that.
		late := 2*plugin.PermitPeriod + plugin.LockDelayMargin + m.longest(e)
		since := limit.period - late
		most := limit.most
		within := m.under(key, func(other *push) bool {
			// A long push whose permit is renewed may show its first effect at any time.
			counts := !other.began.IsZero() && e.At.Sub(other.began) < since && !other.rates[key].past &&
				other.began.Sub(other.admitted) <= late
			if counts {
				most = max(most, other.rates[key].most)
			}
			return counts
		})
		if limit.past || within == 0 {
			continue
		}
		m.ask("S8")
		if within > most {
			m.fail("S8", "with push %s of %s %d have begun in production within %s under the rate limit %s, which is %d", p.id, p.asset, within, since, key, most)
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
