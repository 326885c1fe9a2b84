package monitor

import (
	"database/sql"
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/intent"
)

// answers are what plugins themselves said, before Lehr made anything of it.
type answers struct {
	// inSync are the contents that each asset was ever called in sync with.
	inSync map[called]bool
	// heard: the run tells of answers.
	heard bool
	// swapped are the keys of other assets that a plugin told of an asset as its own.
	swapped map[swap]bool
	// reads are when production began to be read for the last answer about each asset.
	reads map[intent.AssetID]time.Time
}

// swap is an asset with the key of another.
type swap struct {
	asset intent.AssetID
	key   intent.ResourceKey
}

type called struct {
	asset     intent.AssetID
	effective intent.Digest
}

// Answered is called with what a plugin says of an asset as of an incarnation:
// whether it is in sync.
func (m *Monitor) Answered(id intent.IncarnationID, asset intent.AssetID, inSync bool) {
	m.heard = true
	own, ok := m.at(asset, id.Sequence)
	if !ok || !inSync {
		return
	}
	m.inSync[called{asset, own.effective}] = true
	if p, paced := m.paces.of[asset]; paced && p.effective == own.effective {
		p.seen = true
		m.paces.of[asset] = p
	}
}

// Read is called with when production began to be read for an answer about an asset, where
// plugins keep what they read.
func (m *Monitor) Read(asset intent.AssetID, start time.Time) { m.reads[asset] = start }

// Swapped is called when a plugin tells of an asset what is there under the key of
// another. Lehr cannot know: whose a key is only the plugin can tell.
func (m *Monitor) Swapped(asset intent.AssetID, key intent.ResourceKey) {
	m.swapped[swap{asset, key}] = true
}

// seenInSync: what is told to be in sync with some content was called so by a
// plugin; silence, or what it cannot tell, is no such answer (S11).
func (m *Monitor) seenInSync(asset intent.AssetID, effective intent.Digest, how string) {
	if m.heard {
		m.hold(m.inSync[called{asset, effective}], "S11", "asset %s is "+how+" with content %s, and no plugin ever called it so", asset, effective.Short())
	}
}

// reported: every report is of an asset that was said (S26), and what it calls
// in sync was seen so (S11).
func (m *Monitor) reported() {
	m.ask("S26")
	m.unread("the reports", m.database.each("SELECT asset, record FROM report WHERE partition = $1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var text string
		var report intent.Report
		if err := rows.Scan(&asset, &text); err != nil {
			return err
		}
		if _, ok := m.spans[asset]; !ok {
			m.fail("S26", "there is a report of %s, which was never in an incarnation", asset)
		}
		if json.Unmarshal([]byte(text), &report) == nil && report.State == intent.StateInSync {
			m.seenInSync(asset, report.Effective, "reported in sync")
		}
		return nil
	}))
}
