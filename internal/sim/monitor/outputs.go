package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// outputs is what plugins told of assets in sync, and what became of it: by the answers of
// plugins and the history of the document, which the monitor reads itself.
type outputs struct {
	// told are the values that each asset told, with when it did last; of the empty one: that
	// it told none. persons are those that people wrote of it.
	told    map[intent.AssetID]map[string]time.Time
	persons map[intent.AssetID]map[string]bool
	// current is what whoever acts was told last, and since when the same.
	current map[intent.AssetID]sameSince
	// stored is what the document has, as of its revision.
	stored   map[intent.AssetID]string
	revision int
	// changes are when Lehr changed the output of each asset.
	changes map[intent.AssetID][]time.Time
	// acquired is when the lease was taken last.
	acquired time.Time
}

type sameSince struct {
	value       string
	since, last time.Time
}

func newOutputs() outputs {
	return outputs{
		told: map[intent.AssetID]map[string]time.Time{}, persons: map[intent.AssetID]map[string]bool{}, current: map[intent.AssetID]sameSince{},
		stored: map[intent.AssetID]string{}, changes: map[intent.AssetID][]time.Time{},
	}
}

const (
	// outputsWithin an hour are written at most, of one asset: three at once, then one after
	// a minute, two, four, and so on; and some whose writer did not learn of it.
	outputsWithin = 12
	// outputGrace is how long a value that stays may be missing in the document, and
	// dampedGrace one that kept changing before.
	outputGrace = 3 * time.Minute
	dampedGrace = time.Hour + outputGrace
	// outputFree changes within an hour are not damped.
	outputFree = 3
)

// OutputTold is called when a plugin tells what an asset in sync has; byActing: to whoever holds
// the lease.
func (m *Monitor) OutputTold(news world.OutputNews, byActing bool) {
	o, now := &m.outputs, m.options.Now()
	if o.told[news.Asset] == nil {
		o.told[news.Asset] = map[string]time.Time{}
	}
	o.told[news.Asset][news.Value] = now
	if !byActing {
		return
	}
	current := o.current[news.Asset]
	if current.since.IsZero() || current.value != news.Value {
		current = sameSince{value: news.Value, since: now}
	}
	current.last = now
	o.current[news.Asset] = current
}

// acquires notes that the lease was taken: whoever has it now was told nothing yet.
func (o *outputs) acquires(now time.Time) {
	o.acquired = now
	clear(o.current)
}

// outputsWritten reads the new revisions of the document.
func (m *Monitor) outputsWritten() {
	if m.options.Asks == nil {
		return
	}
	m.unread("the outputs", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = 'outputs' AND revision > $2 ORDER BY revision",
		[]any{string(m.options.Partition), int64(m.outputs.revision)}, func(rows *sql.Rows) error {
			var author string
			var text []byte
			if err := rows.Scan(&m.outputs.revision, &author, &text); err != nil {
				return err
			}
			var changes []fieldChange
			if err := json.Unmarshal(text, &changes); err != nil {
				return err
			}
			for _, c := range changes {
				m.outputChanged(author == intent.OutputActor.Name, splitPointer(c.Path), c.Before, c.After)
			}
			return nil
		}))
}

func splitPointer(path string) (parts []string) {
	if path == "" {
		return nil
	}
	for _, part := range strings.Split(path[1:], "/") {
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
	}
	return parts
}

// outputChanged takes up one change: of all assets, of one, or of one output.
func (m *Monitor) outputChanged(byLehr bool, path []string, previous, after json.RawMessage) {
	if len(path) < 2 {
		was, is := m.outputMap(previous), m.outputMap(after)
		names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if string(was[name]) != string(is[name]) {
				m.outputChanged(byLehr, append(slices.Clone(path), name), was[name], is[name])
			}
		}
		return
	}
	asset, value := intent.AssetID(path[0]), string(after)
	if byLehr {
		m.outputByLehr(asset, path[1], value)
	} else if m.outputs.persons[asset] == nil {
		m.outputs.persons[asset] = map[string]bool{value: true}
	} else {
		m.outputs.persons[asset][value] = true
	}
	if path[1] == world.OutputName {
		m.outputs.stored[asset] = value
	}
}

// outputMap reads what is at a path that holds several; nothing: none.
func (m *Monitor) outputMap(text json.RawMessage) (values map[string]json.RawMessage) {
	if len(text) > 0 {
		m.unread("a change of outputs", json.Unmarshal(text, &values))
	}
	return values
}

// outputByLehr judges what Lehr wrote of one asset: what its plugin told whoever holds the
// lease (S4), of no asset of which none told (S10), and not too often (L10). What is taken
// out was told to be there no more (S11).
func (m *Monitor) outputByLehr(asset intent.AssetID, name, value string) {
	o, now := &m.outputs, m.options.Now()
	told, ok := o.told[asset]
	m.hold(ok && name == world.OutputName, "S10", "%q of %s was written as %q, and no plugin told that", name, asset, value)
	if !ok {
		return
	}
	at, ok := told[value]
	if value == "" {
		m.hold(ok && !at.Before(o.acquired), "S11", "what %s told was taken out, and its plugin did not tell that it is gone since the lease was taken at %s", asset, o.acquired.UTC().Format(time.TimeOnly))
	} else {
		m.hold(ok && !at.Before(o.acquired), "S4", "the output of %s was written as %s, which nobody told who holds the lease since %s", asset, value, o.acquired.UTC().Format(time.TimeOnly))
	}
	o.changes[asset] = append(slices.DeleteFunc(o.changes[asset], func(t time.Time) bool { return now.Sub(t) > time.Hour }), now)
	m.hold(len(o.changes[asset]) <= outputsWithin, "L10", "the output of %s was written %d times within an hour", asset, len(o.changes[asset]))
}

// carriesOutput: what is pushed has no gap, and no value that neither the plugin of the asset
// that it is of, nor a person, told (S11).
func (m *Monitor) carriesOutput(e world.Effect) {
	content, ok := m.contentAt(e.Asset, e.Incarnation.Sequence)
	if !ok || content.asks.Teller == "" || e.Delete || e.Action == intent.ActionDelete || content.turndown {
		return
	}
	_, byPlugin := m.outputs.told[content.asks.Teller][content.asks.Value]
	m.hold(byPlugin || m.outputs.persons[content.asks.Teller][content.asks.Value], "S11",
		"effect %d of push %s of %s brings %s, which %s did not tell", e.Number, e.Push, e.Asset, content.asks.Value, content.asks.Teller)
}

// OutputsKept: what whoever acts was told, and is told still, is in the document after a
// while (L4). It is to be asked while nothing keeps Lehr from writing it, which is so since
// well; lately is how old the last answer may be.
func (m *Monitor) OutputsKept(now, well time.Time, lately time.Duration) {
	o := &m.outputs
	for _, member := range slices.Sorted(maps.Keys(m.members)) {
		current, ok := o.current[member]
		if !ok || now.Sub(current.last) > lately || m.options.Lenient.ClockFaults {
			continue
		}
		grace := outputGrace
		if recent := slices.DeleteFunc(slices.Clone(o.changes[member]), func(t time.Time) bool { return now.Sub(t) > 2*time.Hour }); len(recent) >= outputFree {
			grace = dampedGrace
		}
		countsFrom := later(current.since, well)
		m.hold(now.Sub(countsFrom) <= grace || o.stored[member] == current.value, "L4", "%s tells %q since %s, and the document has %q", member, current.value, countsFrom.UTC().Format(time.TimeOnly), o.stored[member])
	}
}

// AskedOutput is the output that a content asks for, by its own words: of whom, and what
// stands there as JSON.
type AskedOutput struct {
	Teller intent.AssetID
	Value  string
}
