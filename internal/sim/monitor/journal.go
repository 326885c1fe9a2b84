package monitor

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// journal is what was admitted, in the order in which it was.
type journal struct {
	pushes  map[intent.PushID]*push
	running map[intent.PushID]*push // not closed
	// working are the pushes between their first effect and their last.
	working map[intent.PushID]*push
	// ends are when the last push of each asset was closed.
	ends map[intent.AssetID]time.Time
	// lastOf and lastOn are the push of the last effect of an asset and on a
	// resource; tokens the highest token that a resource saw.
	lastOf map[intent.AssetID]*push
	lastOn map[intent.ResourceKey]*push
	tokens map[intent.ResourceKey]uint64
	// epoch and holder of the lease; over says when each epoch before ended.
	epoch  uint64
	holder string
	over   map[uint64]time.Time
}

func newJournal() journal {
	return journal{
		pushes: map[intent.PushID]*push{}, running: map[intent.PushID]*push{}, working: map[intent.PushID]*push{}, ends: map[intent.AssetID]time.Time{},
		lastOf: map[intent.AssetID]*push{}, lastOn: map[intent.ResourceKey]*push{}, tokens: map[intent.ResourceKey]uint64{},
		over: map[uint64]time.Time{},
	}
}

// push is one admission.
type push struct {
	id              intent.PushID
	ordinal         int
	asset           intent.AssetID
	target          intent.Sequence
	effective, plan intent.Digest
	key             intent.ResourceKey
	// swapped: before it was admitted, a plugin told that key as the asset's, which
	// is another's.
	swapped  bool
	epoch    uint64
	admitted time.Time // by the clock of who admitted it
	seen     time.Time // the true time
	budgets  map[string]int
	// rates are the limits that it counts under, and touched is the true time of
	// its newest effect.
	rates     map[string]frequency
	touched   time.Time
	approvers []string
	// rule that was the approval in place of people's; empty: none was.
	rule string
	// protections that were to let it begin, but for those that were overridden.
	protections []*intentpb.Check
	// superseded is since when the asset follows other content.
	superseded time.Time
	closed     time.Time
	ended      time.Time // by the clock of who closed it
	ending     string
}

const pushText = `SELECT asset, target, effective, plan, resource_key, epoch, admitted, budgets FROM push WHERE partition = $1 AND id = $2`

// admitted takes up an admission and asks whether it might be.
func (m *Monitor) admitted(r record, news *news) {
	p, said, well := m.journalled(r)
	if !well {
		return
	}
	m.ask("S1")
	if m.pushes[p.id] != nil {
		m.fail("S1", "push id %s was admitted a second time", p.id)
		return
	}
	p.ordinal, p.seen, p.approvers, p.rule = len(m.pushes)+1, m.options.Now(), said.approvers, said.rule
	p.swapped = m.swapped[swap{p.asset, p.key}]
	m.pushes[p.id], m.running[p.id] = p, p
	m.paces.tried[called{p.asset, p.effective}] = true
	if said.target != p.target || said.content != p.effective.Short() || said.plan != p.plan.Short() || r.Subject != string(p.asset) {
		m.fail("S1", "push %s was recorded as of %s to %d, content %s, plan %s, and admitted of %s to %d, content %s, plan %s",
			p.id, r.Subject, said.target, said.content, said.plan, p.asset, p.target, p.effective.Short(), p.plan.Short())
	}
	for _, check := range always {
		overridden := slices.Contains(said.overridden, check) && overridable(check)
		m.hold(slices.Contains(said.passed, check) || overridden, "S1", "push %s of %s was admitted without a pass of check %q: it has %v", p.id, p.asset, check, said.passed)
	}
	m.hold(p.epoch == m.epoch, "S4", "push %s of %s was admitted under epoch %d, and the epoch was %d", p.id, p.asset, p.epoch, m.epoch)
	m.followed(p, news)
	m.braked(p, news)
	m.afforded(p)
	m.rated(p, said.overridden)
	m.inHours(p)
	m.besideVerification(p)
	m.besideTrain(p)
	m.ask("S23")
	m.hold(!m.closed, "S23", "push %s of %s was admitted, and the common policy lets none begin", p.id, p.asset)
	m.disarmed(p, said.overridden)
	m.consented(p, news)
	m.overruled(p, said.overridden, news)
	m.tookOver(p, r)
	m.diffed(p)
	m.afterOthers(p, said.overridden)
	m.spared(p)
	content, _ := m.contentAt(p.asset, p.target)
	p.protections = slices.DeleteFunc(protectionsOf(m.policyAt(m.head), content), func(c *intentpb.Check) bool {
		return slices.Contains(said.overridden, c.GetName()) || m.passesOver(p) && !c.GetRollbacks()
	})
}

// always are the checks that every push must have passed.
var always = []string{"stop", "mode", "hold", "verification", "turndown", "output", "order", "capacity", "version", "approval", "retry"}

// overridable are those that a person may let pass.
func overridable(check string) bool {
	return check == "order" || check == "capacity" || check == "version"
}

// said is what the audit says of an admission.
type said struct {
	push          intent.PushID
	target        intent.Sequence
	content, plan string
	passed        []string
	// approvers whose approvals were used, and checks that were overridden.
	approvers, overridden []string
	// rule of generations that was the approval, with its digest.
	rule string
}

// parse reads "push ID to P@N, content C, plan P[ (ACTION, N changes)][; passed A B][; approved by X,
// Y][; approval of rule R D][; A overridden by Z until T: why]".
func parse(detail string) (s said, well bool) {
	sections := strings.Split(detail, "; ")
	head := sections[0]
	for _, section := range sections[1:] {
		section = strings.TrimPrefix(section, "self-")
		if passed, ok := strings.CutPrefix(section, "passed "); ok && s.passed == nil {
			s.passed = strings.Fields(passed)
		} else if approvers, ok := strings.CutPrefix(section, "approved by "); ok && s.approvers == nil {
			s.approvers = strings.Split(approvers, ", ")
		} else if rule, ok := strings.CutPrefix(section, "approval of rule "); ok && s.rule == "" {
			s.rule = rule
		} else if check, _, ok := strings.Cut(section, " overridden by "); ok {
			s.overridden = append(s.overridden, check)
		}
	}
	parts := strings.Split(head, ", ")
	if len(parts) < 3 {
		return s, false
	}
	var target string
	if n, err := fmt.Sscanf(parts[0], "push %s to %s", &s.push, &target); n != 2 || err != nil {
		return s, false
	}
	id, err := intent.ParseIncarnationID(target)
	s.target = id.Sequence
	s.content, _ = strings.CutPrefix(parts[1], "content ")
	s.plan, _ = strings.CutPrefix(parts[2], "plan ")
	s.plan, _, _ = strings.Cut(s.plan, " (") // What it would change is told there.
	return s, err == nil
}

// journalled finds the row of an admission.
func (m *Monitor) journalled(r record) (*push, said, bool) {
	said, well := parse(r.Detail)
	if !well {
		m.fail("S25", "the record of an admission of %s does not say what was admitted: %q", r.Subject, r.Detail)
		return nil, said, false
	}
	p, ok := m.row(said.push)
	m.hold(ok, "S1", "push %s of %s was recorded as admitted, and is not in the journal", said.push, r.Subject)
	return p, said, ok
}

// row reads a push from the journal.
func (m *Monitor) row(id intent.PushID) (*push, bool) {
	p := &push{id: id, budgets: map[string]int{}}
	var target, admitted int64
	var effective, plan digest
	var budgets string
	ok, err := m.database.one(pushText, []any{string(m.options.Partition), string(id)},
		&p.asset, &target, &effective, &plan, &p.key, &p.epoch, &admitted, &budgets)
	m.unread("the journal", err)
	p.target, p.effective, p.plan, p.admitted = intent.Sequence(target), effective.Digest, plan.Digest, moment(admitted)
	for key := range strings.SplitSeq(budgets, "\n") {
		if key != "" {
			p.budgets[key] = 0
		}
	}
	return p, ok
}

// followed: the push carries what its asset follows at that commit (S2), and
// the asset is there (S5).
func (m *Monitor) followed(p *push, news *news) {
	own, ok := m.at(p.asset, p.target)
	if m.hold(ok, "S5", "push %s was admitted of %s, which is not in its target %d", p.id, p.asset, p.target); !ok {
		return
	}
	m.hold(own.effective == p.effective, "S2", "push %s of %s was admitted with content %s, and its target %d has %s", p.id, p.asset, p.effective.Short(), p.target, own.effective.Short())
	if news.unclear(p.asset) {
		return
	}
	target := m.follows(p.asset, p.admitted)
	wanted, ok := m.at(p.asset, target)
	m.hold(ok && wanted.effective == p.effective, "S2",
		"push %s of %s was admitted to %d, content %s, while the asset followed %d, content %s", p.id, p.asset, p.target, p.effective.Short(), target, wanted.effective.Short())
	// Under a pin the clock of who admitted it decides.
	if len(m.pins[p.asset]) == 0 {
		m.hold(p.target == m.head, "S2", "push %s of %s was admitted to %d, and head was %d: what differed from another one was decided about", p.id, p.asset, p.target, m.head)
	}
}

// afforded: budgets are kept at admission (S8): the limit is that of the
// policy of head or of where a pin leads, the stricter.
func (m *Monitor) afforded(p *push) {
	content, _ := m.contentAt(p.asset, p.target)
	policy := m.policyAt(m.follows(p.asset, p.admitted))
	if policy == nil {
		return
	}
	m.ask("S8")
	rollback := m.goesBack(p)
	limits := limitsOf(policy, content, rollback)
	for key, limit := range limitsOf(m.policyAt(m.head), content, rollback) {
		if other, ok := limits[key]; !ok || limit < other {
			limits[key] = limit
		}
	}
	for key, limit := range limits {
		if _, ok := p.budgets[key]; !ok {
			m.fail("S8", "push %s of %s took no place in budget %s, whose limit is %d", p.id, p.asset, key, limit)
			continue
		}
		p.budgets[key] = limit
		m.within(p, key, limit, m.running, "open")
	}
}

// Back ends the keys of the budgets of what a rollback has go back.
const Back = " going back"

// goesBack reports whether a rollback has the asset of a push go back.
func (m *Monitor) goesBack(p *push) bool {
	pin := m.pinOf(p.asset, p.admitted)
	return pin != nil && pin.Rank == intent.RankRollback && pin.Incarnation.Sequence != m.head
}

// passesOver reports whether a push takes its asset back to what it was before, so that
// checks of policy do not hold it.
func (m *Monitor) passesOver(p *push) bool {
	if pin := m.pinOf(p.asset, p.admitted); pin != nil {
		return pin.Back && pin.Incarnation.Sequence != m.head
	}
	last, ok := m.contentAt(p.asset, p.target)
	for s := p.target; ok && s > 0; s-- {
		if before, ok := m.contentAt(p.asset, s-1); !ok || !before.there || before.payload != last.payload {
			return m.incarnations[s].Back
		}
	}
	return false
}

// limitsOf are the budgets that a push of the content must keep, going back or not.
func limitsOf(policy *intentpb.Policy, of content, rollback bool) map[string]int {
	limits := map[string]int{}
	for _, budget := range policy.GetBudgets() {
		if value, impacted := of.scopes[budget.GetScope()]; impacted {
			key := budget.GetScope() + "=" + value
			if rollback {
				key += Back
			}
			if limit, ok := limits[key]; !ok || int(budget.GetInFlight()) < limit {
				limits[key] = int(budget.GetInFlight())
			}
		}
	}
	if of.turndown {
		limits["turndown"] = max(1, int(policy.GetTurndowns()))
	}
	return limits
}

// within: no more than so many of the pushes hold the budget.
func (m *Monitor) within(p *push, key string, limit int, among map[intent.PushID]*push, how string) {
	var holders []string
	for _, other := range among {
		if _, holds := other.budgets[key]; holds {
			holders = append(holders, string(other.id))
		}
	}
	if len(holders) > limit {
		slices.Sort(holders)
		m.fail("S8", "with push %s of %s %d pushes are "+how+" under budget %s, whose limit is %d: %v", p.id, p.asset, len(holders), key, limit, holders)
	}
}

// ended takes up that a push was closed.
func (m *Monitor) ended(r record) {
	var id intent.PushID
	var ending string
	if _, err := fmt.Sscanf(r.Detail, "push %s %s", &id, &ending); err != nil {
		m.fail("S25", "the record of the end of a push of %s does not say which: %q", r.Subject, r.Detail)
		return
	}
	m.close(id, strings.TrimSuffix(ending, ":"), r.At)
}

func (m *Monitor) close(id intent.PushID, ending string, at time.Time) {
	p := m.running[id]
	if p == nil {
		return
	}
	p.closed, p.ended, p.ending = m.options.Now(), at, ending
	m.ends[p.asset] = p.closed
	delete(m.running, id)
	delete(m.working, id)
	m.paced(p)
}

const openText = "SELECT partition, id, asset, resource_key FROM push WHERE open = 1 ORDER BY number"

// inFlight compares the open rows of the journal with what was recorded, and
// with each other (S3).
func (m *Monitor) inFlight() {
	there := map[intent.PushID]bool{}
	assets, keys := map[intent.AssetID]intent.PushID{}, map[intent.ResourceKey]intent.PushID{}
	m.ask("S3")
	err := m.database.each(openText, nil, func(rows *sql.Rows) error {
		var partition intent.PartitionID
		var id intent.PushID
		var asset intent.AssetID
		var key intent.ResourceKey
		if err := rows.Scan(&partition, &id, &asset, &key); err != nil {
			return err
		}
		if other, ok := keys[key]; ok && key != "" {
			m.fail("S3", "pushes %s and %s of the resource %s are open at once", other, id, key)
		}
		keys[key] = id
		if partition != m.options.Partition {
			return nil
		}
		if other, ok := assets[asset]; ok {
			m.fail("S3", "pushes %s and %s of %s are open at once", other, id, asset)
		}
		assets[asset], there[id] = id, true
		return nil
	})
	m.unread("the journal", err)
	for _, id := range slices.Sorted(maps.Keys(there)) {
		m.hold(m.pushes[id] != nil, "S25", "push %s is in the journal, and its admission is in no audit record", id)
		if p := m.pushes[id]; p != nil && m.running[id] == nil {
			m.fail("S3", "push %s of %s is open again after it was %s", id, p.asset, p.ending)
		}
	}
	if err != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.running)) {
		if p := m.running[id]; !there[id] {
			m.fail("S25", "push %s of %s is not open any more, and no audit record says how it ended", id, p.asset)
			m.close(id, "unrecorded", m.options.Now())
		}
	}
}
