package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

const (
	// owed is after how long everybody is to be told that something waits: groups are
	// told of again, with what came, after five minutes.
	owed = 7 * time.Minute
	// lingers is how long something may seem to have left, and come back.
	lingers = time.Minute
	// again is after how long at most a receiver that did not work is tried again.
	again = 5*time.Minute + time.Minute
)

// telling is what waits for approvals, and who was told of it.
type telling struct {
	waits map[intent.AssetID]waited
	// due are those that each receiver must be told of, told those that it was.
	due  map[string][]awaited
	told map[string][]awaited
	// said is what head says of it, and listed since when it names each receiver.
	said   string
	listed map[string]time.Time
	// works is since when each receiver takes what it is told; zero: it does not.
	works map[string]time.Time
}

// Receives is called when a receiver begins to work, or ends.
func (m *Monitor) Receives(receiver string, works bool) {
	switch start, ok := m.telling.works[receiver]; {
	case !works:
		m.telling.works[receiver] = time.Time{}
	case ok && start.IsZero():
		m.telling.works[receiver] = m.options.Now()
	}
}

// lists takes up whom head says to tell. Whoever is named no more is owed nothing.
func (m *Monitor) lists(now time.Time) {
	var said *intentpb.Notification
	for _, n := range m.policyAt(m.head).GetNotifications() {
		if n.GetName() == m.options.Awaiting {
			said = n
		}
	}
	if text := said.String(); text != m.telling.said {
		m.telling.said = text
		clear(m.telling.listed)
		for _, receiver := range said.GetTo() {
			m.telling.listed[receiver] = now
		}
	}
	for receiver := range m.telling.due {
		if m.telling.listed[receiver].IsZero() {
			delete(m.telling.due, receiver)
		}
	}
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
	m.lists(now)
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
		m.ask("L4")
		for _, receiver := range slices.Sorted(maps.Keys(m.telling.listed)) {
			m.owes(receiver, asset, w, now)
		}
		m.telling.waits[asset] = w
		return nil
	}))
}

// owes notes that a receiver must be told that something waits, and asks whether it was
// if nothing but other receivers can have been in the way (L2).
func (m *Monitor) owes(receiver string, asset intent.AssetID, w waited, now time.Time) {
	start := later(w.since, m.telling.listed[receiver])
	if now.Sub(start) <= owed {
		return
	}
	// What it was told of before an edit it is told of again.
	due := awaited{asset, later(w.began, m.telling.listed[receiver])}
	if !slices.Contains(m.telling.due[receiver], due) {
		m.telling.due[receiver] = append(m.telling.due[receiver], due)
	}
	if works, ok := m.telling.works[receiver]; ok && (works.IsZero() || now.Sub(works) <= again) {
		return
	}
	m.hold(m.wasTold(receiver, due), "L2", "asset %s waits for an approval since %s, and %s works and was not told", asset, start.UTC().Format(time.TimeOnly), receiver)
}

// wasTold reports whether a receiver was told of what waits, since it does.
func (m *Monitor) wasTold(receiver string, of awaited) bool {
	return slices.ContainsFunc(m.telling.told[receiver], func(told awaited) bool {
		return told.asset == of.asset && told.at.After(of.at.Add(-lingers))
	})
}

// Notified is called when a receiver was told that an asset waits for an approval.
func (m *Monitor) Notified(receiver string, asset intent.AssetID, at time.Time) {
	m.telling.told[receiver] = append(m.telling.told[receiver], awaited{asset, at})
}

// everybodyTold: once all is healed, each receiver was told at least once of what waited
// for long (L4).
func (m *Monitor) everybodyTold() {
	for _, receiver := range m.options.Receivers {
		for _, due := range m.telling.due[receiver] {
			m.hold(m.wasTold(receiver, due), "L4", "asset %s waited for an approval from %s on, and %s was never told; told were %v", due.asset, due.at.UTC().Format(time.TimeOnly), receiver, slices.Sorted(maps.Keys(m.telling.told)))
		}
	}
}
