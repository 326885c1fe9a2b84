package monitor

import (
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/planrecord"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
)

// planKept is the plan that the store keeps with a push; nil: none.
func (m *Monitor) planKept(push intent.PushID) *intent.PlanRecord {
	var stored []byte
	ok, err := m.database.one("SELECT plan_record FROM push WHERE partition = $1 AND id = $2", []any{string(m.options.Partition), string(push)}, &stored)
	m.unread("the plan of a push", err)
	if !ok || err != nil {
		return nil
	}
	record, err := planrecord.Decode(stored)
	m.unread("the plan of a push", err)
	return record
}

// named: what a push takes from other managers is kept with it, with who had it: what people see
// of a push says whose fields it takes (S25). Where production is not as it was looked at, they
// may be others.
func (m *Monitor) named(e world.Effect, p *push) {
	if len(e.Took) == 0 || !e.AsLooked || e.Class != plugin.CompareAndSet {
		return
	}
	record := m.planKept(p.id)
	m.hold(record != nil, "S25", "effect %d of push %s took fields of others, and no plan is kept with the push", e.Number, p.id)
	if record == nil || record.More > 0 {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(e.Took)) {
		at := slices.IndexFunc(record.Changes, func(c intent.RecordedChange) bool { return c.Path == path })
		writer := ""
		if at >= 0 {
			writer = record.Changes[at].Writer
		}
		m.hold(writer == e.Took[path], "S25", "effect %d of push %s of %s took the field %s from %q, and its kept plan names %q", e.Number, p.id, p.asset, path, e.Took[path], writer)
	}
}
