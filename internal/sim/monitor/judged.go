package monitor

import (
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// Judgement is what a plugin of checks answered to a process: a pass, or a no; that it
// cannot be asked so is a no. That it does not answer is none, and so is an answer about
// something else.
type Judgement struct {
	Check, Phase  string
	Asset         intent.AssetID
	Content, Plan string
	Push          intent.PushID
	By            string
	// Asked is when the question was put, Until when a pass ends by itself.
	Asked, Until time.Time
	Passes       bool
	// heard is when the process had it.
	heard time.Time
}

// counts until then.
func (j Judgement) counts(keep time.Duration) time.Time {
	end := j.Asked.Add(keep)
	if !j.Until.IsZero() && j.Until.Before(end) {
		return j.Until
	}
	return end
}

// judging are all judgements by what they are of, oldest first.
type judging map[judgedOf][]Judgement

type judgedOf struct {
	check, phase  string
	asset         intent.AssetID
	content, plan string
	push          intent.PushID
}

// Judged is called with each judgement as the process that asked gets it.
func (m *Monitor) Judged(j Judgement) {
	j.heard = m.options.Now()
	of := judgedOf{j.Check, j.Phase, j.Asset, j.Content, j.Plan, j.Push}
	m.judging[of] = append(m.judging[of], j)
}

// judgements of a push in a phase by a check, that a process had by then; no process: any.
func (m *Monitor) judgements(c *intentpb.Check, phase string, p *push, by string, end time.Time) (list []Judgement) {
	of := judgedOf{c.GetName(), phase, p.asset, p.effective.String(), p.plan.String(), p.id}
	if phase == "before" {
		of.push = ""
	}
	for _, j := range m.judging[of] {
		if (by == "" || j.By == by) && !j.heard.After(end) {
			list = append(list, j)
		}
	}
	return list
}

// usualKeep is how old an answer may be where a check does not say.
const usualKeep = time.Minute

func keepOf(c *intentpb.Check) time.Duration {
	if keep := c.GetProtection().GetKeep(); keep != nil {
		return keep.AsDuration()
	}
	return usualKeep
}

// protectionsOf are a policy's protections by plugins that are about a content: of all,
// or of one type.
func protectionsOf(policy *intentpb.Policy, of content) (list []*intentpb.Check) {
	for _, c := range policy.GetChecks() {
		kind, ok := strings.CutPrefix(c.GetWhere(), "type == ")
		if c.GetProtection().GetPlugin() != "" && (c.GetWhere() == "" || ok && strings.HasSuffix(string(of.kind), "."+strings.Trim(kind, `"`))) {
			list = append(list, c)
		}
	}
	return list
}

// held is since when nothing made a process wait, or later.
func (m *Monitor) heldSince(t time.Time) time.Time {
	if m.options.Held == nil {
		return t
	}
	if held := m.options.Held(); held.After(t) {
		return held
	}
	return t
}

// protected: no push has an effect that no protection passed, of that content and that
// plan, when it was admitted; and none goes on once one says no, or has not said yes for
// too long (S11).
func (m *Monitor) protected(e world.Effect, p *push) {
	if disobeyed(e) {
		return
	}
	for _, c := range p.protections {
		m.ask("S11")
		keep := keepOf(c)
		before := m.judgements(c, "before", p, e.Replica, p.seen)
		if c.GetProtection().GetBefore() {
			m.letBegin(e, p, c, before)
		}
		if c.GetProtection().GetDuring() == intentpb.Protection_DURING_UNSPECIFIED {
			continue
		}
		judgements := append(before, m.judgements(c, "during", p, e.Replica, e.At)...)
		if len(judgements) == 0 {
			continue // That it never was passed is told above.
		}
		if start, ok := saysNo(judgements); ok && judgements[len(judgements)-1].Phase == "during" {
			m.hold(m.late(e, m.heldSince(start)) <= 0, "S11", "effect %d of push %s of %s came %s after %s said no to it", e.Number, p.id, p.asset, e.At.Sub(start), c.GetName())
		}
		var end time.Time
		for _, j := range judgements {
			if ends := j.counts(keep); j.Passes && ends.After(end) {
				end = ends
			}
		}
		m.hold(m.options.Lenient.ClockFaults || m.late(e, end) <= 0, "S11", "effect %d of push %s of %s came %s after what %s had said of it was too old", e.Number, p.id, p.asset, e.At.Sub(end), c.GetName())
	}
}

// letBegin: the last that a protection said before the admission was a pass, which was
// not too old.
func (m *Monitor) letBegin(e world.Effect, p *push, c *intentpb.Check, judgements []Judgement) {
	passed := slices.IndexFunc(judgements, func(j Judgement) bool { return j.Passes }) >= 0
	m.hold(passed, "S11", "effect %d of push %s of %s, content %s, plan %s, to which %s never said yes", e.Number, p.id, p.asset, p.effective.Short(), p.plan.Short(), c.GetName())
	if !passed || m.options.Lenient.ClockFaults {
		return
	}
	var end time.Time
	for _, j := range judgements {
		if ends := j.counts(keepOf(c)); j.Passes && ends.After(end) {
			end = ends
		}
	}
	m.hold(!p.admitted.After(end), "S11", "push %s of %s was admitted %s after what %s had said of it was too old", p.id, p.asset, p.admitted.Sub(end), c.GetName())
	const taken = time.Second
	start, ok := saysNo(judgements)
	m.hold(!ok || p.admitted.Sub(m.heldSince(start)) <= taken, "S11", "push %s of %s was admitted %s after %s said no to it", p.id, p.asset, p.admitted.Sub(start), c.GetName())
}

// saysNo tells since when nothing but no was said.
func saysNo(judgements []Judgement) (start time.Time, no bool) {
	for _, j := range slices.Backward(judgements) {
		if j.Passes {
			break
		}
		start, no = j.heard, true
	}
	return start, no
}

// stayed reports whether an asset has been in head since an incarnation.
func (m *Monitor) stayed(asset intent.AssetID, since intent.Sequence) bool {
	at := since
	for _, s := range m.spans[asset] { // Oldest first.
		if s.from <= at && s.to > at {
			at = s.to
		}
	}
	return at == open
}

// asksAfter is the newest push of an asset, if it is not open, of what the asset is still
// to be, and what is asked after it by head's policy, if that is known for certain.
func (m *Monitor) asksAfter(asset intent.AssetID, follows intent.Sequence) (p *push, checks []*intentpb.Check) {
	content, ok := m.contentAt(asset, follows)
	policy := m.policyAt(m.head)
	if !ok || m.options.Lenient.ClockFaults || content.turndown || content.mode != intentpb.EnforcementMode_ENFORCEMENT_MODE_UNSPECIFIED {
		return nil, nil
	}
	for _, other := range m.pushes {
		if other.asset == asset && (p == nil || other.ordinal > p.ordinal) {
			p = other
		}
	}
	if p == nil || p.closed.IsZero() || !m.stayed(asset, p.target) || m.options.Now().Sub(p.ended) >= m.options.Remembers {
		return nil, nil
	}
	if pushed, _ := m.contentAt(asset, p.target); pushed.payload != content.payload {
		return nil, nil
	}
	for _, c := range protectionsOf(policy, content) {
		if c.GetProtection().GetAfter() != nil {
			checks = append(checks, c)
		}
	}
	return p, checks
}

// passed is what was over after a push by a policy that was head: it stays so, whatever a
// later one asks.
type passed struct {
	checks map[askedAfter]bool
	// well is when a newer head came and nothing that was asked until then was open: what
	// only that asks, and whose time was over, is not asked.
	well map[intent.PushID]time.Time
}

type askedAfter struct {
	push  intent.PushID
	check string
}

// remember takes up, before another policy may be head, what is over by this one.
func (m *Monitor) remember() {
	if m.head == 0 {
		return
	}
	now := m.options.Now()
	for _, asset := range slices.Sorted(maps.Keys(m.members)) {
		p, checks := m.asksAfter(asset, m.follows(asset, now))
		if p == nil {
			continue
		}
		open := false
		for _, c := range checks {
			if m.isOver(c, p) {
				m.passed.checks[askedAfter{p.id, c.GetName()}] = true
			} else {
				open = true
			}
		}
		if !open {
			m.passed.well[p.id] = now
		}
	}
}

// isOver reports whether what is asked after a push may be over: by this policy, or by one
// before, of which it passed.
func (m *Monitor) isOver(c *intentpb.Check, p *push) bool {
	after := c.GetProtection().GetAfter()
	end := p.ended.Add(after.GetDelay().AsDuration() + after.GetDuration().AsDuration())
	well, wasWell := m.passed.well[p.id]
	return m.passed.checks[askedAfter{p.id, c.GetName()}] || wasWell && !end.After(well) || m.passes(c, p, end)
}

// passes reports whether a check passed at the end of its time after a push, or later.
func (m *Monitor) passes(c *intentpb.Check, p *push, end time.Time) bool {
	judgements := m.judgements(c, "after", p, "", m.options.Now())
	for i, j := range judgements {
		start := end
		if j.heard.After(start) {
			start = j.heard
		}
		later := slices.ContainsFunc(judgements[i+1:], func(other Judgement) bool {
			return other.By == j.By && !other.Passes && !m.heldSince(other.heard).After(start)
		})
		if j.Passes && !later && !start.After(j.counts(keepOf(c))) && !start.After(m.options.Now()) {
			return true
		}
	}
	return false
}

// afterOthers: what is asked after the push of an asset is over before what comes after
// that asset is pushed (S11).
func (m *Monitor) afterOthers(p *push, overridden []string) {
	content, ok := m.contentAt(p.asset, p.target)
	if !ok || content.turndown || slices.Contains(overridden, "order") {
		return
	}
	for _, other := range content.after {
		before, checks := m.asksAfter(other, m.follows(other, p.admitted))
		for _, c := range checks {
			m.hold(m.isOver(c, before), "S11", "push %s of %s was admitted, which comes after %s, and %s had not passed since push %s of that", p.id, p.asset, other, c.GetName(), before.id)
		}
	}
}

// toldWell: an asset counts as well only once what is asked after its push is over (S11).
func (m *Monitor) toldWell(report intent.Report) {
	if report.State != intent.StateInSync || report.Absent {
		return
	}
	p, checks := m.asksAfter(report.Asset, m.follows(report.Asset, report.At))
	if own, _ := m.at(report.Asset, m.follows(report.Asset, report.At)); p == nil || own.effective != report.Effective || !report.At.After(p.ended) {
		return
	}
	for _, c := range checks {
		well := report.Health.State == intent.Healthy
		m.hold(!well || m.isOver(c, p), "S11", "asset %s is reported %s, and %s had not passed since push %s", report.Asset, report.Health.State, c.GetName(), p.id)
	}
}
