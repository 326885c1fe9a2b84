package monitor

import (
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// agreed is what the record of an approval, or of a rejection, says that it was
// given for, and by whom.
type agreed struct {
	asset             intent.AssetID
	content, plan, by string
}

// allowance reads "plan P of content C", then more, maybe behind "the approval
// by X of", or "the rejection by X of".
func allowance(r record) agreed {
	consent := agreed{asset: intent.AssetID(r.Subject), by: r.By.Name}
	detail := r.Detail
	for _, what := range []string{"the approval by ", "the rejection by "} {
		if void, ok := strings.CutPrefix(detail, what); ok {
			consent.by, detail, _ = strings.Cut(void, " of plan ")
		}
	}
	plan, rest, _ := strings.Cut(strings.TrimPrefix(detail, "plan "), " of content ")
	consent.plan, consent.content = plan, rest
	if end := strings.IndexAny(rest, ":,"); end >= 0 {
		consent.content = rest[:end]
	}
	return consent
}

// outgrow takes away what was said of content which an incarnation changes or
// removes: it does not come back with it (S9).
func (m *Monitor) outgrow(sequence intent.Sequence) {
	outgrown := func(asset intent.AssetID, content string) bool {
		changes := slices.ContainsFunc(m.spans[asset], func(s span) bool { return s.from == sequence || s.to == sequence })
		own, ok := m.at(asset, sequence)
		return changes && !(ok && own.effective.Short() == content)
	}
	maps.DeleteFunc(m.allowed, func(consent agreed, _ bool) bool { return outgrown(consent.asset, consent.content) })
	maps.DeleteFunc(m.refused, func(consent agreed, _ time.Time) bool { return outgrown(consent.asset, consent.content) })
	maps.DeleteFunc(m.lifted, func(given lift, _ bool) bool { return outgrown(given.asset, given.content) })
}

// consented: what needs people's approval has it, of as many as are asked for,
// each given before, not ended, and not used, or a reviewed rule that names it; and nobody
// rejects it (S9).
func (m *Monitor) consented(p *push, news *news) {
	m.unopposed(p)
	content, _ := m.contentAt(p.asset, p.target)
	atHead := m.atHead(p.asset)
	marked := content.approval || atHead.approval
	switch {
	case p.rule != "" && content.preview != nil:
		m.previewRemoved(p, content, marked)
	case p.rule != "":
		m.ruled(p, content, marked)
	case content.turndown || marked:
		m.hold(len(p.approvers) > 0, "S9", "push %s of %s was admitted without an approval; turndown: %t, marked: %t", p.id, p.asset, content.turndown, marked)
	}
	if len(p.approvers) == 0 {
		return
	}
	for key, row := range m.approvals {
		m.hold(row.usedBy != p.id || key.asset == p.asset && key.effective == p.effective && key.plan == p.plan,
			"S9", "push %s of %s used an approval of another plan, %s", p.id, p.asset, key.plan.Short())
	}
	asked := m.needs(p)
	people := slices.Compact(slices.Sorted(slices.Values(p.approvers)))
	m.hold(len(people) >= asked.People, "S9", "push %s of %s was admitted by the approval of %v, and %d people are asked for", p.id, p.asset, people, asked.People)
	for _, approver := range p.approvers {
		m.approvedBy(p, approver, asked, news)
	}
}

// atHead is what head says of an asset; of one that it leaves out, nothing.
func (m *Monitor) atHead(asset intent.AssetID) content {
	if at, member := m.contentAt(asset, m.head); member {
		return at
	}
	return content{}
}

// needs is what the approvals of a push must come to: of what its target asks
// for, head, and what it was enforced under, the strictest.
func (m *Monitor) needs(p *push) intent.Quorum {
	content, _ := m.contentAt(p.asset, p.target)
	atHead := m.atHead(p.asset)
	all := intent.Quorum{People: max(1, int(content.quorum), int(atHead.quorum))}
	policies := []*intentpb.Policy{m.policyAt(p.target), m.policyAt(m.head)}
	if previous, counts := m.enforcedBefore(p); counts {
		all.People = max(all.People, int(previous.quorum))
		policies = append(policies, previous.under)
	}
	for _, policy := range policies {
		of := policy.GetApproval()
		all.People = max(all.People, int(of.GetQuorum()))
		if expires := of.GetExpires().AsDuration(); expires > 0 && (all.Period == 0 || expires < all.Period) {
			all.Period = expires
		}
	}
	return all
}

// approvedBy: one person's approval may be used by this push.
func (m *Monitor) approvedBy(p *push, approver string, asked intent.Quorum, news *news) {
	consent := agreed{p.asset, p.effective.Short(), p.plan.Short(), approver}
	m.hold(m.allowed[consent], "S9", "push %s of %s used an approval of plan %s that nobody had given, or that was used before, or given for content that went since", p.id, p.asset, consent.plan)
	delete(m.allowed, consent)
	row, ok := m.approvals[approvalKey{p.asset, p.effective, p.plan, approver}]
	if news.has("approve", string(p.asset)) && row.usedBy != p.id {
		return // The same person has given another since, in its place.
	}
	m.hold(ok && row.usedBy == p.id, "S9", "push %s of %s was admitted as approved, and no approval of plan %s says that it used it; used by: %q", p.id, p.asset, consent.plan, row.usedBy)
	ends := moment(row.ends)
	if latest := moment(row.created).Add(asked.Period); asked.Period > 0 && (ends.IsZero() || latest.Before(ends)) {
		ends = latest
	}
	m.hold(ends.IsZero() || p.admitted.Before(ends), "S9", "push %s of %s was admitted at %s by an approval that ended at %s", p.id, p.asset, p.admitted, ends)
	if asked.People > 1 || !row.alone {
		m.hold(!m.wrote(approver, p, news), "S9", "push %s of %s was approved by %s, who made the change", p.id, p.asset, approver)
	}
}

// wrote reports whether a person published what the push brings, or let it
// through a guard, after it was enforced, or pinned the asset to it.
func (m *Monitor) wrote(approver string, p *push, news *news) bool {
	if !news.has("pin", string(p.asset)) && !news.has("unpin", string(p.asset)) {
		for _, pin := range m.pins[p.asset] {
			holds := pin.Until.IsZero() || p.admitted.Before(pin.Until)
			if holds && pin.Incarnation.Sequence == p.target && pin.Holder.Name == approver && pin.Holder.Origin != intent.ServerOrigin {
				return true
			}
		}
	}
	var enforced int64
	_, err := m.database.one("SELECT seq FROM enforced WHERE partition = $1 AND asset = $2 AND carried = 0", []any{string(m.options.Partition), string(p.asset)}, &enforced)
	m.unread("the enforced records", err)
	wrote := false
	m.unread("the members", m.database.each("SELECT from_seq FROM member WHERE partition = $1 AND asset = $2 AND from_seq <= $3 AND from_seq > $4",
		[]any{string(m.options.Partition), string(p.asset), int64(p.target), enforced}, func(rows *sql.Rows) error {
			var from int64
			err := rows.Scan(&from)
			wrote = wrote || slices.Contains(m.madeBy[intent.Sequence(from)], approver)
			return err
		}))
	return wrote
}

// braked: nothing is admitted under a stop (S18), a hold, or a mode that only
// looks (S1).
func (m *Monitor) braked(p *push, news *news) {
	for _, scope := range []intent.PartitionID{"", m.options.Partition} {
		stop, ok := m.stops[scope]
		m.hold(!ok || stop.unwritten, "S18", "push %s of %s was admitted after %s, when the stop of %q was answered", p.id, p.asset, stop.at, scope)
		m.hold(!m.inForce[scope], "S18", "push %s of %s was admitted under the stop of %q", p.id, p.asset, scope)
	}
	if h, ok := m.holds[p.asset]; ok && !news.has("hold", string(p.asset)) && !news.has("unhold", string(p.asset)) {
		ends := moment(h.ends)
		m.hold(!ends.IsZero() && !p.admitted.Before(ends), "S1", "push %s of %s was admitted while the asset was held", p.id, p.asset)
	}
	policy := m.policyAt(m.head)
	if policy == nil {
		return
	}
	content, _ := m.contentAt(p.asset, p.target)
	for _, mode := range modes(policy, content) {
		m.hold(!onlyLooks(mode), "S1", "push %s of %s was admitted in mode %s", p.id, p.asset, mode)
	}
}

// modes that are said for an asset, of which the strictest counts.
func modes(policy *intentpb.Policy, of content) []intentpb.EnforcementMode {
	return []intentpb.EnforcementMode{policy.GetMode(), policy.GetTypeModes()[string(of.kind)], of.mode}
}

func onlyLooks(mode intentpb.EnforcementMode) bool {
	return mode == intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE || mode == intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF
}

// resumes takes up that a stop was ended.
func (m *Monitor) resumes(scope intent.PartitionID) {
	delete(m.stops, scope)
	m.inForce[scope], m.resumed[scope] = false, true
}

// StopAcknowledged is called when a person was told that the stop of the
// scope is in force; the empty scope: of all partitions.
func (m *Monitor) StopAcknowledged(scope intent.PartitionID, at time.Time) {
	if scope != "" && scope != m.options.Partition {
		return
	}
	m.Commit()
	m.ask("S18")
	switch _, ok := m.stops[scope]; {
	case ok, m.resumed[scope]:
	case !m.stored[scope]:
		m.fail("S18", "the stop of %q was answered, and is not in the store", scope)
		fallthrough
	default:
		m.stops[scope] = answeredStop{at: at}
	}
}

// StopUnwritten is called when a person was told that the stop of the scope is in force,
// though the store does not have it: for one process, for as long as it lives, or, without
// lives, for all.
func (m *Monitor) StopUnwritten(scope intent.PartitionID, at time.Time, of string, lives func() bool) {
	if scope != "" && scope != m.options.Partition {
		return
	}
	m.Commit()
	m.ask("S18")
	if known, ok := m.stops[scope]; !ok || known.lives != nil && (lives == nil || !known.lives()) {
		m.stops[scope] = answeredStop{at: at, unwritten: true, of: of, lives: lives}
	}
}

// Resumed is called when a person was told that the stop of the scope is over.
func (m *Monitor) Resumed(scope intent.PartitionID, at time.Time) {
	if scope != "" && scope != m.options.Partition {
		return
	}
	m.Commit()
	m.hold(m.resumed[scope] || m.inForce[scope], "S25", "the stop of %q was ended at %s, and no audit record says so", scope, at)
}

// Diff is what a plugin answered when it was asked how production differs.
type Diff struct {
	At      time.Time
	Outcome intent.Outcome
	// Action that the answer plans.
	Action intent.Action
	// Effective and Plan are what was compared, and what would be done.
	Effective, Plan intent.Digest
	// from is the plugin that answered: each replica has its own.
	from int
}

// Diffed is called with each answer that Lehr gets from a diff. One that is no
// answer, or not to be believed, has the outcome Unknown.
func (m *Monitor) Diffed(asset intent.AssetID, d Diff) {
	const kept = 8
	list := append(m.diffs[asset], d)
	m.diffs[asset] = list[max(0, len(list)-kept):]
}

// Compared is when it was last found that the asset differs so from such
// content.
func (m *Monitor) Compared(asset intent.AssetID, effective, plan intent.Digest) (last time.Time, ok bool) {
	for _, d := range m.diffs[asset] {
		if d.Outcome == intent.Differs && d.Effective == effective && d.Plan == plan {
			last, ok = d.At, true
		}
	}
	return last, ok
}

// Recorded is called when it was recorded that an asset is in sync: a plugin
// found it so, after the last push of it had ended. What a push says of itself
// is a claim (S26). Recording began at that time: a process that stands still
// hears late that it was recorded, and another one may have pushed meanwhile.
func (m *Monitor) Recorded(start time.Time, asset intent.AssetID, effective intent.Digest) {
	ended := m.ends[asset]
	if len(m.diffs) == 0 || ended.After(start) {
		return
	}
	m.hold(slices.ContainsFunc(m.diffs[asset], func(d Diff) bool {
		return d.Outcome == intent.InSync && d.Effective == effective && !d.At.Before(ended)
	}), "S26", "asset %s is recorded as enforced with content %s, and since its last push ended at %s no plugin has found it in sync", asset, effective.Short(), ended)
}

// lastOf reports whether an answer is the last one of its plugin.
func lastOf(list []Diff, i int) bool {
	return !slices.ContainsFunc(list[i+1:], func(d Diff) bool { return d.from == list[i].from })
}

// diffed: a push rests on an answer that said what differs: the last one, or
// one that came just before it (S11). It says nothing in a run that is told of
// no answers.
func (m *Monitor) diffed(p *push) {
	list := m.diffs[p.asset]
	if len(m.diffs) == 0 {
		return
	}
	m.ask("S11")
	const justBefore = 2 * time.Second
	for i, d := range list {
		counts := lastOf(list, i) || m.options.Now().Sub(d.At) <= justBefore
		if counts && d.Outcome == intent.Differs && d.Effective == p.effective && d.Plan == p.plan {
			content, _ := m.contentAt(p.asset, p.target)
			m.hold(d.Action != intent.ActionDelete || content.turndown, "S5", "push %s of %s was admitted by a plan to remove it, and it has no Turndown", p.id, p.asset)
			return
		}
	}
	if len(list) == 0 {
		m.fail("S11", "push %s of %s was admitted, and production was never compared", p.id, p.asset)
		return
	}
	last := list[len(list)-1]
	m.fail("S11", "push %s of %s, content %s, plan %s was admitted, and the last answer on how production differs is outcome %d, content %s, plan %s, of %s",
		p.id, p.asset, p.effective.Short(), p.plan.Short(), last.Outcome, last.Effective.Short(), last.Plan.Short(), last.At)
}
