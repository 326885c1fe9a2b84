package monitor

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// claims are whose each resource is.
type claims struct {
	owners map[intent.ResourceKey]owner
	// carried is the claim that was carried last.
	carried carriage
	// scanned is how many pushes there were at the last scan.
	scanned int
}

type owner struct {
	partition intent.PartitionID
	asset     intent.AssetID
}

// carriage is a claim that passed to another asset, by a record of the audit.
type carriage struct {
	number uint64
	key    intent.ResourceKey
	// from is the asset that had it, or the partition.
	from      intent.AssetID
	partition intent.PartitionID
}

// carriageOf reads "claim carried: resource K from A, as W"; A may be another
// partition. A claim that was given back passes to nobody.
func carriageOf(r record) (c carriage, carried bool, err error) {
	detail, carried := strings.CutPrefix(r.Detail, "claim carried: ")
	if !carried {
		return c, false, nil
	}
	c.number = r.Number
	if _, err := fmt.Sscanf(detail, "resource %q from partition %q", &c.key, &c.partition); err == nil {
		return c, true, nil
	}
	c.partition = ""
	_, err = fmt.Sscanf(detail, "resource %q from %q", &c.key, &c.from)
	return c, true, err
}

// carries takes up that a claim passed to another asset. It may when the one
// before has left head, was seen to be another resource since, or is asked to go
// and the other is not; not while a
// push of it is open or a pin keeps it followed (S3), and never from another
// partition that there is (S12).
func (m *Monitor) carries(r record, news *news) {
	c, carried, err := carriageOf(r)
	m.hold(err == nil, "S25", "the record of a claim of %s does not say what was carried: %q", r.Subject, r.Detail)
	if !carried || err != nil {
		return
	}
	m.carried = c
	if m.ask("S12"); c.partition != "" {
		m.hold(!m.registered(c.partition), "S12", "asset %s took the resource %s from partition %s", r.Subject, c.key, c.partition)
		return
	}
	elsewhere := m.elsewhere(c)
	m.released[c.from] = m.released[c.from] || !elsewhere
	body, inHead := m.members[c.from]
	leaves := m.bodies[body].turndown && !m.bodies[m.members[intent.AssetID(r.Subject)]].turndown
	m.hold(!inHead || leaves || elsewhere, "S3", "asset %s took the resource %s from %s, which is in head, and stays", r.Subject, c.key, c.from)
	for _, id := range slices.Sorted(maps.Keys(m.running)) {
		m.hold(m.running[id].asset != c.from, "S3", "asset %s took the resource %s from %s, whose push %s is open", r.Subject, c.key, c.from, id)
	}
	if news.unclear(c.from) {
		return
	}
	for _, pin := range m.pins[c.from] {
		m.hold(!pin.Until.IsZero() && !r.At.Before(pin.Until), "S3", "asset %s took the resource %s from %s, which is pinned to %d", r.Subject, c.key, c.from, pin.Incarnation.Sequence)
	}
}

// elsewhere: the record of who had the claim is of another resource.
func (m *Monitor) elsewhere(c carriage) (elsewhere bool) {
	_, err := m.database.one("SELECT resource_key NOT IN ('', $3) AND absent = 0 AND carried = 0 FROM enforced WHERE partition = $1 AND asset = $2",
		[]any{string(m.options.Partition), string(c.from), string(c.key)}, &elsewhere)
	m.unread("the enforced records", err)
	return elsewhere
}

func (m *Monitor) registered(partition intent.PartitionID) (registered bool) {
	_, err := m.database.one("SELECT registered FROM partitions WHERE id = $1", []any{string(partition)}, &registered)
	m.unread("the partitions", err)
	return registered
}

// tookOver: a removal takes no resource over from another asset, for of that
// nobody asked it (S5). The claim is carried just before the admission.
func (m *Monitor) tookOver(p *push, r record) {
	content, _ := m.contentAt(p.asset, p.target)
	took := m.carried.key == p.key && m.carried.number == r.Number-1
	m.hold(!content.turndown || !took, "S5", "push %s is to remove %s for %s, which took it from %s", p.id, p.key, p.asset, m.carried.from)
}

// owned: while a push of a resource is open, its claim is the asset's (S3).
func (m *Monitor) owned() {
	m.owners = map[intent.ResourceKey]owner{}
	m.unread("the claims", m.database.each("SELECT resource_key, partition, asset FROM claim", nil, func(rows *sql.Rows) error {
		var key intent.ResourceKey
		var by owner
		err := rows.Scan(&key, &by.partition, &by.asset)
		m.owners[key] = by
		return err
	}))
	for _, id := range slices.Sorted(maps.Keys(m.running)) {
		p := m.running[id]
		by := m.owners[p.key]
		m.hold(p.key == "" || by == m.owner(p.asset), "S3", "push %s of %s is open, and its resource %s is claimed by %q of partition %q", id, p.asset, p.key, by.asset, by.partition)
	}
}

func (m *Monitor) owner(asset intent.AssetID) owner { return owner{m.options.Partition, asset} }

// givenBack: what was turned down just now, and has not been pushed anew, has
// no claim: else others would wait for it for ever (L7).
func (m *Monitor) givenBack(asset intent.AssetID) {
	m.ask("L7")
	for _, p := range m.pushes {
		content, _ := m.contentAt(p.asset, p.target)
		if p.asset == asset && (p.closed.IsZero() || p.ordinal > m.scanned && !content.turndown) {
			return
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.owners)) {
		if m.owners[key] == m.owner(asset) {
			m.fail("L7", "asset %s is turned down, and the resource %s is still its own", asset, key)
		}
	}
}
