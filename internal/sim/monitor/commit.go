package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// sample is how many commits go by between looks at what leaves no trace in
// the audit.
const sample = 16

// Commit looks at what a commit of the store has changed. It is to be called
// after each, before anybody is told of it.
func (m *Monitor) Commit() {
	m.commits++
	m.delivers()
	m.followRuns()
	g, ok, err := m.database.glance(m.options.Partition)
	m.unread("the partition", err)
	switch {
	case err != nil:
	case !ok:
		m.hold(!m.begun, "S7", "partition %s is not in the store any more", m.options.Partition)
	case g != m.seen || m.commits%sample == 0:
		m.look(g, m.commits%sample == 0)
	}
}

// Between looks whether anything was committed since, and not yet told: all may
// see that already. It is to be called wherever the store may be cut off.
func (m *Monitor) Between() {
	g, ok, err := m.database.glance(m.options.Partition)
	m.unread("the partition", err)
	if err == nil && ok && g != m.seen {
		m.look(g, false)
	}
}

// look takes up all that is new, in the order of the audit.
func (m *Monitor) look(g glance, sampled bool) {
	m.begun = true
	m.hold(g.head >= m.seen.head, "S16", "head went back from %d to %d", m.seen.head, g.head)
	m.hold(g.pins >= m.seen.pins, "S16", "the newest revision of a pin went back from %d to %d", m.seen.pins, g.pins)
	m.hold(g.epoch >= m.seen.epoch, "S4", "the epoch went back from %d to %d", m.seen.epoch, g.epoch)
	m.hold(g.own >= m.own.last, "S25", "the audit went back from record %d to %d", m.own.last, g.own)
	news := &news{}
	if g.own != m.own.last {
		news.own = m.read(&m.own)
	}
	if g.global != m.global.last {
		news.global = m.read(&m.global)
	}
	news.pins, news.holds = m.pins, m.holds
	if sampled || g.revision != m.seen.revision || news.brakes() {
		news.pins, news.holds = m.lookAtBrakes(g, news)
	}
	before := m.pins
	m.replay(news)
	m.pins, m.holds = news.pins, news.holds
	m.rolled(news, before)
	m.catchUp(g)
	if len(news.own) > 0 {
		m.outputsWritten()
	}
	if sampled || len(news.own) > 0 || g.push != m.seen.push {
		m.inFlight()
		m.owned()
	}
	if g.revision != m.seen.revision || len(news.own) > 0 {
		m.supersede()
	}
	if g.head != m.seen.head || g.revision != m.seen.revision || g.pins != m.seen.pins || g.epoch != m.seen.epoch {
		m.quarantines.release(m.options.Now())
	}
	m.seen = g
	if sampled {
		m.scan(m.commits / sample)
	}
}

// news is what one look found in the audit, and how the brakes are after it.
type news struct {
	own, global []record
	pins        map[intent.AssetID][]intent.Pin
	holds       map[intent.AssetID]held
}

// has reports whether something of that kind is recorded of a subject.
func (n *news) has(verb, subject string) bool {
	is := func(r record) bool { return r.Verb == verb && r.Subject == subject }
	return slices.ContainsFunc(n.own, is) || slices.ContainsFunc(n.global, is)
}

// brakes reports whether any of them may have moved.
func (n *news) brakes() bool {
	is := func(r record) bool {
		return slices.Contains([]string{"pin", "unpin", "hold", "unhold", "stop", "resume", "approve", "reject", "withdraw", "override", "void", "admit"}, r.Verb)
	}
	return slices.ContainsFunc(n.own, is) || len(n.global) > 0
}

// unclear: the asset's pins moved more than once in one commit, and what they
// were between is not known.
func (n *news) unclear(asset intent.AssetID) bool {
	count := 0
	for _, r := range n.own {
		if r.Subject == string(asset) && (r.Verb == "pin" || r.Verb == "unpin") {
			count++
		}
	}
	return count > 1
}

// replay goes through the records as they were written. The chain of all
// partitions has no order with this one, so what it forbids begins after.
func (m *Monitor) replay(news *news) {
	for _, r := range news.global {
		if r.Verb == "resume" {
			m.resumes("")
		}
		if r.Verb == "common-policy" {
			m.closed = false
		}
	}
	for _, r := range news.own {
		m.follow(r, news)
	}
	for _, r := range news.global {
		m.inForce[""] = r.Verb == "stop" || r.Verb != "resume" && m.inForce[""]
		m.resumed[""] = r.Verb == "resume" || r.Verb != "stop" && m.resumed[""]
		m.askedInCommon(r)
	}
}

// follow takes up one record.
func (m *Monitor) follow(r record, news *news) {
	asset := intent.AssetID(r.Subject)
	switch r.Verb {
	case "admit", "close", "doubt", "claim", "memo":
		m.hold(r.By.Name == m.holder, "S4", "record %d (%s %s) was written by %q, and the lease was held by %q", r.Number, r.Verb, r.Subject, r.By.Name, m.holder)
	}
	switch r.Verb {
	case "acquire":
		var epoch uint64
		_, err := fmt.Sscanf(r.Detail, "epoch %d", &epoch)
		m.hold(err == nil && epoch > m.epoch, "S4", "%s acquired the lease: %q, after epoch %d", r.By.Name, r.Detail, m.epoch)
		m.over[m.epoch] = m.options.Now()
		m.outputs.acquires(m.options.Now())
		m.epoch, m.holder = epoch, r.By.Name
	case "publish":
		m.published(r)
	case "admit":
		m.admitted(r, news)
	case "close":
		m.ended(r)
	case "memo":
		m.remembered(r)
	case "claim":
		m.carries(r, news)
	case "pin", "unpin":
		delete(m.paces.of, asset)
		m.pins = maps.Clone(m.pins)
		m.pins[asset] = news.pins[asset]
	case "stop":
		m.inForce[m.options.Partition], m.resumed[m.options.Partition] = true, false
	case "resume":
		m.resumes(m.options.Partition)
	case "approve":
		m.allowed[allowance(r)] = true
	case "reject", "withdraw", "override", "void":
		m.objected(r)
	case "disown":
		m.released[asset], m.disowned[asset] = true, true
	case "label":
		name, value, _ := strings.Cut(r.Detail, "=")
		m.labels[label{r.Subject, name, value}] = true
	case "acknowledge":
		m.acknowledged[r.Subject] = append(m.acknowledged[r.Subject], r.By.Name)
	}
}

// published takes up a record of a publication.
func (m *Monitor) published(r record) {
	id, err := intent.ParseIncarnationID(r.Subject)
	if err != nil || id.Partition != m.options.Partition {
		m.fail("S25", "a publication is recorded of %q", r.Subject)
		return
	}
	_, under, _ := strings.Cut(r.Detail, "under epoch ")
	m.hold(under == fmt.Sprint(m.epoch), "S4", "incarnation %d was published under epoch %s, and the epoch was %d", id.Sequence, under, m.epoch)
	m.publish(id.Sequence)
	m.outgrow(id.Sequence)
	m.left()
	if r.By.Origin != intent.ServerOrigin {
		m.madeBy[id.Sequence] = append(m.madeBy[id.Sequence], r.By.Name)
	}
	// Of several it is not known whose word it went by.
	if names := m.acknowledged[m.incarnations[id.Sequence].Labels[acknowledgedLabel]]; len(names) == 1 {
		m.madeBy[id.Sequence] = append(m.madeBy[id.Sequence], names[0])
	}
}

// catchUp takes up heads that no record tells of.
func (m *Monitor) catchUp(g glance) {
	for m.head < g.head {
		m.fail("S25", "incarnation %d is head, and its publication is in no audit record", m.head+1)
		m.publish(m.head + 1)
	}
	m.hold(m.head == g.head, "S16", "incarnation %d was published, and head is %d", m.head, g.head)
	m.hold(m.epoch == g.epoch, "S25", "the epoch is %d, and the last that was recorded is %d", g.epoch, m.epoch)
}

// supersede notes since when open pushes carry what their assets follow no
// more.
func (m *Monitor) supersede() {
	for _, p := range m.running {
		m.outdate(p)
	}
}

func (m *Monitor) outdate(p *push) {
	now := m.options.Now()
	wanted, ok := m.at(p.asset, m.follows(p.asset, now))
	switch {
	case ok && wanted.effective == p.effective, m.options.Lenient.ClockFaults && m.wouldFollow(p):
		p.superseded = time.Time{}
	case p.superseded.IsZero():
		p.superseded = now
	}
}

// wouldFollow reports whether the asset of a push would follow its content by
// some clock: by one that jumps, a pin that has ended may hold, and one that
// holds may have ended.
func (m *Monitor) wouldFollow(p *push) bool {
	at := []intent.Sequence{m.head}
	for _, pin := range m.pins[p.asset] {
		at = append(at, pin.Incarnation.Sequence)
	}
	return len(at) > 1 && slices.ContainsFunc(at, func(sequence intent.Sequence) bool {
		own, ok := m.at(p.asset, sequence)
		return ok && own.effective == p.effective
	})
}
