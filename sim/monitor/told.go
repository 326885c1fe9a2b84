package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"lehr.dev/intent"
)

const (
	// owed is after how long everybody is to be told that something waits: groups are
	// told of again, with what came, after five minutes.
	owed = 7 * time.Minute
	// lingers is how long something may seem to have left, and come back.
	lingers = time.Minute
)

// telling is what waits for approvals, and who was told of it.
type telling struct {
	waits map[intent.AssetID]waited
	// due are those that somebody must be told of, once told, by whom.
	due  []awaited
	told map[string][]awaited
}

// waited is since when an asset waits, was seen so last, and began to with short pauses.
type waited struct{ since, last, began time.Time }

// awaited is an asset, since when it waits or when that was told.
type awaited struct {
	asset intent.AssetID
	at    time.Time
}

// Owed notes what the store says to wait for approvals. It is to be asked always: well is
// since when nothing keeps Lehr from telling.
func (m *Monitor) Owed(now, well time.Time) {
	if len(m.options.Receivers) == 0 || m.options.Lenient.ClockFaults {
		return
	}
	m.unread("the reports", m.database.each("SELECT asset, record FROM report WHERE partition = $1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var text string
		var report intent.Report
		if err := rows.Scan(&asset, &text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return err
		}
		w := m.telling.waits[asset]
		if !slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitApproval }) {
			w.since = time.Time{}
			m.telling.waits[asset] = w
			return nil
		}
		if w.since.IsZero() || w.since.Before(well) {
			w.since = now
		}
		if w.last.IsZero() || now.Sub(w.last) > lingers {
			w.began = now
		}
		w.last = now
		if m.ask("L4"); now.Sub(w.since) > owed && !slices.Contains(m.telling.due, awaited{asset, w.began}) {
			m.telling.due = append(m.telling.due, awaited{asset, w.began})
		}
		m.telling.waits[asset] = w
		return nil
	}))
}

// Notified is called when a receiver was told that an asset waits for an approval.
func (m *Monitor) Notified(receiver string, asset intent.AssetID, at time.Time) {
	m.telling.told[receiver] = append(m.telling.told[receiver], awaited{asset, at})
}

// everybodyTold: once all is healed, each receiver was told at least once of what waited
// for long (L4).
func (m *Monitor) everybodyTold() {
	for _, receiver := range m.options.Receivers {
		for _, due := range m.telling.due {
			m.hold(slices.ContainsFunc(m.telling.told[receiver], func(told awaited) bool {
				return told.asset == due.asset && told.at.After(due.at.Add(-lingers))
			}), "L4", "asset %s waited for an approval from %s on, and %s was never told; told were %v", due.asset, due.at.UTC().Format(time.TimeOnly), receiver, slices.Sorted(maps.Keys(m.telling.told)))
		}
	}
}
