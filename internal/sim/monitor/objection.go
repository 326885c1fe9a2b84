package monitor

import (
	"database/sql"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// lift is what an override is bound to.
type lift struct {
	asset          intent.AssetID
	content, check string
}

// lifting reads "check C of content X until T", maybe behind "the override by Z
// of".
func lifting(r record) lift {
	detail := r.Detail
	if void, ok := strings.CutPrefix(detail, "the override by "); ok {
		_, detail, _ = strings.Cut(void, " of ")
	}
	check, rest, _ := strings.Cut(strings.TrimPrefix(detail, "check "), " of content ")
	if end := strings.IndexAny(rest, ": "); end >= 0 {
		rest = rest[:end]
	}
	return lift{intent.AssetID(r.Subject), rest, check}
}

// objected takes up that somebody rejected, took that back, or overrode, and
// what was voided.
func (m *Monitor) objected(r record) {
	asset := intent.AssetID(r.Subject)
	switch {
	case r.Verb == "reject":
		consent := allowance(r)
		if ends, ok := m.objections[consent]; ok { // Or it is gone again already.
			m.refused[consent] = moment(ends)
		}
	case r.Verb == "withdraw":
		by := strings.TrimPrefix(r.Detail, "the rejection by ")
		for consent := range m.refused {
			if consent.asset == asset && consent.by == by {
				delete(m.refused, consent)
			}
		}
	case r.Verb == "override":
		m.lifted[lifting(r)] = true
	case strings.HasPrefix(r.Detail, "the override by "):
		delete(m.lifted, lifting(r))
	case strings.HasPrefix(r.Detail, "the rejection by "):
		delete(m.refused, allowance(r))
	default:
		delete(m.allowed, allowance(r))
	}
}

// lookAtObjections reads rejections and overrides, and asks that each has its
// audit record (S25). What has ended may be collected.
func (m *Monitor) lookAtObjections(news *news) {
	objections, lifts := map[agreed]int64{}, map[lift]int64{}
	partition := []any{string(m.options.Partition)}
	m.unread("the rejections", m.database.each("SELECT asset, effective, plan, rejecter, ends FROM rejection WHERE partition = $1", partition, func(rows *sql.Rows) error {
		var consent agreed
		var effective, plan digest
		var ends int64
		err := rows.Scan(&consent.asset, &effective, &plan, &consent.by, &ends)
		consent.content, consent.plan = effective.Short(), plan.Short()
		objections[consent] = ends
		return err
	}))
	m.unread("the overrides", m.database.each("SELECT asset, effective, kind, ends FROM override WHERE partition = $1", partition, func(rows *sql.Rows) error {
		var given lift
		var effective digest
		var ends int64
		err := rows.Scan(&given.asset, &effective, &given.check, &ends)
		given.content = effective.Short()
		lifts[given] = ends
		return err
	}))
	changes(m.objections, objections, equal[int64], func(consent agreed) {
		_, ok := objections[consent]
		m.hold(!ok || news.has("reject", string(consent.asset)), "S25", "plan %s of %s is rejected by %s without an audit record", consent.plan, consent.asset, consent.by)
	})
	changes(m.lifts, lifts, equal[int64], func(given lift) {
		_, ok := lifts[given]
		m.hold(!ok || news.has("override", string(given.asset)), "S25", "check %q of %s is overridden without an audit record", given.check, given.asset)
	})
	m.objections, m.lifts = objections, lifts
}

// unopposed: no rejection of the plan is in force (S9).
func (m *Monitor) unopposed(p *push) {
	m.ask("S9")
	for consent, ends := range m.refused {
		if consent.asset == p.asset && consent.content == p.effective.Short() && consent.plan == p.plan.Short() && (ends.IsZero() || p.admitted.Before(ends)) {
			m.fail("S9", "push %s of %s was admitted, and %s had rejected plan %s", p.id, p.asset, consent.by, consent.plan)
		}
	}
}

// overruled: each override that a push passed by was given for its asset,
// content and check, is in force (S1), and is allowed by the policy of its
// target, and by that which it was enforced under (S23).
func (m *Monitor) overruled(p *push, checks []string, news *news) {
	policies := []*intentpb.Policy{m.policyAt(p.target)}
	if previous, counts := m.enforcedBefore(p); counts && len(checks) > 0 {
		policies = append(policies, previous.under)
	}
	for _, check := range checks {
		for _, policy := range policies {
			m.hold(policy != nil && slices.Contains(policy.GetOverrides().GetAllow(), check), "S23",
				"push %s of %s was admitted by an override of check %q, which the policy of its target forbids, or that which it was enforced under", p.id, p.asset, check)
		}
		given := lift{p.asset, p.effective.Short(), check}
		m.hold(m.lifted[given], "S1", "push %s of %s was admitted by an override of check %q that nobody had given, or given for other content", p.id, p.asset, check)
		if news.has("override", string(p.asset)) {
			continue // It may have taken the place of the one that was used.
		}
		ends, ok := m.lifts[given]
		m.hold(ok && p.admitted.Before(moment(ends)), "S1", "push %s of %s was admitted at %s by an override of check %q that was not in force: until %s", p.id, p.asset, p.admitted, check, moment(ends))
	}
}

// former is what an asset was enforced with last, and the policy then.
type former struct {
	content
	under *intentpb.Policy
}

// enforcedBefore is what counts beside the target of a push: the content and the
// policy that the asset was enforced under last, where either is another and it
// is known which they were.
func (m *Monitor) enforcedBefore(p *push) (former, bool) {
	var effective, policy digest
	var sequence int64
	found, err := m.database.one("SELECT effective, policy, seq FROM enforced WHERE partition = $1 AND asset = $2 AND carried = 0 AND absent = 0",
		[]any{string(m.options.Partition), string(p.asset)}, &effective, &policy, &sequence)
	m.unread("the enforced records", err)
	at := intent.Sequence(sequence)
	then, policed := m.at(intent.PolicyAsset, at)
	now, _ := m.at(intent.PolicyAsset, m.head)
	if !found || !policed || then.digest != policy.Digest || effective.Digest == p.effective && policy.Digest == now.digest {
		return former{}, false
	}
	previous, ok := m.contentAt(p.asset, at)
	return former{previous, m.policyAt(at)}, ok
}
