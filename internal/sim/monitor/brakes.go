package monitor

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// brakes are what people, and programs for them, have put in the way.
type brakes struct {
	pins      map[intent.AssetID][]intent.Pin
	holds     map[intent.AssetID]held
	stored    map[intent.PartitionID]bool // stops in the store
	approvals map[approvalKey]approval
	// stops are those that a person was told to be in force, and since when.
	stops map[intent.PartitionID]answeredStop
	// lastPin is the highest revision of a pin, revisions all that were seen.
	lastPin   uint64
	revisions map[uint64]string
	// resumed: the last record of a scope is its resumption.
	resumed map[intent.PartitionID]bool
	// inForce are the stops, and allowed the unused approvals, as the audit
	// has it.
	inForce map[intent.PartitionID]bool
	allowed map[agreed]bool
	// refused are the rejections that were not taken back, and until when each
	// holds; lifted are the overrides: both as the audit has it.
	refused map[agreed]time.Time
	lifted  map[lift]bool
	// objections and lifts are those in the store, and when they end.
	objections map[agreed]int64
	lifts      map[lift]int64
	// madeBy are the people who published incarnations, or let them through.
	madeBy map[intent.Sequence][]string
}

func newBrakes() brakes {
	return brakes{
		pins: map[intent.AssetID][]intent.Pin{}, holds: map[intent.AssetID]held{}, stored: map[intent.PartitionID]bool{},
		approvals: map[approvalKey]approval{}, stops: map[intent.PartitionID]answeredStop{},
		revisions: map[uint64]string{}, resumed: map[intent.PartitionID]bool{},
		inForce: map[intent.PartitionID]bool{}, allowed: map[agreed]bool{}, madeBy: map[intent.Sequence][]string{},
		refused: map[agreed]time.Time{}, lifted: map[lift]bool{},
	}
}

// answeredStop is a stop that a person was told to be in force.
type answeredStop struct {
	at time.Time
	// unwritten: it was told that the store did not have it. What is admitted meanwhile is
	// for the process to keep from acting.
	unwritten bool
	// of is the one process that knows it, for as long as it lives; nil: all do.
	of    string
	lives func() bool
}

// binds reports whether a process must obey it.
func (s answeredStop) binds(process string) bool {
	return s.lives == nil || s.of == process && s.lives()
}

type held struct{ created, ends int64 }

// approvalKey is what an approval is bound to.
type approvalKey struct {
	asset           intent.AssetID
	effective, plan intent.Digest
	by              string
}

type approval struct {
	created, ends int64
	alone         bool
	usedBy        intent.PushID
}

// follows is the incarnation that an asset must follow.
func (m *Monitor) follows(asset intent.AssetID, now time.Time) intent.Sequence {
	if pin := m.pinOf(asset, now); pin != nil {
		return pin.Incarnation.Sequence // Of no incarnation: nothing was selected for it.
	}
	return m.head
}

// pinnedTo is the incarnation that an asset is pinned to; 0: none.
func (m *Monitor) pinnedTo(asset intent.AssetID, now time.Time) intent.Sequence {
	if pin := m.pinOf(asset, now); pin != nil {
		return pin.Incarnation.Sequence
	}
	return 0
}

// pinOf is the pin that counts; nil: none does.
func (m *Monitor) pinOf(asset intent.AssetID, now time.Time) *intent.Pin {
	var best *intent.Pin
	for i, pin := range m.pins[asset] {
		if !pin.Until.IsZero() && !now.Before(pin.Until) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(pin.Rank, best.Rank), cmp.Compare(pin.Revision, best.Revision)) > 0 {
			best = &m.pins[asset][i]
		}
	}
	return best
}

const pinsText = "SELECT asset, pin_rank, seq, revision, holder, origin, ends, back FROM pin WHERE partition = $1 ORDER BY asset, pin_rank"

// readPins reads all pins and asks that they only go forward (S16).
func (m *Monitor) readPins(counter uint64) map[intent.AssetID][]intent.Pin {
	pins := map[intent.AssetID][]intent.Pin{}
	highest := m.lastPin
	err := m.database.each(pinsText, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		pin := intent.Pin{}
		var ends, back int64
		if err := rows.Scan(&pin.Asset, &pin.Rank, &pin.Incarnation.Sequence, &pin.Revision, &pin.Holder.Name, &pin.Holder.Origin, &ends, &back); err != nil {
			return err
		}
		pin.Back = back != 0
		pin.Until, pin.Incarnation.Partition = moment(ends), m.options.Partition
		pins[pin.Asset] = append(pins[pin.Asset], pin)
		what := pinWords(pin)
		known, ok := m.revisions[pin.Revision]
		m.hold(!ok || known == what, "S16", "two pins have revision %d: %s, and %s", pin.Revision, known, what)
		m.hold(ok || pin.Revision > m.lastPin, "S16", "a pin (%s) has revision %d after there was one of %d", what, pin.Revision, m.lastPin)
		m.hold(pin.Revision <= counter, "S16", "a pin (%s) has revision %d, and the newest is %d", what, pin.Revision, counter)
		m.revisions[pin.Revision] = what
		highest = max(highest, pin.Revision)
		return nil
	})
	m.unread("the pins", err)
	m.lastPin = highest
	return pins
}

func pinWords(pin intent.Pin) string {
	rank := map[intent.Rank]string{intent.RankRollout: "a rollout's", intent.RankRollback: "a rollback's", intent.RankPerson: "a person's"}[pin.Rank]
	return string(pin.Asset) + " to " + pin.Incarnation.String() + ", " + rank
}

// lookAtBrakes reads pins, holds, stops and what people said of plans, and asks
// that each change has its audit record (S25). What they were stays until it returns.
func (m *Monitor) lookAtBrakes(g glance, news *news) (pins map[intent.AssetID][]intent.Pin, holds map[intent.AssetID]held) {
	pins = m.readPins(g.pins)
	changes(m.pins, pins, slices.Equal[[]intent.Pin], func(asset intent.AssetID) {
		m.hold(news.has("pin", string(asset)) || news.has("unpin", string(asset)), "S25", "the pins of %s changed without an audit record", asset)
	})
	holds = map[intent.AssetID]held{}
	partition := []any{string(m.options.Partition)}
	m.unread("the holds", m.database.each("SELECT asset, created, ends FROM hold WHERE partition = $1", partition, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var h held
		err := rows.Scan(&asset, &h.created, &h.ends)
		holds[asset] = h
		return err
	}))
	changes(m.holds, holds, equal[held], func(asset intent.AssetID) {
		m.hold(news.has("hold", string(asset)) || news.has("unhold", string(asset)), "S25", "the hold of %s changed without an audit record", asset)
	})
	m.lookAtStops(news)
	m.lookAtApprovals(news)
	m.lookAtObjections(news)
	return pins, holds
}

func (m *Monitor) lookAtStops(news *news) {
	stored := map[intent.PartitionID]bool{}
	m.unread("the stops", m.database.each("SELECT partition FROM stop WHERE partition IN ('', $1)", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var scope intent.PartitionID
		err := rows.Scan(&scope)
		stored[scope] = true
		return err
	}))
	changes(m.stored, stored, equal[bool], func(scope intent.PartitionID) {
		verb := "stop"
		if !stored[scope] {
			verb = "resume"
		}
		m.hold(news.has(verb, string(scope)), "S25", "the %s of %q has no audit record", verb, scope)
	})
	m.stored = stored
}

func (m *Monitor) lookAtApprovals(news *news) {
	approvals := map[approvalKey]approval{}
	m.unread("the approvals", m.database.each("SELECT asset, effective, plan, approver, created, ends, alone, used_by FROM approval WHERE partition = $1",
		[]any{string(m.options.Partition)}, func(rows *sql.Rows) error {
			var key approvalKey
			var effective, plan digest
			var a approval
			err := rows.Scan(&key.asset, &effective, &plan, &key.by, &a.created, &a.ends, &a.alone, &a.usedBy)
			key.effective, key.plan = effective.Digest, plan.Digest
			approvals[key] = a
			return err
		}))
	changes(m.approvals, approvals, equal[approval], func(key approvalKey) {
		now, ok := approvals[key]
		before := m.approvals[key]
		switch {
		case !ok: // It was voided or collected; it can be used no more.
		case now.usedBy == "":
			m.hold(news.has("approve", string(key.asset)), "S25", "plan %s of %s is approved without an audit record", key.plan.Short(), key.asset)
		default:
			m.hold(before.usedBy == now.usedBy || news.has("admit", string(key.asset)), "S25", "the approval of plan %s of %s was used by push %s, whose admission is in no audit record", key.plan.Short(), key.asset, now.usedBy)
		}
	})
	m.approvals = approvals
}

func equal[V comparable](a, b V) bool { return a == b }

// changes calls changed for every key whose value is not the same in both, in
// an order that is always the same.
func changes[K comparable, V any](before, after map[K]V, same func(a, b V) bool, changed func(K)) {
	var keys []K
	for key, was := range before {
		if is, ok := after[key]; !ok || !same(was, is) {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, key := range keys {
		changed(key)
	}
}
