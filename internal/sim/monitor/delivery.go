package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Release is a version by what it is called and what that led to.
type Release struct{ Name, Digest string }

// Delivered is an application that is watched.
type Delivered struct {
	// Home is the partition that has the application's rows and versions; its environments are in
	// the partition that is watched.
	Home        intent.PartitionID
	Application string
	// Document that has the environments' fields, by their names. Prefix and the name of one
	// are its asset.
	Document, Prefix string
	// Advised: a constraint of staging asks about each version.
	Advised bool
	// Released: there is a line of releases, with applications of its own.
	Released bool
	// Relaxed: what its trains bring to production of the first is shown, and not enforced.
	Relaxed bool
	// Tasked: there is an application with tasks.
	Tasked bool
}

// delivering is what is known of an application: by the history of its document, by what people
// asked and were told, and by what programs said.
type delivering struct {
	revision, row int
	// fields are what each environment has, set that delivery gave it something once, and edited
	// what it has that somebody else set.
	fields map[string]field
	set    map[string]bool
	edited map[string]bool
	// ever are the releases that each environment had, and since when production had them first.
	ever    map[string]map[Release]bool
	arrived map[string]map[Release]time.Time
	// bad are those that are known to be, by environment; of the empty one, in all.
	bad    map[badIn]badBy
	pins   map[string]Release
	paused map[string]bool
	// passed are the constraints that may be passed over: from the asking on.
	passed map[passedFor]bool
	votes  []*Vote
	// restarted is when a judgement was to be made anew, as was answered.
	restarted map[Release]time.Time
	// asked counts what could undo pins, pauses and marks.
	asked    int
	undoing  map[string]int
	programs []*Program
	// content that each environment was good with last, by release.
	content map[badIn]intent.Digest
	// promoted are when production was given something that it never had.
	promoted []time.Time
	// adviceGiven are the answers to what a constraint asks, and adviceKept the newest that is stored
	// about each version.
	adviceGiven []givenAdvice
	adviceKept  map[badIn]keptAdvice
	// withdrawn is since when a source no longer lists what it listed, as the store has it.
	withdrawn map[Release]time.Time
}

type field struct {
	Release
	knob string
}

type badIn struct {
	environment string
	Release
}

// badBy says what found it bad: a person, or a verification of some content.
type badBy struct {
	person  bool
	content intent.Digest
}

type passedFor struct {
	constraint string
	Release
}

// Program is one that verifies.
type Program struct {
	intent.Verification
	running, said, good, used bool
}

func newDelivering() delivering {
	return delivering{
		fields: map[string]field{}, set: map[string]bool{}, edited: map[string]bool{}, ever: map[string]map[Release]bool{}, arrived: map[string]map[Release]time.Time{},
		bad: map[badIn]badBy{}, pins: map[string]Release{}, paused: map[string]bool{}, passed: map[passedFor]bool{}, restarted: map[Release]time.Time{},
		undoing: map[string]int{}, content: map[badIn]intent.Digest{},
		adviceKept: map[badIn]keptAdvice{},
	}
}

// windowLength and windowGap make the windows in which production may be given something.
const windowLength, windowGap = time.Hour, 15 * time.Minute

// stepTakes is how long a step may take once it is decided: what its source says meanwhile does
// not hold it.
const stepTakes = 30 * time.Second

// windowHolds is how many may come in each.
const windowHolds = 2

// DeliveryWindows are those of a day, as a calendar has them.
func DeliveryWindows() (list []string) {
	text := func(d time.Duration) string {
		return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
	}
	for start := time.Duration(0); start+windowLength < 24*time.Hour; start += windowLength + windowGap {
		list = append(list, text(start)+"-"+text(start+windowLength))
	}
	return list
}

// deliveryWindow is the window that a moment is in; ok: it is in one.
func deliveryWindow(at time.Time) (start time.Time, ok bool) {
	day := at.UTC().Truncate(24 * time.Hour)
	for from := time.Duration(0); from+windowLength < 24*time.Hour; from += windowLength + windowGap {
		if start := day.Add(from); !at.Before(start) && at.Before(start.Add(windowLength)) {
			return start, true
		}
	}
	return start, false
}

// DeliveredTo is what an environment has, by the document.
func (m *Monitor) DeliveredTo(environment string) Release {
	return m.delivering.fields[environment].Release
}

// ProgramBegan is called when a program begins to verify an environment: no push of its assets is
// under way (S1).
func (m *Monitor) ProgramBegan(v intent.Verification) *Program {
	p := &Program{Verification: v, running: true}
	m.delivering.programs = append(m.delivering.programs, p)
	for _, push := range m.running {
		m.hold(!slices.Contains(v.Assets, push.asset), "S1", "the verification %s of %s began in %s, while push %s of %s was open", v.Name, v.Version.Name, v.Environment, push.id, push.asset)
	}
	for _, other := range m.delivering.programs {
		m.hold(other == p || !other.running || other.Environment != v.Environment, "S1", "the verification %s began in %s, while another one was running there", v.Name, v.Environment)
	}
	return p
}

// ProgramRuns reports whether one verifies now.
func (m *Monitor) ProgramRuns() bool {
	return slices.ContainsFunc(m.delivering.programs, func(p *Program) bool { return p.running })
}

// ProgramEnded is called when it does nothing any more.
func (m *Monitor) ProgramEnded(p *Program) { p.running = false }

// ProgramSaid is called when it has said what it found.
func (m *Monitor) ProgramSaid(p *Program, good bool) { p.said, p.good = true, good }

// besideVerification: nothing is admitted in an environment while a program verifies it (S1).
func (m *Monitor) besideVerification(p *push) {
	for _, program := range m.delivering.programs {
		if slices.Contains(program.Assets, p.asset) {
			m.hold(!program.running, "S1", "push %s of %s was admitted while the verification %s of %s was running", p.id, p.asset, program.Name, program.Version.Name)
		}
	}
}

// deliveredEffect notes since when production has a version.
func (m *Monitor) deliveredEffect(asset intent.AssetID) {
	watched := m.options.Delivered
	if watched == nil || !strings.HasPrefix(string(asset), watched.Prefix) {
		return
	}
	environment := strings.TrimPrefix(string(asset), watched.Prefix)
	words := strings.Fields(m.options.Has(asset))
	if len(words) < 2 {
		return
	}
	if m.delivering.arrived[environment] == nil {
		m.delivering.arrived[environment] = map[Release]time.Time{}
	}
	r := Release{words[0], words[1]}
	if _, ok := m.delivering.arrived[environment][r]; !ok {
		m.delivering.arrived[environment][r] = m.options.Now()
	}
}

// delivers reads the new rows and revisions of the application.
func (m *Monitor) delivers() {
	watched := m.options.Delivered
	if watched == nil {
		return
	}
	d := &m.delivering
	type revised struct {
		revision  int
		delivered bool
		changes   []fieldChange
	}
	var revisions []revised
	m.unread("what was delivered", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision > $3 ORDER BY revision",
		[]any{string(m.options.Partition), watched.Document, int64(d.revision)}, func(rows *sql.Rows) error {
			var r revised
			var author string
			var text []byte
			if err := rows.Scan(&r.revision, &author, &text); err != nil {
				return err
			}
			r.delivered = strings.HasPrefix(author, intent.DeliveryPrefix)
			err := json.Unmarshal(text, &r.changes)
			revisions = append(revisions, r)
			return err
		}))
	if slices.ContainsFunc(revisions, func(r revised) bool { return r.delivered }) {
		m.readWithdrawn()
	}
	for _, r := range revisions {
		d.revision = r.revision
		m.fieldsRevised(r.delivered, r.changes)
	}
	m.unread("rows of delivery", m.database.each("SELECT number, record FROM delivery WHERE partition = $1 AND number > $2 ORDER BY number",
		[]any{string(watched.Home), int64(d.row)}, func(rows *sql.Rows) error {
			var text []byte
			var row intent.DeliveryRecord
			if err := rows.Scan(&d.row, &text); err != nil {
				return err
			}
			if err := json.Unmarshal(text, &row); err != nil {
				return err
			}
			switch row.Application {
			case watched.Application:
				m.deliveryRow(row)
			case CartApplication:
				m.cartRow(row)
			default:
				m.goodsRow(row)
			}
			return nil
		}))
	if watched.Released {
		m.goodsRevised()
	}
	if watched.Tasked {
		m.cartRevised()
	}
}

// readWithdrawn reads which versions their source no longer lists.
func (m *Monitor) readWithdrawn() {
	m.delivering.withdrawn = map[Release]time.Time{}
	m.unread("what was withdrawn", m.database.each("SELECT name, digest, gone FROM version WHERE partition = $1 AND gone > 0",
		[]any{string(m.options.Delivered.Home)}, func(rows *sql.Rows) error {
			var r Release
			var gone int64
			err := rows.Scan(&r.Name, &r.Digest, &gone)
			m.delivering.withdrawn[r] = time.Unix(0, gone)
			return err
		}))
}

// deliveryRow takes up a row: a result is what a program said, of that version and content, once
// (S11).
func (m *Monitor) deliveryRow(row intent.DeliveryRecord) {
	d := &m.delivering
	in := badIn{row.Environment, Release{row.Version.Name, row.Version.Digest}}
	switch row.Kind {
	case intent.DeliveryStanding:
		if row.Good {
			d.content[in] = row.Content
		}
		if by, ok := d.bad[in]; ok && !by.person && by.content != row.Content && !row.Content.IsZero() {
			delete(d.bad, in) // It is verified anew.
		}
	case intent.DeliveryAct:
		if row.Act == intent.ActRestart && row.Constraint == AdviceConstraint {
			delete(d.adviceKept, in)
		}
	case intent.DeliveryAnswer, intent.DeliveryUnanswered:
		m.adviceRow(row)
	case intent.DeliveryResult:
		at := slices.IndexFunc(d.programs, func(p *Program) bool {
			return p.said && !p.used && p.Environment == row.Environment && p.Name == row.Constraint && p.Version == row.Version && p.Content == row.Content && p.good == row.Good
		})
		m.hold(at >= 0, "S11", "a result of %s is kept for %s of content %s in %s: %v, which no program said of it", row.Constraint, in.Release, row.Content.Short(), row.Environment, row.Good)
		if at < 0 {
			return
		}
		d.programs[at].used = true
		if row.Good {
			delete(d.bad, in)
			m.hold(d.content[in] == row.Content, "S11", "a good result of %s is kept for %s of content %s in %s, which is good with %s", row.Constraint, in.Release, row.Content.Short(), row.Environment, d.content[in].Short())
		} else if by := d.bad[in]; !by.person {
			d.bad[in] = badBy{content: row.Content}
		}
	}
}

// fieldsRevised takes up a revision of the document.
func (m *Monitor) fieldsRevised(delivered bool, changes []fieldChange) {
	d := &m.delivering
	before := map[string]field{}
	touch := func(environment, key, value string) {
		f := d.fields[environment]
		if _, ok := before[environment]; !ok {
			before[environment] = f
		}
		switch key {
		case "version":
			f.Name = value
		case "digest":
			f.Digest = value
		case "knob":
			f.knob = value
		}
		d.fields[environment] = f
	}
	for _, c := range changes {
		path := splitPointer(c.Path)
		switch len(path) {
		case 0:
			var whole map[string]map[string]string
			m.unread("the document of delivery", json.Unmarshal(c.After, &whole))
			for environment, keys := range whole {
				for key, value := range keys {
					touch(environment, key, value)
				}
			}
		case 2:
			var value string
			m.unread("a change of delivery", json.Unmarshal(c.After, &value))
			touch(path[0], path[1], value)
		}
	}
	for environment, was := range before {
		is := d.fields[environment]
		switch {
		case !delivered && is.Name != was.Name && d.set[environment]:
			d.edited[environment] = !d.ever[environment][is.Release] || !d.edited[environment]
		case delivered && is.Release != was.Release:
			m.promoted(environment, was.Release, is.Release)
			d.set[environment] = true
			delete(d.edited, environment)
		}
		if d.ever[environment] == nil {
			d.ever[environment] = map[Release]bool{}
		}
		d.ever[environment][is.Release] = true
		if by, ok := d.bad[badIn{environment, is.Release}]; ok && !by.person && is.knob != was.knob {
			delete(d.bad, badIn{environment, is.Release}) // Its content is another one.
		}
	}
}

// promoted judges what delivery gave an environment.
func (m *Monitor) promoted(environment string, was, is Release) {
	d, now := &m.delivering, m.options.Now()
	m.mayPromote(environment, is)
	_, badHere := d.bad[badIn{environment, is}]
	_, badAnywhere := d.bad[badIn{"", is}]
	m.hold(!badHere && !badAnywhere, "S20", "%s was given %s after that was known to be bad", environment, is)
	pin, pinned := d.pins[environment]
	m.hold(!pinned || pin == is, "S10", "%s was given %s, and is pinned to %s", environment, is, pin)
	m.hold(!d.paused[environment] && !d.paused[""], "S18", "%s was given %s, and is paused", environment, is)
	for _, scope := range []intent.PartitionID{"", m.options.Partition} {
		stop, ok := m.stops[scope]
		m.hold(!ok || stop.unwritten, "S18", "%s was given %s after %s, when the stop of %q was answered", environment, is, stop.at, scope)
	}
	gone, withdrawn := d.withdrawn[is]
	m.hold(!withdrawn || m.options.Lenient.ClockFaults || now.Sub(gone) < stepTakes, "S19", "%s was given %s, which was withdrawn %s before", environment, is, now.Sub(gone))
	m.hold(!d.edited[environment], "S10", "%s was given %s, and somebody else had set it to %s", environment, is, was)
	for _, p := range d.programs {
		m.hold(!p.running || p.Environment != environment, "S1", "%s was given %s, while the verification %s of %s was running", environment, is, p.Name, p.Version.Name)
	}
	if d.ever[environment][is] {
		return // It comes back.
	}
	switch environment {
	case "staging":
		m.heldWell("test", is, time.Minute, "tested", true)
		if m.options.Delivered.Advised {
			m.checkAdvice(environment, is, now)
		}
	case "production":
		m.heldWell("staging", is, 0, "staged", true)
		m.heldWell("staging", is, 2*time.Minute, "soaked", false)
		if !d.passed[passedFor{"people", is}] {
			m.approved(is, now)
		}
		if !d.passed[passedFor{"office", is}] && !m.options.Lenient.ClockFaults {
			m.inWindow(is, now)
		}
		d.promoted = append(d.promoted, now)
	}
}

// mayPromote: head lets an application of another partition set the environment's field, as of the
// commit that sets it.
func (m *Monitor) mayPromote(environment string, is Release) {
	watched := m.options.Delivered
	if watched.Home == m.options.Partition {
		return
	}
	g, ok, err := m.database.glance(m.options.Partition)
	m.unread("the partition", err)
	if err == nil && ok {
		m.hold(grantsField(m.policyAt(g.head), watched, environment), "S10", "%s was given %s, and %s lets %s of %s set no such field", environment, is, m.options.Partition, watched.Application, watched.Home)
	}
}

// grantsField reports whether a policy lets an application of another partition set an
// environment's field.
func grantsField(policy *intentpb.Policy, watched *Delivered, environment string) bool {
	return slices.ContainsFunc(policy.GetPromotionGrants(), func(g *intentpb.PromotionGrant) bool {
		return g.GetPartition() == string(watched.Home) && g.GetApplication() == watched.Application && g.GetDocument() == watched.Document &&
			slices.Contains(g.GetPointers(), "/"+environment)
	})
}

// heldWell: an environment had a release in production for so long, and a program found what it
// was last good with good there (S19).
func (m *Monitor) heldWell(environment string, r Release, period time.Duration, constraint string, verified bool) {
	d := &m.delivering
	if d.passed[passedFor{constraint, r}] {
		return
	}
	in := badIn{environment, r}
	since, ok := d.arrived[environment][r]
	if m.hold(ok, "S19", "%s passed %s, which %s never had in production", constraint, r, environment); !ok {
		return
	}
	had := m.options.Now().Sub(since)
	m.hold(m.options.Lenient.ClockFaults || had >= period, "S19", "%s passed %s, which %s had for %s of %s", constraint, r, environment, had, period)
	_, badHere := d.bad[in]
	_, badAnywhere := d.bad[badIn{"", r}]
	m.hold(!badHere && !badAnywhere, "S20", "%s passed %s, which is known to be bad in %s", constraint, r, environment)
	if verified {
		m.hold(slices.ContainsFunc(d.programs, func(p *Program) bool {
			return p.used && p.good && p.Environment == environment && p.Version.Name == r.Name && p.Version.Digest == r.Digest && p.Content == d.content[in]
		}), "S19", "%s passed %s, and no program found it good in %s with content %s", constraint, r, environment, d.content[in].Short())
	}
}

// approved: two people approve just that release, lately, and none of the others rejects it (S9).
func (m *Monitor) approved(r Release, now time.Time) {
	const needed, expires, margin = 2, 30 * time.Minute, time.Second
	d := &m.delivering
	newest, approve := map[string]*Vote{}, map[string]bool{}
	for _, v := range d.votes {
		if v.Release != r || v.at.Before(d.restarted[r]) && v.answered {
			continue
		}
		newest[v.by] = v
		if v.approve && (m.options.Lenient.ClockFaults || now.Sub(v.at) <= expires+margin) {
			approve[v.by] = true
		} else if !v.approve && v.answered {
			delete(approve, v.by)
		}
	}
	m.hold(len(approve) >= needed, "S9", "production was given %s, which %d people approve", r, len(approve))
	for by, v := range newest {
		m.hold(v.approve || !v.answered, "S9", "production was given %s, which %s rejects", r, by)
	}
}

// inWindow: it is in a window, in which nothing came that production never had (S8, S1).
func (m *Monitor) inWindow(r Release, now time.Time) {
	start, ok := deliveryWindow(now)
	m.hold(ok, "S19", "production was given %s while no window is open", r)
	if !ok {
		return
	}
	count := 0
	for _, at := range m.delivering.promoted {
		if !at.Before(start) {
			count++
		}
	}
	m.hold(count < windowHolds, "S8", "production was given %s, the %dth in the window that began at %s, in which %d may come", r, count+1, start.UTC().Format(time.TimeOnly), windowHolds)
}
