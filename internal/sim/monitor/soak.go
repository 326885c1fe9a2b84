package monitor

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// soak is since when production has been as a rollout has it for an asset.
type soak struct {
	called
	at intent.IncarnationID
	// well since then, but for illnesses too short to be seen, the last of which goes
	// on since ill.
	well, ill time.Time
}

// Produced is to be called after every change of production and of health.
func (m *Monitor) Produced() {
	if m.options.Well == nil {
		return
	}
	now := m.options.Now()
	for _, asset := range slices.Sorted(maps.Keys(m.pins)) {
		forward, backward := rolloutPins(m.pins[asset])
		if forward == nil {
			continue
		}
		m.soaksAt(asset, cmp.Or(backward, forward).Incarnation, now)
	}
	for _, asset := range m.fieldAssets() {
		m.soaksAt(asset, intent.IncarnationID{Partition: m.options.Partition, Sequence: m.head}, now)
	}
}

// soaksAt notes whether an asset is well now, as of what it is to follow.
func (m *Monitor) soaksAt(asset intent.AssetID, at intent.IncarnationID, now time.Time) {
	own, ok := m.at(asset, at.Sequence)
	s := m.rolling.soaks[asset]
	if s == nil || s.effective != own.effective {
		m.reaches(s, now)
		s = &soak{called: called{asset, own.effective}}
		m.rolling.soaks[asset] = s
	}
	s.at = at
	if !ok {
		return
	}
	m.reaches(s, now)
	switch well := m.options.Well(s.at, asset); {
	case well && s.well.IsZero(), well && !s.ill.IsZero() && now.Sub(s.ill) > m.options.Gap:
		s.well, s.ill = now, time.Time{}
	case well:
		s.ill = time.Time{}
	case !s.well.IsZero() && s.ill.IsZero():
		s.ill = now
	}
}

// reaches notes for how long it was well until now.
func (m *Monitor) reaches(s *soak, now time.Time) {
	if s == nil || s.well.IsZero() {
		return
	}
	if !s.ill.IsZero() {
		now = s.ill
	}
	m.rolling.longest[s.called] = max(m.rolling.longest[s.called], now.Sub(s.well))
}

// wellFor is for how long a content was ever well.
func (m *Monitor) wellFor(key called) time.Duration { return m.rolling.longest[key] }

// wellNow is for how long what an asset follows has been well; one that is ill for
// longer than can go unseen is not.
func (m *Monitor) wellNow(asset intent.AssetID) time.Duration {
	s, now := m.rolling.soaks[asset], m.options.Now()
	switch {
	case s == nil || s.well.IsZero() || !s.ill.IsZero() && now.Sub(s.ill) > m.options.Gap:
		return 0
	case !s.ill.IsZero():
		return s.ill.Sub(s.well)
	}
	return now.Sub(s.well)
}

// soaked reports whether what an asset was given was well for as long as its stage
// asks: now, of what the run gave it, or ever. What it had before any run did is not
// asked.
func (m *Monitor) soaked(key called, stage *intentpb.RolloutStage, now bool) bool {
	wants := stage.GetSoak().AsDuration()
	if now {
		s := m.rolling.soaks[key.asset]
		if s == nil {
			return false
		}
		return m.wellNow(key.asset) >= m.lenient(wants, s.well)
	}
	return !m.rolling.brought[key] || m.wellFor(key) >= m.lenient(wants, m.options.Now().Add(-wants))
}

// lenient is what is left of a soak when clocks go wrong: each time that one is set
// may count for as much as may pass between two looks.
func (m *Monitor) lenient(soak time.Duration, start time.Time) time.Duration {
	if !m.options.Lenient.ClockFaults {
		return soak
	}
	soak = soak * 95 / 100
	for _, at := range m.rolling.moved {
		if !at.Before(start) {
			soak -= m.options.Gap
		}
	}
	return soak
}

// FoundBad is called when a validation says that what a run brings is bad, as it does
// whenever it is asked.
func (m *Monitor) FoundBad(rollout string, run uint64) {
	if key := (runOf{rollout, run}); m.rolling.foundBad[key].IsZero() {
		m.rolling.foundBad[key] = m.options.Now()
	}
}

// FoundGood is called when a validation says that what a run brought to a stage is good.
func (m *Monitor) FoundGood(rollout string, run uint64, stage string) {
	m.rolling.foundGood[stageRun{runOf{rollout, run}, stage}] = true
}

// deceived reports whether a plugin told lately what is not so.
func (m *Monitor) deceived() bool {
	return !m.rolling.lied.IsZero() && m.options.Now().Sub(m.rolling.lied) < trustAfterLies
}

// trustAfterLies is how long what rests on a lie may go on.
const trustAfterLies = 15 * time.Minute

// Governs reports whether head has rollouts.
func (m *Monitor) Governs() bool { return len(m.policyAt(m.head).GetRollouts()) > 0 }

// Head is the newest incarnation that was seen.
func (m *Monitor) Head() intent.Sequence { return m.head }

// Lied is called when a plugin told what is not so.
func (m *Monitor) Lied() { m.rolling.lied = m.options.Now() }

// Rolling asks that rollouts go on: to be called now and then, while nothing has kept
// Lehr from it since well, and the process that acts began before began. What is known
// to be bad goes back soon (L8), and no run is silent (L9).
func (m *Monitor) Rolling(now, well, start time.Time, sweep time.Duration) {
	if m.options.Well == nil || len(m.rolling.runs) == 0 {
		return
	}
	const soon, silence = time.Minute, 3 * time.Minute
	m.readRuns()
	since := func(at time.Time) time.Duration { return min(now.Sub(at), now.Sub(well), now.Sub(start)) }
	for _, name := range slices.Sorted(maps.Keys(m.rolling.runs)) {
		run := m.rolling.runs[name]
		key := runOf{run.Name, run.Run}
		going := run.State == intent.RolloutRunning || run.State == intent.RolloutPaused
		if m.rolloutAt(m.head, run.Name) == nil || !going {
			delete(m.rolling.silent, key)
			continue
		}
		m.ask("L8")
		if at := m.rolling.foundBad[key]; !at.IsZero() && since(at) > soon {
			m.fail("L8", "run %d of %s is %s %s after a validation found it bad", run.Run, run.Name, run.State, now.Sub(at))
		}
		m.ask("L9")
		if run.State != intent.RolloutRunning || run.Progress.Waits != "" {
			delete(m.rolling.silent, key)
		} else if m.rolling.silent[key].IsZero() {
			m.rolling.silent[key] = now
		} else if since(m.rolling.silent[key]) > silence {
			m.fail("L9", "run %d of %s says nothing of what it waits for since %s", run.Run, run.Name, now.Sub(m.rolling.silent[key]))
		}
		m.knownIll(run, now, since, sweep+soon)
	}
}

// knownIll: what a run brought, and Lehr knows to be unhealthy for longer than it has
// patience with it, is bad.
func (m *Monitor) knownIll(run intent.Rollout, now time.Time, since func(time.Time) time.Duration, grace time.Duration) {
	patience := 10 * time.Minute
	if said := m.rolloutAt(m.head, run.Name).GetPatience(); said != nil {
		patience = said.AsDuration()
	}
	for _, asset := range slices.Sorted(maps.Keys(m.rolling.soaks)) {
		s := m.rolling.soaks[asset]
		forward, backward := rolloutPins(m.pins[asset])
		var text string
		var report intent.Report
		found, err := m.database.one("SELECT record FROM report WHERE partition = $1 AND asset = $2", []any{string(m.options.Partition), string(asset)}, &text)
		m.unread("a report", err)
		_, ok := m.contentAt(asset, m.head)
		ill := found && json.Unmarshal([]byte(text), &report) == nil && report.State == intent.StateInSync && report.Health.State == intent.Unhealthy &&
			report.Effective == s.effective && ok && forward != nil && backward == nil && forward.Rollout() == run.Name && forward.Incarnation == run.To && !m.options.Well(s.at, asset)
		switch {
		case !ill:
			delete(m.rolling.ill, s.called)
		case m.rolling.ill[s.called].IsZero():
			m.rolling.ill[s.called] = now
		case since(m.rolling.ill[s.called]) > patience+grace:
			m.fail("L8", "run %d of %s is %s, and %s, which it brought there, is known to be unhealthy since %s", run.Run, run.Name, run.State, asset, now.Sub(m.rolling.ill[s.called]))
		}
	}
}

// rested: when all has come to rest, every run has ended, and nothing goes back any
// more (L9).
func (m *Monitor) rested() {
	if m.options.Well == nil {
		return
	}
	m.readRuns()
	for _, name := range slices.Sorted(maps.Keys(m.rolling.runs)) {
		run := m.rolling.runs[name]
		m.hold(!run.State.Open(), "L9", "run %d of %s is %s still: it waits %q", run.Run, run.Name, run.State, run.Progress.Waits)
	}
	m.unread("the rollouts", m.database.each("SELECT name, count(*) FROM rollout WHERE partition = $1 AND open = 1 GROUP BY name", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var name string
		var count int
		err := rows.Scan(&name, &count)
		m.hold(count <= 1, "S10", "%d runs of %s go on at once", count, name)
		return err
	}))
	for _, asset := range slices.Sorted(maps.Keys(m.pins)) {
		if forward, backward := rolloutPins(m.pins[asset]); forward != nil {
			m.hold(backward == nil, "L9", "%s is still on its way back to %v", asset, backward)
			own, _ := m.at(asset, forward.Incarnation.Sequence)
			head, ok := m.at(asset, m.head)
			m.hold(!ok || own.effective == head.effective, "L9", "%s stays at %s, and head has other content", asset, forward.Incarnation)
		}
	}
}
