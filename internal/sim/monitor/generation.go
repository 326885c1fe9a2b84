package monitor

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
)

// ruleAt is the rule of generations that the policy of an incarnation has by that name; nil: it
// has none.
func (m *Monitor) ruleAt(sequence intent.Sequence, name string) *intentpb.GenerationRule {
	for _, r := range m.policyAt(sequence).GetGenerations() {
		if r.GetName() == name {
			return r
		}
	}
	return nil
}

// covers reports whether a rule names an asset. In runs, what is generated is a whole number.
func covers(r *intentpb.GenerationRule, asset intent.AssetID) bool {
	rest, ok := strings.CutPrefix(string(asset), r.GetPrefix())
	return ok && rest != "" && strings.Trim(rest, "0123456789") == ""
}

// ruleOf is a rule of head's that names an asset; nil: none does.
func (m *Monitor) ruleOf(asset intent.AssetID) *intentpb.GenerationRule {
	for _, r := range m.policyAt(m.head).GetGenerations() {
		if covers(r, asset) {
			return r
		}
	}
	return nil
}

// ruled: a rule is the approval of a push only where it is a removal of what the rule names,
// which the asset's Turndown names, as head's policy has it and had it before the asset was
// turned down; and of nothing that people are to approve (S9, S23).
func (m *Monitor) ruled(p *push, c content, marked bool) {
	m.ask("S9")
	name, digest, _ := strings.Cut(p.rule, " ")
	m.hold(c.turndown && !marked, "S9", "push %s of %s was admitted by the rule %s; turndown: %t, marked: %t", p.id, p.asset, name, c.turndown, marked)
	r := m.ruleAt(m.head, name)
	m.hold(r != nil && covers(r, p.asset), "S9", "push %s of %s was admitted by the rule %s, which head does not have, or which does not name it", p.id, p.asset, name)
	if r == nil {
		return
	}
	now := digestOf(r)
	m.hold(strings.HasPrefix(now, digest) && c.removal.GetRule() == name && c.removal.GetDigest() == now, "S9",
		"push %s of %s was admitted by the rule %s of digest %s; head has %s, and its Turndown names %v", p.id, p.asset, name, digest, now, c.removal)
	if since, ok := m.turnedDownSince(p); ok {
		priorRule := m.ruleAt(since-1, name)
		m.hold(priorRule != nil && digestOf(priorRule) == now, "S23", "push %s of %s was admitted by the rule %s, which turned it down in %d and was not in force before", p.id, p.asset, name, since)
	}
	m.hold(len(p.approvers) == 0, "S9", "push %s of %s used approvals, and the rule %s was its approval", p.id, p.asset, name)
}

func digestOf(r *intentpb.GenerationRule) string {
	return generation.Rules(&intentpb.Policy{Generations: []*intentpb.GenerationRule{r}})[0].Digest.String()
}

// turnedDownSince is the incarnation that gave the asset the Turndown that a push carries out.
func (m *Monitor) turnedDownSince(p *push) (intent.Sequence, bool) {
	own, ok := m.at(p.asset, p.target)
	if !ok || own.from < 2 || m.incarnations[own.from-1] == nil {
		return 0, false
	}
	return own.from, true
}

// replaced reports whether an asset that left is an older generation of what head has, by a
// rule that was there before.
func (m *Monitor) replaced(asset intent.AssetID) bool {
	r := m.ruleOf(asset)
	if r == nil {
		return false
	}
	priorRule := m.ruleAt(m.head-1, r.GetName())
	return priorRule != nil && digestOf(priorRule) == digestOf(r) && m.hasGeneration(r)
}

// hasGeneration reports whether head has a generation of what a rule names that stays.
func (m *Monitor) hasGeneration(r *intentpb.GenerationRule) bool {
	for asset, digest := range m.members {
		if covers(r, asset) && !m.bodies[digest].turndown {
			return true
		}
	}
	return false
}

// olderGenerations lists what a rule names, was enforced and is there as far as is known, and is
// not in head or is turned down there by the rule; those that go, and those that are kept.
func (m *Monitor) olderGenerations(r *intentpb.GenerationRule, records map[intent.AssetID]enforcedRow) (going, assets []intent.AssetID) {
	for _, asset := range slices.Sorted(maps.Keys(records)) {
		record := records[asset]
		if record.absent || record.carried || !covers(r, asset) {
			continue
		}
		digest, isMember := m.members[asset]
		switch {
		case isMember && m.bodies[digest].removal != nil:
			going = append(going, asset)
		case !isMember:
			assets = append(assets, asset)
		}
	}
	return going, assets
}

// keptGenerations: an incarnation that turns an older generation down leaves as many others as
// the rule keeps, none of them older than it; and some generation stays in it (S5).
func (m *Monitor) keptGenerations(next *incarnation) {
	for _, r := range m.policyAt(m.head).GetGenerations() {
		var fresh []intent.AssetID
		for asset, digest := range m.members {
			if m.bodies[digest].removal == nil || !covers(r, asset) {
				continue
			}
			if own, ok := m.at(asset, m.head); ok && own.from == m.head {
				fresh = append(fresh, asset)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		m.ask("S5")
		records := m.recordsNow() // They change without a commit that this sees.
		m.hold(m.hasGeneration(r), "S5", "incarnation %d turns %v down, and has no generation that stays", next.ID.Sequence, fresh)
		_, assets := m.olderGenerations(r, records)
		for asset := range m.disowned {
			if _, isMember := m.members[asset]; covers(r, asset) && !isMember && !slices.Contains(assets, asset) {
				assets = append(assets, asset) // By somebody, since that was decided.
			}
		}
		m.hold(len(assets) >= int(r.GetKeep()), "S5", "incarnation %d turns %v down, and keeps %v; the rule keeps %d", next.ID.Sequence, fresh, assets, r.GetKeep())
		for _, asset := range fresh {
			newer := slices.DeleteFunc(slices.Clone(assets), func(other intent.AssetID) bool {
				record, ok := records[other]
				return ok && record.sequence < records[asset].sequence
			})
			m.hold(len(newer) >= int(r.GetKeep()), "S5", "incarnation %d turns %s down, enforced at %d, and only %v of those kept are as new; the rule keeps %d", next.ID.Sequence, asset, records[asset].sequence, newer, r.GetKeep())
		}
	}
}

// surplusGone: once all is at rest, no more older generations are there than their rule
// keeps (L1).
func (m *Monitor) surplusGone() {
	for _, r := range m.policyAt(m.head).GetGenerations() {
		if !m.hasGeneration(r) {
			continue
		}
		m.ask("L1")
		going, assets := m.olderGenerations(r, m.recordsNow())
		assets = slices.DeleteFunc(assets, func(asset intent.AssetID) bool {
			previous, ok := m.contentAt(asset, m.records[asset].sequence)
			return !ok || previous.approval || previous.unmanaged
		})
		m.hold(len(assets) <= int(r.GetKeep()), "L1", "older generations stay: %v, and the rule keeps %d", assets, r.GetKeep())
		going = slices.DeleteFunc(going, func(asset intent.AssetID) bool {
			previous, _ := m.contentAt(asset, m.head)
			return slices.ContainsFunc(modes(m.policyAt(m.head), previous), onlyLooks)
		})
		m.hold(len(going) == 0, "L1", "older generations that were to go are there: %s", fmt.Sprint(going))
	}
}

// recordsNow are the enforced records as they are in the store now.
func (m *Monitor) recordsNow() map[intent.AssetID]enforcedRow {
	records := map[intent.AssetID]enforcedRow{}
	m.unread("the enforced records", m.database.each(enforcedText, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var effective, policy digest
		var r enforcedRow
		var sequence int64
		err := rows.Scan(&asset, &r.kind, &effective, &policy, &sequence, &r.key, &r.absent, &r.carried)
		r.sequence = intent.Sequence(sequence)
		records[asset] = r
		return err
	}))
	return records
}
