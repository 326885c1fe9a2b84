package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/pushlog"
)

// New returns an enforcer. It does nothing before Run.
func New(options Options) *Enforcer {
	// Admissions have no such bound: Limits.Pushes bounds those that wait. One left over
	// could be sent after a neighbour's push had begun and ended, which neither isSuperseded
	// nor Admission.Quiet would show.
	const groupSize = 1024
	if options.Measure == nil {
		options.Measure = &measure.Enforcer{}
	}
	if options.PushLog == nil {
		options.PushLog = &pushlog.Book{}
	}
	if options.Outside == nil {
		options.Outside = nobody
	}
	e := &Enforcer{
		queue:      loop.Queue[*asset]{Compare: byID, Place: func(a *asset) *loop.Place { return &a.due }},
		Options:    options,
		inbox:      loop.NewInbox[func()](),
		memos:      newMemoBook(options),
		tracing:    tracing{options.Trace, options.Runtime, options.Partition},
		assets:     map[intent.AssetID]*asset{},
		troubled:   map[*asset]bool{},
		waiters:    waiters{},
		inquiries:  newInquiries(),
		outputs:    newOutputWriter(),
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
	e.reporter = reporter{
		partition: e.Partition, view: &e.view, afterPushes: &e.afterPushes, measure: e.Measure, sight: e.Sight,
		waitTimes: newWaitTimes(), pending: map[intent.AssetID]intent.Report{},
	}
	e.retries.pace = options.Limits.Retry
	e.observer = newObserver(e)
	return e
}

// newObserver gives the observer the parts of the enforcer that it reads.
func newObserver(e *Enforcer) observer {
	return observer{
		partition: e.Partition, runtime: e.Runtime, log: e.Log, limits: e.Limits, measure: e.Measure, isTraced: e.Trace != nil, sight: e.Sight, plans: e.Plans,
		inbox: e.inbox, read: e.read, memos: e.memos, plugins: newPluginSet(e.Options), view: &e.view, incarnations: &e.incarnations,
		facts: &e.neighbours.facts, queue: &e.queue, find: e.find, results: e,
	}
}
