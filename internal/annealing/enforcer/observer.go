package enforcer

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/sight"
)

// observer asks the plugins how assets are, in batches, and reads what the answers make
// worth knowing. It bounds what each plugin is asked at once, and lets one that fails
// alone. What was found it hands to results; it decides nothing.
type observer struct {
	partition intent.PartitionID
	runtime   loop.Runtime
	log       *slog.Logger
	limits    Limits
	measure   *measure.Enforcer
	isTraced  bool
	// sight tells which assets a rollout watches. plans: all is looked at to plan, once.
	sight   *sight.Board
	plans   bool
	inbox   *loop.Inbox[func()]
	read    *reader
	memos   *memoBook
	plugins pluginSet
	// view, incarnations and facts are read only.
	view         *view
	incarnations *incarnationUse
	facts        *neighbourStore
	// queue takes back an asset that changed after it became ready.
	queue *loop.Queue[*asset]
	// find returns the asset of that name in the enforcer's care; nil: there is none.
	find    func(intent.AssetID) *asset
	results lookResults
}

// lookResults takes what the observer found. All its methods run in the goroutine that owns
// the state.
type lookResults interface {
	// handleBatch takes what a batch of looks found, or why it failed as a whole.
	handleBatch(ctx context.Context, s *served, batch []*observation, err error)
	// handleResult takes what was found of one asset in a batch of that size.
	handleResult(ctx context.Context, s *served, g *observation, err error, size int, now time.Time)
	// handleModel takes the facts of an asset that no plugin serves.
	handleModel(a *asset, facts *neighbourFacts, err error)
	// look decides anew about an asset whose plugin is not asked now.
	look(ctx context.Context, a *asset, priority loop.Priority, now time.Time)
}

// endBatch takes a batch that was answered, or failed as a whole, out of those in flight.
func (o *observer) endBatch(s *served, batch []*observation, err error, now time.Time) {
	s.inFlight--
	if batch[0].isOther() {
		s.otherBatches--
	}
	if batch[0].suspect {
		s.suspecting = false
	}
	if err != nil {
		s.measure.Failed.Add(1)
		_, downErr := s.plugin.Describe()
		o.recordFailure(s, cmp.Or(downErr, err), downErr != nil, now)
	} else {
		s.answered()
	}
	s.measureBreaker()
}

// failedPush takes up a push whose plugin may have failed with it. One that is
// up and says that it failed works.
func (o *observer) failedPush(s *served, now time.Time) {
	if _, downErr := s.plugin.Describe(); downErr != nil {
		o.recordFailure(s, downErr, true, now)
		s.measureBreaker()
	}
}

// recordFailure counts a failure of a plugin, and logs it where nobody else does: that one
// is down, is logged by who runs or dials it.
func (o *observer) recordFailure(s *served, err error, isDown bool, now time.Time) {
	if s.failed(err, isDown, o.limits.Sweep, now) {
		o.log.Warn("a plugin is up and fails", "partition", o.partition, "plugin", s.name, "failures", s.failures, "again", s.until, "error", err)
	}
}

// readInward reads again what others declare to an asset, after head or a pin
// moved since it was looked at.
func (o *observer) readInward(ctx context.Context, s *served, g *observation, size int) {
	horizon := o.incarnations.list(o.view)
	o.runtime.Go("edges", func() {
		o.runtime.Point("edges")
		inbound, err := o.read.inward(ctx, g.asset.id, o.partition, horizon, g.requirements.standing)
		if err != nil {
			g.requirements = requirements{err: err}
		} else {
			g.requirements.inward = inbound
		}
		o.inbox.Put(func() { o.results.handleResult(ctx, s, g, nil, size, o.runtime.Now()) })
	})
}

// readModel reads how a model stands, when a neighbour asks: it is as its
// intent says.
func (o *observer) readModel(ctx context.Context, a *asset, target intent.IncarnationID, effective intent.Digest) {
	if !o.facts.wanted[a] || a.looking {
		return
	}
	a.looking = true
	o.runtime.Go("model", func() {
		o.runtime.Point("model")
		content, err := o.read.asset(ctx, target, a.id)
		var s *neighbourFacts
		if err == nil {
			s, err = o.read.readFacts(ctx, content, nil, intent.Difference{Incarnation: target, Effective: effective, Outcome: intent.InSync})
		}
		o.inbox.Put(func() {
			a.looking = false
			o.results.handleModel(a, s, err)
		})
	})
}
