package monitor

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// End looks at the whole store when a run is over and all has come to rest.
func (m *Monitor) End(context.Context) {
	m.Commit()
	g, ok, err := m.database.glance(m.options.Partition)
	m.unread("the partition", err)
	if err != nil || !ok {
		return
	}
	m.look(g, true)
	m.reported()
	m.kept()
	m.unchanged()
	m.whole(m.options.Partition)
	m.whole("")
	m.everyBody()
	m.everyIncarnation()
	m.unread("the journal", m.database.each("SELECT id, asset, doubt FROM push WHERE partition = $1 AND open = 1 ORDER BY number",
		[]any{string(m.options.Partition)}, func(rows *sql.Rows) error {
			var id intent.PushID
			var asset intent.AssetID
			var doubt bool
			err := rows.Scan(&id, &asset, &doubt)
			m.fail("L6", "push %s of %s is still open; in doubt: %t", id, asset, doubt)
			return err
		}))
	m.ask("L6")
	m.rested()
	m.surplusGone()
	m.previewsGone()
	m.everybodyTold()
	m.claimed()
}

// everyBody hashes all bodies (S7).
func (m *Monitor) everyBody() {
	m.ask("S7")
	m.unread("the bodies", m.database.each("SELECT digest, bytes FROM body ORDER BY id", nil, func(rows *sql.Rows) error {
		var of digest
		var bytes []byte
		err := rows.Scan(&of, &bytes)
		if err == nil && bodyDigest(bytes) != of.Digest {
			m.fail("S7", "the body %s hashes to %s", of.Short(), bodyDigest(bytes).Short())
		}
		return err
	}))
}

// everyIncarnation recomputes the digest of each that is retained, from the
// rows as they are now (S7).
func (m *Monitor) everyIncarnation() {
	for _, sequence := range slices.Sorted(maps.Keys(m.retained())) {
		members := map[intent.AssetID]intent.Digest{}
		m.unread("the members", m.database.each("SELECT asset, digest FROM member WHERE partition = $1 AND from_seq <= $2 AND to_seq > $2",
			[]any{string(m.options.Partition), int64(sequence)}, func(rows *sql.Rows) error {
				var asset intent.AssetID
				var own digest
				err := rows.Scan(&asset, &own)
				if _, ok := members[asset]; ok {
					m.fail("S7", "asset %s is twice a member of incarnation %d", asset, sequence)
				}
				members[asset] = own.Digest
				return err
			}))
		if of := m.incarnations[sequence]; of != nil {
			root := m.membership(members)
			m.hold(root == of.Digest, "S7", "the members of incarnation %d hash to %s now; it was %s", sequence, root.Short(), of.Digest.Short())
		}
	}
}

// claimed: an enforced resource is claimed by its asset (S22).
func (m *Monitor) claimed() {
	m.ask("S22")
	m.unread("the claims", m.database.each(`SELECT e.asset, e.resource_key, coalesce(c.partition || ' ' || c.asset, 'nobody') FROM enforced e
		LEFT JOIN claim c ON c.resource_key = e.resource_key
		WHERE e.partition = $1 AND e.absent = 0 AND e.resource_key <> '' AND (c.partition IS NULL OR c.partition <> e.partition OR c.asset <> e.asset)`,
		[]any{string(m.options.Partition)}, func(rows *sql.Rows) error {
			var asset intent.AssetID
			var key intent.ResourceKey
			var holder string
			err := rows.Scan(&asset, &key, &holder)
			m.fail("S22", "asset %s was enforced with the resource %s, which is claimed by %s", asset, key, holder)
			return err
		}))
}

// quiet lists what may not change while nothing happens. What the collector
// removes, and marks that only spare it work, are left out.
var quiet = []string{
	"SELECT 'head', definition, head, covered, revision, pin_revision, epoch FROM partitions WHERE id = $1",
	"SELECT 'open', id, doubt FROM push WHERE partition = $1 AND open = 1 ORDER BY id",
	"SELECT asset, type, hex(effective), hex(policy), seq, resource_key, seen, absent, carried FROM enforced WHERE partition = $1 AND absent = 0 ORDER BY asset",
	// Those of what is gone are forgotten in time.
	"SELECT asset, record FROM report WHERE partition = $1 AND json_extract(record, '$.state') <> 'gone' ORDER BY asset",
	"SELECT asset, pin_rank, seq, revision, ends FROM pin WHERE partition = $1 ORDER BY asset, pin_rank",
	"SELECT asset, created, ends FROM hold WHERE partition = $1 ORDER BY asset",
	"SELECT partition, since FROM stop ORDER BY partition",
	"SELECT asset, hex(effective), hex(plan), created FROM approval WHERE partition = $1 AND used_by = '' AND ends = 0 ORDER BY asset, effective, plan",
	"SELECT asset, hex(effective), hex(plan), rejecter FROM rejection WHERE partition = $1 AND ends = 0 ORDER BY asset, effective, plan, rejecter",
	"SELECT 'held', digest, number FROM candidate WHERE partition = $1 AND state = 'held' ORDER BY digest",
	"SELECT name, used FROM budget WHERE partition = $1 AND used <> 0 ORDER BY name",
	"SELECT resource_key, asset FROM claim WHERE partition = $1 AND asset IN (SELECT asset FROM member WHERE partition = $1 AND to_seq = 9223372036854775807) ORDER BY resource_key",
	"SELECT seq, name, value FROM label WHERE partition = $1 AND person = 1 ORDER BY seq, name",
	"SELECT a.partition, count(*) FROM audit a, json_each(a.records) r WHERE a.partition IN ('', $1) AND json_extract(r.value, '$.verb') <> 'collect' GROUP BY a.partition ORDER BY a.partition",
}

// Quiet lists all that a fixed point may not change (L10), one line a row.
func (m *Monitor) Quiet() (lines []string) {
	for _, text := range quiet {
		var arguments []any
		if slices.Contains([]byte(text), '$') {
			arguments = []any{string(m.options.Partition)}
		}
		m.unread("the store", m.database.each(text, arguments, func(rows *sql.Rows) error {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, targets := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range values {
				targets[i] = &values[i]
			}
			err = rows.Scan(targets...)
			lines = append(lines, strings.Join(columns, " ")+": "+string(bytes.Join(rawBytes(values), []byte(" | "))))
			return err
		}))
	}
	return lines
}

func rawBytes(values []sql.RawBytes) (list [][]byte) {
	for _, value := range values {
		list = append(list, value)
	}
	return list
}
