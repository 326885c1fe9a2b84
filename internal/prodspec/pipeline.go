package prodspec

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// Store is what the pipeline needs of one. store.All satisfies it.
type Store interface {
	store.Snapshots
	store.Publisher
	store.Candidates
	store.Blobs
	validate.History
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	ListDocuments(ctx context.Context, partition intent.PartitionID) ([]document.Document, error)
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Check(ctx context.Context, lease store.Lease) error
	Hints(ctx context.Context, id intent.PartitionID) (int64, error)
	CommonPolicy(ctx context.Context) (store.CommonPolicy, error)
	Govern(ctx context.Context, lease store.Lease, base intent.IncarnationID, governed []store.Governed) error
	SaveVersions(ctx context.Context, lease store.Lease, source string, listed []intent.Version) error
	Changed(partition intent.PartitionID) <-chan struct{}
}

// Options of a pipeline.
type Options struct {
	// Partition as it is registered.
	Partition store.Partition
	Store     Store
	Runner    generate.Runner
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Measure is told what is done; nil: nobody is.
	Measure *measure.Pipeline
	// Trace is told of builds; nil: nobody is.
	Trace trace.Tracer
	// Limits of each source; zero: the default.
	Limits source.Limits
	// Place where sources are kept; nil: the disk.
	Place source.Place
	// Elsewhere says how sources are read that are no folders. The pipeline
	// itself sets Partition, Keep, Runtime, Wake and Failing, and Documents if they
	// are not another's.
	Elsewhere fetch.Options
	// Trial of sources with which a process ended; nil: none is made, and they
	// are worked on again.
	Trial Trial
	// Outside asks what rules ask outside; nil: they are held.
	Outside validate.Outside
}

// Pipeline keeps one partition's head equal to what its sources say.
type Pipeline struct {
	options Options
	status  atomic.Pointer[Status]
	// elsewhere are the sources that are looked at now and then.
	elsewhere atomic.Pointer[[]source.Lasting]
	// hints is how often the store was told that sources may have changed, as far as they were
	// looked at since; -1: not known.
	hints atomic.Int64
	// hasGenerations: the definition has rules of generations or previews, so a new head is a reason to
	// build: what it has brought into force, or left behind, no source tells.
	hasGenerations atomic.Bool
	// awaits is the held candidate that an acknowledgement would let through.
	awaits atomic.Pointer[intent.CandidateID]

	overtaking overtaking

	// The rest belongs to the goroutine of Run.
	lease    store.Lease
	builder  *builder
	attempts *attempts
	// compared is the head that dirty is relative to.
	compared intent.IncarnationID
	cold     bool
	// validator of the types of the last build.
	validator *validate.Validator
	// judged is by which common rules what is served was judged, and brokenRules what it breaks
	// of them.
	judged      judgedUnder
	brokenRules []intent.Finding
	// common is the common policy as decoded last, and ownerHead the head whose owner is known.
	common       *intentpb.CommonPolicy
	commonDigest intent.Digest
	ownerHead    intent.IncarnationID
	// versions are, by source, the lists of versions that were stored last.
	versions map[string]intent.Digest
	// published is what head is written in.
	published publishedSchema
	// saved is the candidate that was stored last; unsure: another one may
	// have been.
	saved  intent.Candidate
	unsure bool
	// ran and kept are the runs that were counted.
	ran, keptRuns int
}

// New returns a pipeline that does nothing until Run.
func New(options Options) (*Pipeline, error) {
	if options.Limits == (source.Limits{}) {
		options.Limits = source.DefaultLimits()
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Measure == nil {
		options.Measure = &measure.Pipeline{}
	}
	return &Pipeline{options: options}, nil
}

// Status of the last build; nil before the first. It is not to be changed.
func (p *Pipeline) Status() *Status { return p.status.Load() }

// Hint says that sources elsewhere may have changed: they are looked at now. It
// may be called by anyone, and as often.
func (p *Pipeline) Hint() {
	if list := p.elsewhere.Load(); list != nil {
		for _, folder := range *list {
			folder.Hint()
		}
	}
}

// followHints has sources elsewhere looked at if the store was told so since they were last.
func (p *Pipeline) followHints(ctx context.Context) {
	hints, err := p.options.Store.Hints(ctx, p.options.Partition.ID)
	if err == nil && p.hints.Swap(hints) != hints {
		p.Hint()
	}
}

// Run builds and publishes until the context or the lease ends, and returns
// why. Nothing that a source or a generator says ends it.
func (p *Pipeline) Run(ctx context.Context, lease store.Lease) error {
	p.lease, p.cold = lease, true
	p.options.Measure.Begin()
	// Before any source is looked at: what is told during the first looks and the first build, which
	// may take minutes, is not lost.
	hints, err := p.options.Store.Hints(ctx, p.options.Partition.ID)
	if err != nil {
		hints = -1
	}
	p.hints.Store(hints)
	program := Program{
		Definition: p.options.Partition.Definition, Partition: p.options.Partition.ID,
		Runner: p.options.Runner, Limits: p.options.Limits, Place: p.options.Place, Elsewhere: p.options.Elsewhere,
	}
	watcher := program.place().Watch(p.options.Runtime)
	defer watcher.Close()
	watcher.Tell(p.overtaking.changed)
	elsewhere := &program.Elsewhere
	elsewhere.Partition, elsewhere.Runtime, elsewhere.Wake, elsewhere.Keep = program.Partition, p.options.Runtime, func() { p.overtaking.newer(); watcher.Wake() }, lasts{p.options.Store, lease}
	elsewhere.Failing = failingBefore(p.options.Partition.Covered)
	if elsewhere.Documents == nil {
		elsewhere.Documents = func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
			return p.options.Store.Document(ctx, partition, name, "")
		}
	}
	if elsewhere.Outputs == nil {
		elsewhere.Outputs = func(ctx context.Context, other, reader intent.PartitionID) (outputs.Offer, error) {
			return grantedBy(ctx, p.options.Store, other, reader)
		}
	}
	program.Common = p.commonPolicy
	program.HasDocument = HasDocument(func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
		return p.options.Store.Document(ctx, partition, name, "")
	})
	if elsewhere.DocumentAt == nil {
		elsewhere.DocumentAt = p.options.Store.Document
	}
	p.builder, err = newBuilder(program, blobs{p.options.Store, lease})
	if err != nil {
		return err
	}
	defer p.builder.sources.close()
	p.attempts = &attempts{program: p.builder.program, trial: p.options.Trial, runtime: p.options.Runtime, marks: marks{p.options.Store, lease}}
	if err := p.attempts.recall(ctx); err != nil {
		return err
	}
	p.builder.sources.begin = p.attempts.begin
	p.builder.follow = func(folders []string) bool {
		p.overtaking.want(p.builder.sources.wanted())
		return watcher.Follow(folders)
	}
	if err := p.recall(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	newsDone := make(chan struct{})
	p.options.Runtime.Go("news of "+string(lease.Partition), func() {
		defer close(newsDone)
		p.news(ctx, watcher)
	})
	defer func() { cancel(); _ = p.options.Runtime.Wait(context.Background(), -1, newsDone) }()
	others := otherPartitions{pipeline: p, watched: map[intent.PartitionID]chan struct{}{}}
	defer func() { cancel(); others.wait() }()
	for {
		if err := p.buildRound(ctx, watcher.Changes()); err != nil {
			return err
		}
		lasting := p.builder.sources.lasting()
		if previous := p.elsewhere.Swap(&lasting); len(lasting) > 0 && (previous == nil || !slices.Equal(*previous, lasting)) {
			p.followHints(ctx)
		}
		others.watch(ctx, p.builder.sources.definition.definition.Sources, watcher)
		if watcher.Follow(p.builder.sources.watched) {
			// What changed before a folder was watched was not told.
			continue
		}
		if err := watcher.Wait(ctx); err != nil {
			return err
		}
	}
}

// news wakes the pipeline when its held candidate was let through or a document
// was edited, and has sources elsewhere looked at when somebody said that they
// may have changed.
func (p *Pipeline) news(ctx context.Context, watcher source.Watch) {
	var lastDocuments []revised
	var lastHead intent.IncarnationID
	lastCommon, _ := p.options.Store.CommonPolicy(ctx)
	for {
		changed := p.options.Store.Changed(p.options.Partition.ID)
		if now, err := p.documents(ctx); err == nil && !slices.Equal(now, lastDocuments) {
			lastDocuments = now
			watcher.Wake()
		}
		if p.hasGenerations.Load() {
			if partition, err := p.options.Store.Partition(ctx, p.options.Partition.ID); err == nil && partition.Head != lastHead {
				lastHead = partition.Head
				watcher.Wake()
			}
		}
		if now, err := p.options.Store.CommonPolicy(ctx); err == nil && now.Digest != lastCommon.Digest {
			lastCommon = now
			watcher.Wake()
		}
		if list := p.elsewhere.Load(); list != nil && len(*list) > 0 {
			p.followHints(ctx)
		}
		if id := p.awaits.Load(); id != nil {
			if _, acknowledged, err := p.options.Store.Acknowledged(ctx, *id); err == nil && acknowledged {
				p.awaits.CompareAndSwap(id, nil)
				watcher.Wake()
			}
		}
		if err := p.options.Runtime.Wait(ctx, -1, changed); err != nil {
			return
		}
	}
}

// revised is a document and its newest revision.
type revised struct{ name, revision string }

func (p *Pipeline) documents(ctx context.Context) (all []revised, err error) {
	list, err := p.options.Store.ListDocuments(ctx, p.options.Partition.ID)
	for _, d := range list {
		all = append(all, revised{d.Name, d.Revision.ID})
	}
	return all, err
}

// buildRound builds once and does what the outcome asks for. It returns only what
// ends the pipeline; anything else is told by the status and tried again.
func (p *Pipeline) buildRound(ctx context.Context, changes source.Changes) error {
	started := p.options.Runtime.Now()
	p.options.Measure.Step.Set(started)
	p.options.Measure.Unserved.Begin(started)
	defer p.options.Measure.Step.Set(time.Time{})
	p.builder.timed = nil
	if p.options.Trace != nil {
		p.builder.timed = &timed{runtime: p.options.Runtime}
	}
	building, end := p.overtaking.begin(ctx)
	p.builder.generating = building
	status, err := p.attempt(ctx, started, changes)
	end()
	overtaken := p.overtaking.overtook(err)
	p.measured(status, overtaken, err, started)
	p.attempts.finish(ctx, !overtaken)
	if overtaken && ctx.Err() == nil {
		p.options.Log.Info("newer sources came before the build had ended, and are built instead", "partition", p.lease.Partition)
		return nil
	}
	status.Failing = p.builder.failing
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if leaseErr := p.options.Store.Check(ctx, p.lease); fault.Is(leaseErr, fault.Conflict) {
			return leaseErr
		}
		p.cold, p.builder.sources.incomplete = true, true
		status = Status{State: Unavailable, Failing: p.builder.failing, Findings: []intent.Finding{{
			Rule: "pipeline", Severity: intent.Error, Message: message(err), Hint: hint(err),
		}}}
	}
	status.At, status.Took = started, p.options.Runtime.Now().Sub(started)
	status.Executions, status.Overtaken = p.builder.graph.Executions(), p.overtaking.total
	previous := p.status.Swap(&status)
	if previous == nil || previous.State != status.State || previous.Head != status.Head || previous.Candidate != status.Candidate {
		p.tell(status, err)
	}
	for _, failing := range status.Failing {
		if previous == nil || !slices.Contains(previous.Failing, failing) {
			p.options.Log.Warn("a source cannot be read, and is used as it was", "partition", p.lease.Partition, "source", failing.Source, "revision", failing.Revision, "reason", failing.Failing.Reason)
		}
	}
	return nil
}

// overtakenOutcome is that of a build that newer sources ended.
const overtakenOutcome = "overtaken"

// measured counts a build, and the runs that it took.
func (p *Pipeline) measured(status Status, overtaken bool, err error, started time.Time) {
	m, outcome := p.options.Measure, string(status.State)
	switch {
	case overtaken:
		outcome = overtakenOutcome
	case err != nil:
		outcome = "failed"
	case status.State == Serving:
		m.Unserved.Set(time.Time{})
	}
	now := p.options.Runtime.Now()
	m.Builds.Of(outcome).Took(now.Sub(started))
	p.trace(status, outcome, started, now)
	ran, keptRuns := p.builder.graph.Executions(), p.builder.graph.Kept()
	m.Ran.Add(ran - p.ran)
	m.Kept.Add(keptRuns - p.keptRuns)
	p.ran, p.keptRuns = ran, keptRuns
}

func (p *Pipeline) tell(status Status, err error) {
	level, attributes := slog.LevelInfo, []any{"partition", p.lease.Partition, "head", status.Head.String(), "took", status.Took}
	if status.State != Serving {
		level = slog.LevelWarn
		count := len(status.Findings)
		for _, f := range status.Findings {
			count += f.Alike
		}
		attributes = append(attributes, "findings", count)
		if len(status.Findings) > 0 {
			f := status.Findings[0]
			if f.Alike > 0 {
				attributes = append(attributes, "alike", f.Alike, "examples", f.Examples.List())
			}
			attributes = append(attributes, "first", f.Message, "file", f.File, "line", f.Line)
		}
		if err != nil {
			attributes = append(attributes, "error", err)
		}
	}
	p.options.Log.Log(context.Background(), level, string(status.State), attributes...)
}

// attempt is the story of a build: read and generate, compare with head,
// judge, publish.
func (p *Pipeline) attempt(ctx context.Context, now time.Time, changes source.Changes) (Status, error) {
	partition, err := p.options.Store.Partition(ctx, p.lease.Partition)
	if err != nil {
		return Status{}, err
	}
	head := partition.Head
	if p.unsure {
		if err := p.recall(ctx); err != nil {
			return Status{}, err
		}
	}
	p.builder.patient = p.overtaking.patient()
	if err := p.readServedOwner(ctx, head); err != nil {
		return Status{}, err
	}
	r, heldStatus, err := p.build(ctx, head, now, changes)
	// What changed while it was read is read anew, before anybody is told.
	const tries = 3
	for i := 1; i < tries && err == nil && r.unavailable; i++ {
		p.builder.patient = true
		r, heldStatus, err = p.build(ctx, head, now, source.Changes{All: true})
	}
	if err != nil {
		return Status{}, err
	}
	if heldStatus != nil {
		return *heldStatus, nil
	}
	if err := p.saveVersions(ctx, &r); err != nil {
		return Status{}, err
	}
	if len(r.findings) > 0 {
		return p.refuse(ctx, head, r, now)
	}
	delta, err := p.difference(ctx, head)
	if err != nil {
		return Status{}, err
	}
	again, err := p.evolve(ctx, head, &delta)
	if err != nil {
		return Status{}, err
	}
	if len(delta.entries) == 0 && again == nil {
		return p.cover(ctx, partition, r)
	}
	return p.judge(ctx, head, r, delta, again, now)
}

// difference of what was built from head.
func (p *Pipeline) difference(ctx context.Context, head intent.IncarnationID) (change, error) {
	if p.cold || p.compared != head {
		p.cold = true
		if err := p.builder.compare(ctx, p.options.Store, head); err != nil {
			return change{}, err
		}
		p.cold, p.compared = false, head
	}
	return p.builder.delta(ctx, p.options.Store, head)
}

// blobs is the graph's cache in the store.
type blobs struct {
	store Store
	lease store.Lease
}

const runBlobs = "generate"

func (b blobs) Get(ctx context.Context, name string) ([]byte, error) {
	return b.store.GetBlob(ctx, b.lease.Partition, runBlobs, name)
}

func (b blobs) Put(ctx context.Context, records map[string][]byte) error {
	return b.store.PutBlobs(ctx, b.lease, runBlobs, records)
}
