package sim

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/sources"
	"lehr.dev/internal/sim/virtual"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store/sqlite"
)

// Lab is a simulated production, a store, people, and the processes of Lehr
// that act between them.
type Lab struct {
	*virtual.Scheduler
	World   *world.World
	Sources *sources.Tree
	Monitor *monitor.Monitor

	ctx       context.Context
	options   Options
	start     time.Time
	partition intent.PartitionID
	// definition is the path of lehr.yaml in the sources.
	definition string
	// types that a user's partition has; empty for the simulator's own. Its
	// files before and after its edit, by path; merged: they are those after.
	types       []intent.TypeName
	old, edited map[string]string
	merged      bool
	// steps of each push, where a script must be able to count on them.
	steps int
	// people is the process of all that is not Lehr.
	people  *virtual.Process
	db      *sql.DB
	reading *sqlite.Store
	random  map[string]*rand.Rand

	// disturbances are what is to happen.
	disturbances []Disturbance
	replicas     []*Replica
	// databaseNumber is that of its clock, when several replicas share it.
	databaseNumber int64
	born           int
	store          storeTrouble
	// brakes is the folder of the file beside the store, in runs that have one.
	brakes string
	armed  []armed
	intent Intent
	first  Intent
	// good is the intent that was served last, said the ids of all that were
	// ever written and may be served.
	good Intent
	said map[string]bool
	// foreign is when somebody else changed production last, or a plugin was
	// heard to have lied; lies counts these.
	foreign time.Time
	lies    int
	// voided counts the rows of the audit with what was voided, by what it was.
	voided map[string]int
	// wellSince is when nothing kept Lehr from saying what it does, attended
	// when it was asked last.
	wellSince, attended time.Time
	// leader took the lease last; since then one that is gone did, and nothing
	// was in the way of the only process there is.
	leader, gone *Replica
	goneSince    time.Time
	// epoch of the lease that leader took.
	epoch uint64
	// clockMoved is when the clock of a process was set last.
	clockMoved time.Time
	// answered is when a plugin last answered a look at each asset.
	answered map[intent.AssetID]time.Time
	// touched is when each resource was changed last, by anybody.
	touched map[intent.ResourceKey]time.Time
	// asked is how often the store refused each asset's admission lately.
	asked map[intent.AssetID]asks
	// heldUp is until when a process is made to wait at a point, or stands
	// still; wrongUntil is until when a clock is wrong.
	heldUp, wrongUntil time.Time
	// commons are the common policies that were written, by their digests: whether one lets no
	// push begin.
	commons map[string]bool
	// tornUntil: what is served until then may be torn.
	tornUntil time.Time
	// generation is the highest number of a setting; 0: it has the first one.
	generation int
	// changed is when the intent was changed last, failover when a process
	// began last; healing: the disturbances are over.
	changed, failover time.Time
	healing, stopped  bool
	// closing: no process is to begin any more.
	closing bool
	// helping: people approve and take brakes off by themselves.
	helping bool
	// supervised: what dies is begun again. resting: all is healed and in sync.
	supervised, resting bool
	// rotten are the bodies of which a bit is turned now. root is the first
	// intent's membership.
	rotten [][]byte
	root   intent.Digest

	// unclear is what validations are answered until then; told is how much of
	// each rollout's run was taken up.
	unclear      string
	unclearUntil time.Time
	runs         map[string]takenUp
	stageVotes   map[askingRun]int // how many people cast on stages of a run
	// editedThen is what happens once a rollout has edited a document.
	editedThen func()
	// delivering is the application, in runs that have one.
	delivering delivering
	// pulls are the pull requests that have previews.
	pulls pulls
	// workflows is what is known of runs of workflows, where there are any.
	workflows courseOfRuns
	// upgrading is what is known of upgrades of devices, where there are any.
	upgrading upgrading
	// savedOutputs is what happens once outputs were written.
	savedOutputs func()
	// judging is what becomes of questions to the plugin of checks.
	judging []judgeTrouble
	// receiver is what is wrong with those that are notified, messages what they got.
	receiver receiver
	messages map[string]bool
	// seals are the values of secrets that Lehr brought to each resource last.
	seals map[intent.ResourceKey]string

	found   []monitor.Violation
	marks   map[string]int
	cells   map[Cell]int
	story   []string
	struck  int
	effects int
}

// newLab returns one in which nothing runs yet.
func newLab(ctx context.Context, o Options) (_ *Lab, err error) {
	l := &Lab{
		ctx: ctx, options: o, random: map[string]*rand.Rand{}, touched: map[intent.ResourceKey]time.Time{}, answered: map[intent.AssetID]time.Time{}, asked: map[intent.AssetID]asks{}, marks: map[string]int{}, cells: map[Cell]int{}, voided: map[string]int{}, runs: map[string]takenUp{}, stageVotes: map[askingRun]int{}, messages: map[string]bool{}, seals: map[intent.ResourceKey]string{},
		Sources: sources.New(), partition: "sim", definition: "/sim/lehr.yaml",
	}
	l.start = beginnings[o.Seed%uint64(len(beginnings))]
	l.Scheduler = virtual.New(o.Seed, l.start)
	l.Scheduler.Log = o.Trace
	l.Scheduler.Hook = l.at
	l.people = l.Scheduler.World("people")
	if err := l.write(); err != nil {
		return nil, err
	}
	if l.db, err = sqlite.Memory(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	l.people.Go("setup", func() {
		err = l.setUp()
		l.Halt()
	})
	l.Run(l.start.Add(time.Minute))
	if err != nil {
		return nil, err
	}
	l.disturbances = l.plan(o)
	return l, l.watch()
}

// setUp makes the store's tables, and opens it for those who only look.
func (l *Lab) setUp() error {
	made, err := sqlite.Open(l.ctx, sqlite.Options{DB: l.db, Clock: l.databaseClock(), Runtime: l.people, Log: l.log()})
	if err != nil {
		return err
	}
	if err := l.settleElsewhere(made); err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	l.reading, err = sqlite.OpenUnlocked(l.ctx, sqlite.Options{DB: l.db, Clock: l.databaseClock(), Runtime: l.people, Log: l.log()})
	return err
}

// watch begins production and the monitors.
func (l *Lab) watch() error {
	known := newLibrary(l.reading)
	var ill func() map[intent.AssetID]bool
	if l.ailing() {
		ill = l.ills
	}
	l.World = world.New(world.Options{
		Process: l.people, Random: l.stream("world"), Served: l.served, Contents: known, Apart: l.apart(), Machines: l.fleet(),
		Nameless: len(l.types) > 0, Steps: l.steps, Memos: l.memoFaults(),
		Schemas: known.schemas, Ails: l.ails(), Cadence: l.cadence(), ReadsAhead: l.readsAhead(), HintCadence: l.hintCadence(), Secret: l.secret(), Owners: l.shares(), Outputs: l.outputMessage(), Devices: l.upgrades(),
	})
	l.Monitor = monitor.New(monitor.Options{
		DB: l.db, Partition: l.partition, Now: l.Now, Served: l.servedType, Guard: l.guard(),
		Reads: l.reads(), Keep: l.collecting().Keep.Incarnations,
		Lenient: monitor.Lenient{ClockFaults: l.clocksGoWrong()},
		Well:    l.isWell(), Gap: 2 * l.sweep(), Document: l.field(), Has: l.inProduction,
		Held: func() time.Time { return l.heldUp }, Remembers: l.collecting().Keep.History,
		Common: l.common,
		Ill:    ill, Relies: 3 * l.sweep(), Receivers: l.told(), Awaiting: awaiting, Asks: l.askedOutput(), Delivered: l.deliveryWatch(), Closed: l.previewClosed(), Course: l.watchedCourse(), Device: l.deviceOf,
	})
	l.watchUpgrades()
	l.World.OnHealth = func() {
		l.Monitor.Produced()
		l.Monitor.Ailed()
	}
	l.World.OnHint = func(news world.HintNews) { l.mark("hints: " + string(news)) }
	l.World.OnSealed = l.Monitor.Sealed
	l.World.OnRotated = func(news world.RotationNews) { l.mark("secrets: " + string(news)) }
	l.World.OnOutput = l.outputTold
	l.World.OnAnswer = func(id intent.IncarnationID, asset intent.AssetID, inSync bool) {
		l.answered[asset] = l.Now()
		l.Monitor.Answered(id, asset, inSync)
	}
	l.World.OnRead = l.Monitor.Read
	l.World.OnSwap = l.Monitor.Swapped
	l.World.OnMemoSaved, l.World.OnRun = l.Monitor.MemoSaved, l.Monitor.RunBegun
	l.World.OnMemos = func(asset intent.AssetID, memos []intent.Memo, push intent.PushID, replica string) {
		// Who lost the lease does not know what is kept since, and its looks come to nothing.
		if push != "" || l.leader != nil && l.leader.Name() == replica {
			l.Monitor.MemosHanded(asset, memos, push)
		}
	}
	l.World.OnEffect = func(e world.Effect) {
		l.effect(e)
		l.sealed(e)
		l.shared(e)
		l.Monitor.Effect(e)
		l.Monitor.Produced()
		l.Monitor.Ailed()
	}
	return nil
}

// memoFaults draws what goes wrong with memos; nil: nothing does.
func (l *Lab) memoFaults() *rand.Rand {
	if l.options.Definition != "" || len(l.disturbances) == 0 {
		return nil
	}
	return l.stream("memos")
}

// beginnings are times with something special ahead.
var beginnings = []time.Time{
	time.Date(2026, 3, 29, 0, 20, 0, 0, time.UTC),   // summer time begins in London
	time.Date(2026, 10, 25, 0, 20, 0, 0, time.UTC),  // and ends
	time.Date(2028, 2, 28, 23, 30, 0, 0, time.UTC),  // a leap day
	time.Date(2026, 12, 31, 23, 30, 0, 0, time.UTC), // a new year
	time.Date(2038, 1, 19, 2, 50, 0, 0, time.UTC),   // 32 bits of seconds end
	time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC),
}

// stream is the randomness of one concern: what one of them draws does not
// change what another gets.
func (l *Lab) stream(concern string) *rand.Rand {
	r, ok := l.random[concern]
	if !ok {
		r = rand.New(rand.NewPCG(l.options.Seed, uint64(intent.Sum("lehr.sim", []byte(concern))[0])<<8|uint64(len(concern))))
		l.random[concern] = r
	}
	return r
}

// clocksGoWrong reports whether they do in this run.
func (l *Lab) clocksGoWrong() bool {
	clocks := []Kind{ClockJump, ClockRate, ClockFreeze}
	return slices.ContainsFunc(l.disturbances, func(d Disturbance) bool {
		return l.happens(d) && (slices.Contains(clocks, d.Kind) || slices.Contains(clocks, d.Then))
	})
}

// apart reports whether plugins run as servers in this run.
func (l *Lab) apart() bool { return l.options.Seed%2 == 1 }

// distant reports whether no replica can tell that the plugins of another one
// are gone.
func (l *Lab) distant() bool { return l.fleet() || l.apart() }

// run lets virtual time pass until then, or until something is found wrong.
func (l *Lab) run(end time.Time) {
	look := 10 * time.Second
	if l.fleet() {
		look = time.Second // How long nobody acted is to be known well.
	}
	for l.Now().Before(end) && !l.failed() && l.ctx.Err() == nil {
		l.Run(earlier(l.Now().Add(look), end))
		l.attend()
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (l *Lab) failed() bool {
	return slices.ContainsFunc(l.found, l.ends) || slices.ContainsFunc(l.Monitor.Violations(), l.ends) || len(l.Panics()) > 0
}

// ends reports whether a violation ends the run.
func (l *Lab) ends(v monitor.Violation) bool {
	return l.options.Breaks == "" || l.options.Breaks == v.Property
}

// wrong notes that a property was broken.
func (l *Lab) wrong(property, format string, arguments ...any) {
	l.found = append(l.found, monitor.Violation{Property: property, At: l.Now(), What: fmt.Sprintf(format, arguments...)})
	l.Halt()
}

// tell adds a line to the story.
func (l *Lab) tell(format string, arguments ...any) {
	line := fmt.Sprintf(format, arguments...)
	l.Note(line)
	l.story = append(l.story, fmt.Sprintf("%9s  %s", clock(l.Now().Sub(l.start)), line))
}

func clock(d time.Duration) string {
	d = d.Round(time.Millisecond)
	return strings.TrimSuffix(d.String(), "0s")
}

// mark counts a situation.
func (l *Lab) mark(situation string) { l.marks[situation]++ }

// served says what the plugin of a command line serves: of a user's partition, every
// type, as nothing guards its targets that is known; else what it is for, and the types
// that its arguments name.
func (l *Lab) served(run []string) (served []plugin.Served) {
	for _, kind := range l.types {
		served = append(served, l.servedType(kind))
	}
	for _, s := range classes {
		if len(l.types) == 0 && run[0] == s.run {
			served = append(served, l.servedType(s.kind))
		}
	}
	for _, kind := range run[1:] {
		if len(l.types) == 0 {
			served = append(served, l.servedType(intent.TypeName(kind)))
		}
	}
	return served
}

func (l *Lab) servedType(kind intent.TypeName) plugin.Served {
	served := plugin.Served{Type: kind, Guarantee: plugin.Unguarded, LongestEffect: time.Second}
	for _, s := range classes {
		if s.kind == kind && len(l.types) == 0 {
			served.Guarantee = s.class
		}
	}
	if l.shares() {
		served.Guarantee = plugin.CompareAndSet
	}
	if l.options.Class != "" {
		served.Guarantee = l.options.Class
	}
	return served
}

// close ends all that still runs.
func (l *Lab) close() {
	l.closing = true
	for _, r := range l.replicas {
		r.Kill("the end")
	}
	if l.reading != nil {
		l.people.Go("close", func() {
			_ = l.reading.Close()
			for _, r := range l.replicas {
				if !r.Alive() {
					_ = r.free() // As the supervisor does, who may be late.
				}
			}
		})
		l.Run(l.Now().Add(time.Second))
	}
	clocks.Delete(l.databaseNumber)
	l.Scheduler.End() // Also plugins without parent.
	if l.db != nil {
		l.db.Close()
	}
	if l.brakes != "" {
		os.RemoveAll(l.brakes)
	}
}
