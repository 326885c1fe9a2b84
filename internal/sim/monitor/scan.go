package monitor

import (
	"database/sql"
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// enforcedRow is a record of what an asset was in sync with.
type enforcedRow struct {
	kind            intent.TypeName
	effective       intent.Digest
	sequence        intent.Sequence
	policy          intent.Digest
	key             intent.ResourceKey
	absent, carried bool
}

// counts are how many rows the tables had that the collector works on.
type counts struct{ incarnations, bodies, members int }

// scan looks at what leaves no trace in the audit; the dear looks are taken
// when something was removed, and now and then.
func (m *Monitor) scan(turn int) {
	m.enforced()
	if turn%4 == 0 {
		m.reported()
		m.labelled()
	}
	var now counts
	_, err := m.database.one(`SELECT (SELECT count(*) FROM incarnation), (SELECT count(*) FROM body), (SELECT count(*) FROM member)`, nil,
		&now.incarnations, &now.bodies, &now.members)
	m.unread("the store", err)
	if before := m.counts; now.incarnations < before.incarnations || now.bodies < before.bodies || now.members < before.members || turn%16 == 0 {
		m.kept()
	}
	m.counts = now
	if turn%64 == 0 {
		m.unchanged()
	}
}

// seeTurnedDown notes the assets of which nothing is left, as they asked.
func (m *Monitor) seeTurnedDown() {
	m.unread("the enforced records", m.database.each("SELECT asset FROM enforced WHERE partition = $1 AND absent = 1",
		[]any{string(m.options.Partition)}, func(rows *sql.Rows) error {
			var asset intent.AssetID
			err := rows.Scan(&asset)
			m.turnedDown[asset] = true
			return err
		}))
}

const enforcedText = "SELECT asset, type, effective, policy, seq, resource_key, absent, carried FROM enforced WHERE partition = $1 ORDER BY asset"

// enforced reads the enforced records: no two name one resource (S22), and
// each is of an asset and a content that was said (S26).
func (m *Monitor) enforced() {
	records, keys := map[intent.AssetID]enforcedRow{}, map[intent.ResourceKey]intent.AssetID{}
	m.ask("S22")
	m.ask("S26")
	m.unread("the enforced records", m.database.each(enforcedText, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var effective, policy digest
		var r enforcedRow
		var sequence int64
		if err := rows.Scan(&asset, &r.kind, &effective, &policy, &sequence, &r.key, &r.absent, &r.carried); err != nil {
			return err
		}
		r.effective, r.policy, r.sequence = effective.Digest, policy.Digest, intent.Sequence(sequence)
		records[asset] = r
		if other, ok := keys[r.key]; ok && r.key != "" && !r.absent {
			m.fail("S22", "assets %s and %s were both enforced with the resource %s", other, asset, r.key)
		}
		if !r.absent {
			keys[r.key] = asset
		}
		if m.records[asset] != r {
			m.sane(asset, r)
		}
		if r.absent && !m.records[asset].absent {
			m.givenBack(asset)
		}
		return nil
	}))
	for _, asset := range slices.Sorted(maps.Keys(m.records)) {
		if _, ok := records[asset]; !ok {
			m.forgotten(asset)
		}
	}
	m.records, m.scanned = records, len(m.pushes)
	clear(m.released)
}

// forgotten: the record of what is there goes only with a claim, or when
// somebody disowns the asset (S17). What was to go may be gone meanwhile.
func (m *Monitor) forgotten(asset intent.AssetID) {
	went := m.records[asset].absent || slices.ContainsFunc(m.spans[asset], func(s span) bool { return m.bodies[s.digest].turndown })
	m.hold(went || m.released[asset], "S17", "the record of %s, enforced at %d, is gone, and nobody disowned it", asset, m.records[asset].sequence)
}

// sane: the record is of content that the asset had. One that was carried to
// another asset tells of the one before.
func (m *Monitor) sane(asset intent.AssetID, r enforcedRow) {
	if r.carried {
		return
	}
	own, ok := m.at(asset, r.sequence)
	if !ok {
		m.fail("S26", "asset %s is recorded as enforced at %d, which does not have it", asset, r.sequence)
		return
	}
	m.hold(own.effective == r.effective && own.kind == r.kind, "S26", "asset %s is recorded as enforced at %d with content %s, a %s; there it is %s, a %s",
		asset, r.sequence, r.effective.Short(), r.kind, own.effective.Short(), own.kind)
	m.seenInSync(asset, r.effective, "recorded as enforced")
	content := m.bodies[own.digest]
	m.hold(!slices.ContainsFunc(modes(m.bodies[r.policy].policy, content), onlyLooks), "S21", "asset %s is recorded as enforced at %d, where it is only looked at: %v, policy known: %t", asset, r.sequence, modes(m.bodies[r.policy].policy, content), m.bodies[r.policy].there)
	m.hold(!r.absent || content.turndown, "S26", "asset %s is recorded as gone at %d, where it has no Turndown", asset, r.sequence)
}

// labelled: every label that a person set has its record (S25).
func (m *Monitor) labelled() {
	m.unread("the labels", m.database.each("SELECT seq, name, value FROM label WHERE partition = $1 AND person = 1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var l label
		var sequence int64
		err := rows.Scan(&sequence, &l.name, &l.value)
		l.subject = intent.IncarnationID{Partition: m.options.Partition, Sequence: intent.Sequence(sequence)}.String()
		m.hold(m.labels[l], "S25", "label %s=%s of incarnation %d has no audit record", l.name, l.value, sequence)
		return err
	}))
}

// needed lists what names an incarnation.
const needed = `SELECT 'head', head FROM partitions WHERE id = $1 AND head > 0
	UNION ALL SELECT 'a pin of ' || asset, seq FROM pin WHERE partition = $1 AND seq > 0
	UNION ALL SELECT 'run ' || run || ' of ' || name, target FROM rollout WHERE partition = $1 AND open = 1 AND target > 0
	UNION ALL SELECT 'the enforced record of ' || asset, seq FROM enforced WHERE partition = $1
	UNION ALL SELECT 'push ' || id, target FROM push WHERE partition = $1 AND open = 1
	UNION ALL SELECT 'held candidate ' || digest, base FROM candidate WHERE partition = $1 AND state = 'held' AND base > 0
	UNION ALL SELECT 'label ' || name, seq FROM label WHERE partition = $1 AND person = 1`

// kept: what is named is there, with its members and bodies (S17).
func (m *Monitor) kept() {
	m.ask("S17")
	retained := m.retained()
	for back := range intent.Sequence(m.options.Keep) {
		if sequence := m.head - back; back < m.head && !retained[sequence] {
			m.fail("S17", "incarnation %d was collected, and head is %d: the newest %d are to be kept", sequence, m.head, m.options.Keep)
		}
	}
	complete := map[intent.Sequence]bool{}
	m.unread("what names an incarnation", m.database.each(needed, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var what string
		var at int64
		if err := rows.Scan(&what, &at); err != nil {
			return err
		}
		if sequence := intent.Sequence(at); !retained[sequence] {
			m.fail("S17", "%s names incarnation %d, which was collected", what, sequence)
		} else {
			complete[sequence] = true
		}
		return nil
	}))
	m.unread("the members", m.database.each(`SELECT m.asset, m.from_seq FROM member m WHERE m.partition = $1
		AND NOT EXISTS (SELECT 1 FROM body WHERE digest = m.digest)`, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var from int64
		err := rows.Scan(&asset, &from)
		m.fail("S17", "the body of %s as of incarnation %d was collected", asset, from)
		return err
	}))
	m.unread("the candidates", m.database.each(`SELECT e.candidate, e.asset FROM candidate_entry e JOIN candidate c
		ON c.partition = e.partition AND c.digest = e.candidate WHERE e.partition = $1 AND c.state <> 'saving' AND e.has_body = 1
		AND NOT EXISTS (SELECT 1 FROM body WHERE digest = e.digest)`, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var candidate string
		var asset intent.AssetID
		err := rows.Scan(&candidate, &asset)
		m.fail("S17", "the body of %s in candidate %s was collected, and the candidate is shown", asset, candidate)
		return err
	}))
	for _, sequence := range slices.Sorted(maps.Keys(complete)) {
		var count int
		_, err := m.database.one("SELECT count(*) FROM member WHERE partition = $1 AND from_seq <= $2 AND to_seq > $2",
			[]any{string(m.options.Partition), int64(sequence)}, &count)
		m.unread("the members", err)
		if of := m.incarnations[sequence]; of != nil && count != of.Count {
			m.fail("S17", "incarnation %d has %d members left of %d, and is still needed", sequence, count, of.Count)
		}
	}
}

// retained reads which incarnations there are, and asks that their records are
// what they were (S7).
func (m *Monitor) retained() map[intent.Sequence]bool {
	retained := map[intent.Sequence]bool{}
	m.ask("S7")
	m.unread("the incarnations", m.database.each("SELECT seq, record FROM incarnation WHERE partition = $1 ORDER BY seq", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var at int64
		var text string
		if err := rows.Scan(&at, &text); err != nil {
			return err
		}
		sequence := intent.Sequence(at)
		retained[sequence] = true
		switch known := m.incarnations[sequence]; {
		case known == nil:
			m.fail("S7", "there is an incarnation %d that was never published", sequence)
		case known.record != sum("", []byte(text)):
			m.fail("S7", "the record of incarnation %d is not what it was", sequence)
		}
		return nil
	}))
	return retained
}

const memberText = `SELECT asset, from_seq, to_seq, type, digest, effective FROM member WHERE partition = $1 AND from_seq <= $2 ORDER BY asset, from_seq`

// unchanged compares all memberships with what they were when they were
// published (S7). Those that no retained incarnation needs may be gone.
func (m *Monitor) unchanged() {
	m.ask("S7")
	type place struct {
		asset intent.AssetID
		from  intent.Sequence
	}
	there := map[place]bool{}
	m.unread("the members", m.database.each(memberText, []any{string(m.options.Partition), int64(m.head)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var from, to int64
		var row span
		var own, effective digest
		if err := rows.Scan(&asset, &from, &to, &row.kind, &own, &effective); err != nil {
			return err
		}
		row.from, row.to, row.digest, row.effective = intent.Sequence(from), intent.Sequence(to), own.Digest, effective.Digest
		if row.to > m.head {
			row.to = open // Closed by what is staged, which no incarnation sees.
		}
		there[place{asset, row.from}] = true
		known, _ := m.at(asset, row.from)
		if known != row {
			m.fail("S7", "asset %s is a member from %d to %d with content %s, a %s; it was one from %d to %d with content %s, a %s", asset,
				row.from, row.to, row.digest.Short(), row.kind, known.from, known.to, known.digest.Short(), known.kind)
		}
		return nil
	}))
	retained := m.retained()
	for _, asset := range slices.Sorted(maps.Keys(m.spans)) {
		for _, s := range m.spans[asset] {
			if !there[place{asset, s.from}] && within(retained, s) {
				m.fail("S7", "asset %s is no member from %d to %d any more, and was", asset, s.from, s.to)
			}
		}
	}
}

// within reports whether any retained incarnation is in the span.
func within(retained map[intent.Sequence]bool, s span) bool {
	for sequence := range retained {
		if s.from <= sequence && sequence < s.to {
			return true
		}
	}
	return false
}
