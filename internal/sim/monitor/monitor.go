// Package monitor watches a simulated run: the rows of the store after every
// commit, and every change of production. It says which invariant was broken,
// by the numbers of RELIABILITY.md. It reads the database by plain SQL and
// recomputes digests, chains and guards by code of its own, so that a mistake
// in Lehr's is not made twice; it believes nothing that Lehr says of itself,
// and never writes. Package sim calls it, one goroutine at a time.
package monitor

import (
	"database/sql"
	"fmt"
	"maps"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
)

// Violation is one breach of a property.
type Violation struct {
	// Property is its number: "S2".
	Property string    `json:"property"`
	At       time.Time `json:"at"`
	// What happened, with ids and numbers.
	What string `json:"what"`
}

// Guard is a shrink guard: a share of the assets, a number of removals that
// always pass, and the period over which they are summed.
type Guard struct {
	Share  float64
	Floor  int
	Period time.Duration
}

// Lenient says what the run does on purpose, and so is no breach.
type Lenient struct {
	// ClockFaults: times in the store are by clocks that jump.
	ClockFaults bool
}

// Options of a monitor.
type Options struct {
	// DB is the store's database, read and never written.
	DB        *sql.DB
	Partition intent.PartitionID
	// Now is the true time.
	Now func() time.Time
	// Served tells the class and the longest effect of a type.
	Served func(intent.TypeName) plugin.Served
	// Guard where the partition has no policy that says; zero: none.
	Guard Guard
	// Reads lists the assets that an asset reads; nil: nobody knows.
	Reads func(intent.Asset) []intent.AssetID
	// Asks tells which output a content asks for; nil: none does.
	Asks func(intent.Asset) AskedOutput
	// Keep is how many of the newest incarnations nobody may remove.
	Keep    int
	Lenient Lenient
	// Well reports whether production is as an asset is in an incarnation, and not
	// unhealthy; nil: rollouts are not watched. Gap is how short an illness may go
	// unseen.
	Well func(id intent.IncarnationID, asset intent.AssetID) bool
	Gap  time.Duration
	// Document is the one whose fields a rollout sets, /values/ID for each asset; empty:
	// none. Has is what production has of such a field.
	Document string
	Has      func(asset intent.AssetID) string
	// Ill are the assets whose resource is unhealthy; nil: nobody counts them. Relies is
	// for how long a process may rely on a look at health.
	Ill    func() map[intent.AssetID]bool
	Relies time.Duration
	// Receivers are told when assets wait for approvals, where head's notification
	// Awaiting says so; none: nobody is told.
	Receivers []string
	Awaiting  string
	// Remembers is for how long pushes that ended are kept.
	Remembers time.Duration
	// Common reports whether the common policy of a digest lets no push begin, and whether it is
	// any that was written; nil: there is none.
	Common func(digest string) (closed, ok bool)
	// Delivered is an application that is watched; nil: none is.
	Delivered *Delivered
	// Closed reports whether the pull request of a preview is closed; nil: there are no previews.
	Closed func(preview string) bool
	// Device is what an asset stands for, where devices are upgraded; nil: none are.
	Device func(asset intent.AssetID) (world.Device, bool)
	// Course is what runs of a workflow change; nil: there are none.
	Course *Course
	// Held is until when a process is made to wait, or stands still; nil: none ever.
	Held func() time.Time
}

// Monitor looks on.
type Monitor struct {
	// watching counts the plugins that are heard.
	watching int
	options  Options
	database database
	// closed: the common policy lets no push begin.
	closed  bool
	checked map[string]int

	first map[string]bool // by property and kind
	found []Violation     // the first of each kind
	more  []Violation

	commits int
	seen    glance
	begun   bool

	own, global chain
	saying
	journal
	brakes
	answers
	paces paces
	// crowds are the targets that were too busy, retried when a person had an asset
	// tried again.
	crowds  map[intent.AssetID]crowd
	retried map[intent.AssetID]time.Time
	claims
	rolling     rolling
	judging     judging
	passed      passed
	ailing      ailing
	telling     telling
	hours       hours
	memos       memos
	sealing     sealing
	outputs     outputs
	delivering  delivering
	goods       goods
	makers      makers
	carts       carts
	workflows   workflowWatch
	devices     deviceWatch
	quarantines quarantines
	diffs       map[intent.AssetID][]Diff
	counts      counts
	records     map[intent.AssetID]enforcedRow
	lateSince   map[intent.AssetID]time.Time
	// looks at assets, and failures of those with others.
	looks, failures rates
	// released are the assets that were disowned, or whose claim was carried,
	// since the enforced records were read last.
	released map[intent.AssetID]bool
	// disowned are all that were.
	disowned map[intent.AssetID]bool
}

// New returns a monitor of a store that is empty, or of a partition that is
// not registered yet.
func New(o Options) *Monitor {
	m := &Monitor{
		options: o, database: database{db: o.DB, statements: map[string]*sql.Stmt{}},
		checked: map[string]int{}, first: map[string]bool{},
		diffs: map[intent.AssetID][]Diff{}, records: map[intent.AssetID]enforcedRow{}, lateSince: map[intent.AssetID]time.Time{},
		looks: rates{}, failures: rates{}, crowds: map[intent.AssetID]crowd{}, retried: map[intent.AssetID]time.Time{}, released: map[intent.AssetID]bool{}, disowned: map[intent.AssetID]bool{},
		own: chain{partition: o.Partition}, global: chain{},
		rolling: newRolling(), saying: newSaying(), journal: newJournal(), brakes: newBrakes(),
		answers: answers{reads: map[intent.AssetID]time.Time{}, inSync: map[called]bool{}, swapped: map[swap]bool{}}, paces: paces{of: map[intent.AssetID]pace{}, tried: map[called]bool{}},
		judging: judging{}, passed: passed{checks: map[askedAfter]bool{}, well: map[intent.PushID]time.Time{}}, ailing: ailing{since: map[intent.AssetID]time.Time{}, told: map[intent.AssetID]time.Time{}},
		quarantines: newQuarantines(), hours: hours{}, sealing: sealing{}, outputs: newOutputs(), delivering: newDelivering(), goods: newGoods(), makers: makers{}, carts: newCarts(), workflows: newWorkflowWatch(), devices: newDeviceWatch(), memos: memos{runs: map[begunRun]intent.PushID{}}, telling: telling{waits: map[intent.AssetID]waited{}, told: map[string][]awaited{}, due: map[string][]awaited{}, listed: map[string]time.Time{}, works: map[string]time.Time{}},
	}
	for _, property := range Properties() {
		m.checked[property] = 0
	}
	return m
}

// Properties that the monitor decides.
func Properties() []string {
	return []string{
		"S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "S10", "S11", "S12", "S16", "S17", "S18", "S19", "S20", "S21", "S22", "S23", "S25", "S26", "S27", "S28",
		"L2", "L3", "L4", "L6", "L7", "L8", "L9", "L10",
	}
}

// most violations that are told.
const most = 20

// Violations lists the first breach of each kind, then others; at most 20.
func (m *Monitor) Violations() []Violation {
	all := append(append([]Violation(nil), m.found...), m.more...)
	return all[:min(len(all), most)]
}

// Checked counts how often each property was asked with something to say, so
// that a monitor that never looks is noticed.
func (m *Monitor) Checked() map[string]int { return maps.Clone(m.checked) }

// ask counts one look at a property.
func (m *Monitor) ask(property string) { m.checked[property]++ }

// fail notes a breach. The format tells kinds of it apart.
func (m *Monitor) fail(property, format string, arguments ...any) {
	violation := Violation{Property: property, At: m.options.Now(), What: fmt.Sprintf(format, arguments...)}
	kind := property + " " + format
	switch {
	case !m.first[kind]:
		m.first[kind] = true
		m.found = append(m.found, violation)
	case len(m.more) < most:
		m.more = append(m.more, violation)
	}
}

// hold asks a property: it is broken unless it holds.
func (m *Monitor) hold(holds bool, property, format string, arguments ...any) {
	m.ask(property)
	if !holds {
		m.fail(property, format, arguments...)
	}
}

// unread notes that the store could not be read: then nothing was watched.
func (m *Monitor) unread(what string, err error) {
	if err != nil {
		m.fail("monitor", "the monitor cannot read %s: %v", what, err)
	}
}
