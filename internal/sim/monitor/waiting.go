package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Waiting asks that every asset that is not as it should be says why (L4). The
// assets named are those that production does not match. What is missing must
// be so at every call for longer than grace. It is to be asked while Lehr can
// answer: not while its processes are paused or the store takes no writes.
func (m *Monitor) Waiting(now time.Time, grace time.Duration, unlike ...intent.AssetID) {
	reports := map[intent.AssetID]intent.Report{}
	m.unread("the reports", m.database.each("SELECT asset, record FROM report WHERE partition = $1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var text string
		var report intent.Report
		if err := rows.Scan(&asset, &text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			m.fail("L4", "the report of %s cannot be read: %v", asset, err)
			return nil
		}
		reports[asset] = report
		return nil
	}))
	for _, asset := range slices.Sorted(maps.Keys(m.members)) {
		m.ask("L4")
		report, ok := reports[asset]
		unclear := m.unclear(asset, report, ok, slices.Contains(unlike, asset))
		switch start, ok := m.lateSince[asset]; {
		case unclear == "":
			delete(m.lateSince, asset)
		case !ok:
			m.lateSince[asset] = now
		case now.Sub(start) > grace:
			m.fail("L4", "for %s asset %s %s", now.Sub(start), asset, unclear)
		}
	}
}

// unclear says what is missing in the report of an asset of head; nothing: it
// is in sync, or says why not.
func (m *Monitor) unclear(asset intent.AssetID, report intent.Report, ok, unlike bool) string {
	if !ok {
		return "has no report"
	}
	target := m.follows(asset, m.options.Now())
	wanted, member := m.at(asset, target)
	if member {
		if wrong := m.unserved(asset, wanted.kind, report); wrong != "" {
			return wrong
		}
	}
	switch report.State {
	case intent.StateInSync:
		// What is pinned elsewhere was compared with head in vain.
		if unlike && target == m.head {
			return "is reported in sync, and production is not as it should be"
		}
	case intent.StateWaiting:
		if len(report.Waiting) == 0 || report.Waiting[0].Kind == "" || report.Waiting[0].Reason == "" {
			return "waits, and its report names no reason"
		}
	case intent.StatePushing:
		if m.running[report.Push] == nil {
			return "is reported as being pushed by " + string(report.Push) + ", which is not open"
		}
		return ""
	case intent.StateOff, intent.StateModel, intent.StateUnserved:
	default:
		return "is in head, and its report says " + string(report.State)
	}
	if member && report.Effective != wanted.effective && m.running[report.Push] == nil {
		return "follows content " + wanted.effective.Short() + ", and its report is of content " + report.Effective.Short()
	}
	return ""
}
