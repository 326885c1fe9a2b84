// Package enforcer keeps production as intent says, one asset at a time. A
// pass over an asset is: target, facts, decide, admit, hand to a pusher; it
// ends with a report and never waits for a push. Passes are level-triggered:
// they read facts and remember no events. The enforcer never touches
// production (plugins do) and never decides what intent is. App runs one per
// partition, under that partition's lease.
package enforcer

import (
	"context"
	"log/slog"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// Stores are the parts of store.All that the enforcer needs, as that says.
type Stores interface {
	Check(ctx context.Context, lease store.Lease) error
	Changed(partition intent.PartitionID) <-chan struct{}
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)

	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]store.Change, error)
	EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error)

	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error)
	Retries(ctx context.Context, partition intent.PartitionID, since uint64) ([]intent.AssetID, error)
	Consents(ctx context.Context, partition intent.PartitionID) (store.Consents, error)
	Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error)

	Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error)
	Permit(ctx context.Context, lease store.Lease, push intent.PushID, now time.Time) error
	ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error
	SaveResumeToken(ctx context.Context, lease store.Lease, push intent.PushID, token []byte) error
	OpenPushes(ctx context.Context, partition intent.PartitionID) ([]store.OpenPush, error)
	Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) ([]store.PushRecord, error)
	SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error)
	EnforcedPage(ctx context.Context, partition intent.PartitionID, after intent.AssetID, limit int) ([]store.Enforced, error)

	SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error
	ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	Ended(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]store.EndedPush, error)
}

// Schemas finds the set of types that incarnations were published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Options of an enforcer.
type Options struct {
	Partition intent.PartitionID
	// Since is the first epoch under which this process acted for the
	// partition: what was pushed from then on may still be running in a
	// plugin that lives, what was pushed before only in an older process.
	Since uint64
	Store Stores
	// Schemas is asked for the types that expressions speak of; nil: they are
	// the built-in ones.
	Schemas Schemas
	// Plugins returns the plugin that a binding names, by run or dial.
	Plugins func(binding *intentpb.PluginBinding) plugin.Plugin
	// Plans: it is looked at to plan, once, so all that is in the way is told at once.
	Plans bool
	// Beside are pushes that others have under way, for a plan, which is told which
	// budgets and rate limits they fill; where pushes are made, there are none.
	Beside []store.OpenPush
	// Outside answers what checks ask of monitoring; nil: nobody is asked. It
	// returns within some seconds.
	Outside func(ctx context.Context, q check.Question) (check.Answer, error)
	Runtime loop.Runtime
	Log     *slog.Logger
	Limits  Limits
	// Measure is told what is done; nil: nobody is.
	Measure *measure.Enforcer
	// Trace is told how pushes go; nil: nobody is.
	Trace trace.Tracer
	// Sight is told what is seen of what is watched, which is looked at often; nil:
	// nothing is.
	Sight *sight.Board
}

// Limits bound what an enforcer does at once, and how often.
type Limits struct {
	// Sweep is the longest pause between two looks at a quiet asset.
	Sweep time.Duration
	// Watched is that of an asset which a rollout watches.
	Watched time.Duration
	// FactHold is how long a difference may be relied on.
	FactHold time.Duration
	// Pushes in flight at once, per plugin; in the whole partition twice as many, so
	// that one plugin, hung in all of its own, leaves as many to the others.
	Pushes int
	// Diffs in flight at once, in batches, per plugin.
	Diffs int
	// Retry is the pause after failures in a row.
	Retry loop.Backoff
}

// DefaultLimits are fit for a partition of up to a million assets.
func DefaultLimits() Limits {
	return Limits{
		Sweep:    30 * time.Second,
		Watched:  2 * time.Second,
		FactHold: 10 * time.Second,
		Pushes:   512,
		Diffs:    4,
		Retry:    loop.Backoff{First: time.Second, Most: 5 * time.Minute},
	}
}

// Enforcer enforces one partition.
type Enforcer struct {
	Options
	lease store.Lease
	// inbox holds steps that other goroutines hand to the owner of the state.
	inbox *loop.Inbox[func()]
	read  *reader
	// tracing writes the traces of pushes.
	tracing tracing

	// What follows is owned by the goroutine in Run.
	view   view
	assets map[intent.AssetID]*asset
	queue  loop.Queue[*asset]
	// observer asks the plugins how assets are.
	observer observer
	// troubled are the assets that are not quietly in sync.
	troubled map[*asset]bool
	// retries says how long to wait after failures.
	retries retries
	// waiters are the assets that wait for others; waitTimes is since when they, and all
	// others that wait, do.
	waiters   waiters
	waitTimes waitTimes
	// neighbours answers what checks ask of an asset's neighbours.
	neighbours neighbours
	// incarnations counts where contents are to be looked for, and orphans are the assets out
	// of intent with an enforced record.
	incarnations incarnationUse
	orphans      orphans
	// latest is the latest time that the clock told the owner.
	latest    time.Time
	inquiries inquiries
	// afterPushes has protections asked after pushes.
	afterPushes afterPushes
	// pushLimits says who may be pushed now; dispatchPending: those that wait for a place
	// are looked at again after a pause.
	pushLimits      pushLimits
	dispatchPending bool
	pushes          uint64
	failed          error
	// viewErr says why the view could not be read anew; catchingUp: it is
	// tried again soon.
	viewErr    error
	catchingUp bool

	admissions loop.Batch[admission]
	closings   loop.Batch[closing]
	enforced   loop.Batch[sighting]
	reports    map[intent.AssetID]intent.Report
	reporting  bool
}

// New returns an enforcer. It does nothing before Run.
func New(options Options) *Enforcer {
	// Not of admissions: Limits.Pushes bounds those that wait. One left over
	// could be sent after a neighbour's push had begun and ended, of which
	// neither outrun nor Quiet tells.
	const groupSize = 1024
	if options.Measure == nil {
		options.Measure = &measure.Enforcer{}
	}
	if options.Outside == nil {
		options.Outside = nobody
	}
	e := &Enforcer{
		queue:      loop.Queue[*asset]{Compare: byID, Place: func(a *asset) *loop.Place { return &a.due }},
		Options:    options,
		inbox:      loop.NewInbox[func()](),
		tracing:    tracing{options.Trace, options.Runtime, options.Partition},
		assets:     map[intent.AssetID]*asset{},
		troubled:   map[*asset]bool{},
		waiters:    waiters{},
		inquiries:  newInquiries(),
		waitTimes:  newWaitTimes(),
		reports:    map[intent.AssetID]intent.Report{},
		admissions: loop.Batch[admission]{},
		closings:   loop.Batch[closing]{Max: groupSize},
		enforced:   loop.Batch[sighting]{Max: groupSize},
	}
	e.pushLimits = newPushLimits(options, e.find)
	e.read = newReader(options, e.pushLimits.rates.known)
	e.afterPushes = afterPushes{&e.view, &e.inquiries, func(a *asset, at time.Time) { e.queue.Add(a, at, loop.Retry) }}
	e.incarnations.lagging = map[intent.Sequence]int{}
	e.orphans = orphans{byID: map[intent.AssetID]orphan{}, incarnations: &e.incarnations}
	e.neighbours = neighbours{
		view: &e.view, orphans: &e.orphans, afterPushes: &e.afterPushes, facts: newNeighbourStore(options.Limits.FactHold),
		find: e.find, look: func(a *asset) { e.soon(a, loop.Fresh) },
	}
	e.retries.pace = options.Limits.Retry
	e.observer = newObserver(e)
	return e
}

// find returns the asset of that name; nil: it is not in the enforcer's care.
func (e *Enforcer) find(id intent.AssetID) *asset { return e.assets[id] }

// Run enforces until the context ends or the lease is lost, and returns why.
// Pushes under way when it returns are told to stop; the next holder of the
// lease settles them.
func (e *Enforcer) Run(ctx context.Context, lease store.Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.lease = lease
	e.retries.epoch = lease.Epoch
	e.Measure.Begin()
	if err := e.load(ctx); err != nil {
		return err
	}
	e.Runtime.Go("enforcer watch", func() { e.watch(ctx) })
	for {
		e.Runtime.Point("enforcer step")
		e.Measure.Step.Set(e.Runtime.Now())
		e.watchClock()
		for _, step := range e.inbox.Take() {
			step()
		}
		if e.failed != nil {
			return e.failed
		}
		e.dispatch(ctx)
		e.inquire(ctx)
		e.flush(ctx)
		pause := e.untilDue()
		e.Measure.Assets.Store(int64(len(e.assets)))
		e.Measure.Queued.Store(int64(e.queue.Len()))
		e.Measure.Step.Set(time.Time{})
		if err := e.Runtime.Wait(ctx, pause, e.inbox.Wake()); err != nil {
			return err
		}
	}
}

// watch hands every change of the store to the owner.
func (e *Enforcer) watch(ctx context.Context) {
	for {
		changed := e.Store.Changed(e.Partition)
		e.inbox.Put(func() { e.refresh(ctx) })
		if e.Runtime.Wait(ctx, -1, changed) != nil {
			return
		}
	}
}

// soon puts an asset in the queue for now.
func (e *Enforcer) soon(a *asset, priority loop.Priority) {
	e.queue.Add(a, e.now(), priority)
}
