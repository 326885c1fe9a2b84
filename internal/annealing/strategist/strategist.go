// Package strategist carries rollouts out: it selects assets, updates what they
// follow, and validates. It moves pins and edits documents, and pushes nothing:
// the enforcer does, when its checks agree. The Strategist is an actor of its own
// under the partition's lease. It decides by package conduct from what is stored
// and seen, each step is one transaction, and between two steps it remembers
// nothing that it could not read again.
package strategist

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

// Store is what the strategist reads and writes, as store.All says.
type Store interface {
	store.Rollouts
	Changed(partition intent.PartitionID) <-chan struct{}
	Check(ctx context.Context, lease store.Lease) error
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Incarnations(ctx context.Context, partition intent.PartitionID, before intent.Sequence, limit int) ([]intent.Incarnation, error)
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	// What a rollout that sets a field reads besides.
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error)
	ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) ([]intent.Candidate, error)
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	DocumentRevisions(ctx context.Context, partition intent.PartitionID, name, before string, limit int) ([]document.Revision, error)
	PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error
}

// Schemas finds the set of types that incarnations were published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Options of a strategist.
type Options struct {
	Partition intent.PartitionID
	Store     Store
	Schemas   Schemas
	// Sight is where the enforcer notes what it sees.
	Sight *sight.Board
	// Gap is the longest time between two looks that are still one.
	Gap time.Duration
	// Assess asks for the verdict of a validation. It returns within a minute.
	Assess func(ctx context.Context, of Assessing) (Assessed, error)
	// Select asks a plugin which assets of a stage go on, as plugin.Judge says.
	Select  func(ctx context.Context, plugin string, request *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error)
	Runtime loop.Runtime
	Log     *slog.Logger
	// Repositories has the documents that lie in repositories; nil: nobody has, and rollouts of
	// their fields wait.
	Repositories landing.Repositories
}

// Assessing is what a validation is asked about.
type Assessing struct {
	Partition  intent.PartitionID
	Run        intent.Rollout
	Validation *intentpb.Validation
	conduct.Question
	// Restarted is when it began anew after it had found what is bad; zero: it did not. Samples of before count no more.
	Restarted time.Time
	// Now is when it is asked.
	Now time.Time
}

// Assessed is the answer.
type Assessed struct {
	intent.ValidationVerdict
	// Next is when to ask again; zero: never, for this is the last word.
	Next time.Time
	// Unasked reports that this process could not ask, and Unkept that it could not keep what the source answered. Neither is
	// an error of the source.
	Unasked, Unkept bool
	// Record of it, to keep, as store.JudgementBlobs says; nil: there is none.
	Record []byte
}

// Strategist of one partition.
type Strategist struct {
	Options
	lease store.Lease
	inbox *loop.Inbox[func()]
	view  *view
	// states of rollouts by name.
	states map[string]*state
	// judgements say of contents whether they are good; nil: not read yet.
	judgements map[intent.AssetID]map[intent.Digest]bool
	// outdated: a run began since judgements were read. What it brings may be content of long ago, of which
	// a collection has removed what was found.
	outdated bool
	// listed are the assets that rollouts by fields may select, by rollout; contents
	// those of documents.
	listed   map[string]*listing
	contents map[contentOf]*conduct.Content
	// visits to the repositories of the partition, and what documents there were when they were read last.
	visits *landing.Visits
	latest map[string]*conduct.Content
}

// state is what is remembered of a rollout, so that it need not be read again.
type state struct {
	stored, observations map[intent.AssetID]intent.Observation
	// read: the store was asked what was seen.
	read     bool
	verdicts map[verdictKey]*verdict
	// retries are how often validations began anew.
	retries map[retryKey]int
	picks   map[string]*picking
	// lastReason is the last reason why it could not be gone on with, and refused why its
	// document could not be edited.
	lastReason, refused string
	// completed is what it went through with last, and done what the newest run before
	// doneBefore brought that was done, where others come after it.
	completed, lastDone intent.IncarnationID
	doneBefore          uint64
}

// New returns a strategist.
func New(o Options) *Strategist {
	return &Strategist{
		Options: o, inbox: loop.NewInbox[func()](), states: map[string]*state{}, listed: map[string]*listing{}, contents: map[contentOf]*conduct.Content{},
		visits: landing.New(landing.Options{Partition: o.Partition, Repositories: o.Repositories, Runtime: o.Runtime, Log: o.Log}), latest: map[string]*conduct.Content{},
	}
}

// again is how long to wait before what could not be read is read again.
const again = time.Second

// Run goes on until the context ends or the lease is lost.
func (s *Strategist) Run(ctx context.Context, lease store.Lease) error {
	s.lease, s.view, s.judgements, s.states = lease, nil, nil, map[string]*state{}
	defer s.visits.End(ctx)
	for ctx.Err() == nil {
		changed, news := s.Store.Changed(s.Partition), s.Sight.News()
		next, err := s.pass(ctx)
		if ctx.Err() != nil {
			break
		}
		pause := longest
		switch {
		case fault.Is(err, fault.Conflict):
			// The partition moved on, or the lease is lost.
			if err := s.Store.Check(ctx, lease); fault.Is(err, fault.Conflict) {
				return err
			}
			pause = 0
		case err != nil:
			s.Log.Warn("rollouts cannot go on; trying again", "partition", s.Partition, "error", err)
			s.judgements, s.states = nil, map[string]*state{}
			pause = again
		case len(s.states) == 0:
			pause = -1 // Nothing is governed until head says so.
		case !next.IsZero():
			pause = min(max(0, next.Sub(s.Runtime.Now())), longest)
		}
		if pause >= 0 {
			// Not at once, however much changes: it reads all that is governed.
			if err := s.Runtime.Wait(ctx, leastPause, nil); err != nil {
				return err
			}
		}
		if err := s.rest(ctx, pause, changed, news); err != nil {
			return err
		}
		for _, step := range s.inbox.Take() {
			step()
		}
	}
	return ctx.Err()
}

// rest until the pause is over, or something changed: in the store, in what is seen
// of what is watched, or by an answer that came.
func (s *Strategist) rest(ctx context.Context, pause time.Duration, changed <-chan struct{}, news uint64) error {
	if pause < 0 {
		return s.Runtime.Wait(ctx, pause, changed)
	}
	for {
		part := sees
		if s.asking() {
			part = answers
		}
		part = min(part, pause)
		if err := s.Runtime.Wait(ctx, part, changed); err != nil {
			return err
		}
		select {
		case <-changed:
			return nil
		default:
		}
		if pause -= part; pause <= 0 || s.Sight.News() != news || !s.inbox.Empty() {
			return nil
		}
	}
}

const (
	// sees is how often it looks whether something new was seen, which reads nothing.
	sees = time.Second
	// leastPause is between two looks, and longest where something is governed.
	leastPause = 100 * time.Millisecond
	longest    = 30 * time.Second
	// answers is how often it looks whether an answer came.
	answers = 500 * time.Millisecond
)

// due is when a validation or a plugin is to be asked next; zero: none is.
func (st *state) due(now time.Time) (next time.Time) {
	for _, v := range st.verdicts {
		if !v.asking && v.next.After(now) {
			next = sooner(next, v.next)
		}
	}
	for _, p := range st.picks {
		if !p.asking && p.next.After(now) {
			next = sooner(next, p.next)
		}
	}
	return next
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// asking reports whether an answer is awaited.
func (s *Strategist) asking() bool {
	for _, st := range s.states {
		for _, v := range st.verdicts {
			if v.asking {
				return true
			}
		}
		for _, p := range st.picks {
			if p.asking {
				return true
			}
		}
	}
	return false
}

// pass goes on with each rollout, one step at most: one that acts in every pass, as where
// many assets soak, keeps none of the others waiting.
func (s *Strategist) pass(ctx context.Context) (next time.Time, err error) {
	v, err := s.read(ctx)
	if err != nil {
		return next, err
	}
	for name := range s.states {
		if !slices.Contains(v.names, name) {
			delete(s.states, name)
		}
	}
	if len(v.names) == 0 {
		s.Sight.Watch(nil)
		return next, nil
	}
	if err := s.readKnown(ctx); err != nil {
		return next, err
	}
	var watched []intent.AssetID
	acted := false
	for _, name := range v.names {
		if !slices.Contains(v.names, name) {
			continue // By a step of this pass there is nothing left to do about it.
		}
		decision, err := s.goOn(ctx, v, name)
		if err != nil {
			return next, err
		}
		if decision.Act {
			acted = true
			if v, err = s.read(ctx); err != nil { // What the others rest on has moved.
				return next, err
			}
		}
		next = sooner(next, decision.Next)
		if decision.Act || !decision.Next.IsZero() {
			watched = slices.AppendSeq(watched, maps.Keys(decision.Seen))
		}
	}
	s.Sight.Watch(watched)
	if acted {
		return s.Runtime.Now(), nil
	}
	return next, nil
}

// readKnown reads what was judged, once, and again when a run has begun.
func (s *Strategist) readKnown(ctx context.Context) error {
	if s.judgements != nil && !s.outdated {
		return nil
	}
	judged, err := s.Store.Judgements(ctx, s.Partition, nil)
	if err != nil {
		return err
	}
	s.judgements, s.outdated = map[intent.AssetID]map[intent.Digest]bool{}, false
	for _, j := range judged {
		s.recordJudgement(j)
	}
	return nil
}

func (s *Strategist) recordJudgement(j intent.Judgement) {
	if s.judgements[j.Asset] == nil {
		s.judgements[j.Asset] = map[intent.Digest]bool{}
	}
	if good, judged := s.judgements[j.Asset][j.Effective]; judged && !good {
		return
	}
	s.judgements[j.Asset][j.Effective] = j.Good
}

// readSeen reads what was seen of assets that are new to a rollout: after a start, or
// where it takes them over from another.
func (s *Strategist) readSeen(ctx context.Context, v *view, name string, st *state) error {
	unknown := func(p intent.Pin) bool {
		_, ok := st.observations[p.Asset]
		return !ok
	}
	if st.read && !slices.ContainsFunc(v.pins[name], unknown) {
		return nil
	}
	observed, err := s.Store.Observations(ctx, s.Partition, name)
	for _, o := range observed {
		if _, ok := st.observations[o.Asset]; !ok {
			st.stored[o.Asset], st.observations[o.Asset] = o, o
		}
	}
	st.read = err == nil
	return err
}

// goOn with one rollout.
func (s *Strategist) goOn(ctx context.Context, v *view, name string) (conduct.Decision, error) {
	st := s.states[name]
	if st == nil {
		st = &state{stored: map[intent.AssetID]intent.Observation{}, observations: map[intent.AssetID]intent.Observation{}, verdicts: remembered(v.runs[name]), picks: map[string]*picking{}}
		st.retries = rememberedRetries(v.runs[name])
		s.states[name] = st
	}
	if err := s.readSeen(ctx, v, name, st); err != nil {
		return conduct.Decision{}, err
	}
	facts, err := s.facts(ctx, v, name, st)
	if err != nil {
		return conduct.Decision{}, err
	}
	decision := facts.decide()
	if facts.err != nil {
		return decision, facts.err
	}
	if facts.unread || decision.Act && !s.visits.Recall(name) {
		return s.awaitVisit(ctx, v, name, st), nil
	}
	if stale, err := s.isForgotten(ctx, v, decision.Step); err != nil {
		return decision, err
	} else if stale {
		s.judgements = nil // The next pass decides by what the store has.
		return conduct.Decision{Next: s.Runtime.Now(), Seen: st.observations, Run: facts.Run}, nil
	}
	if decision.Act {
		s.Runtime.Point("rollout")
		if err := s.Store.SaveRollout(ctx, s.lease, decision.Step); err != nil {
			v.runs = nil // They are to be read again.
			return decision, err
		}
		s.saved(st, decision.Step)
	}
	st.observations = decision.Seen
	if decision.Through != st.completed {
		st.completed, decision.Next = decision.Through, s.Runtime.Now() // Others come after it.
	}
	if decision.Run != nil {
		s.ask(ctx, v, name, st, *decision.Run, decision.Ask)
		s.pick(ctx, st, *decision.Run, decision.Pick)
		decision.Next = sooner(decision.Next, st.due(s.Runtime.Now()))
	}
	s.land(ctx, v, name, &decision)
	if decision.Edit != nil && !facts.inRepository() {
		edited, err := s.edit(ctx, v, name, st, *decision.Edit)
		decision.Act = decision.Act || edited
		return decision, err
	}
	return decision, nil
}

// isForgotten reports whether a step has assets go back to content of which the store knows no longer that it is good.
// A collection removes what was found of content that no incarnation had any more; such content may be published again, and
// what was read before is not to vouch for it (S20).
func (s *Strategist) isForgotten(ctx context.Context, v *view, step store.RolloutStep) (bool, error) {
	var assets []intent.AssetID
	for _, pin := range step.Pins {
		if pin.Rank == intent.RankRollback {
			assets = append(assets, pin.Asset)
		}
	}
	if len(assets) == 0 {
		return false, nil
	}
	judged, err := s.Store.Judgements(ctx, s.Partition, assets)
	if err != nil {
		return false, err
	}
	judged = append(judged, step.Judged...) // They are stored with the pins.
	for _, pin := range step.Pins {
		if pin.Rank != intent.RankRollback {
			continue
		}
		content, err := s.contentAt(ctx, v, pin.Incarnation, pin.Asset)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(judged, func(j intent.Judgement) bool { return j.Asset == pin.Asset && j.Effective == content && j.Good }) {
			return true, nil
		}
	}
	return false, nil
}

// saved takes up what is in the store now.
func (s *Strategist) saved(st *state, step store.RolloutStep) {
	if step.Run.Name != "" {
		s.outdated = s.outdated || s.view.runs[step.Run.Name].Run != step.Run.Run
		s.view.runs[step.Run.Name] = step.Run
	}
	for _, asset := range step.Forget {
		delete(st.stored, asset)
	}
	for _, o := range step.Observed {
		st.stored[o.Asset] = o
	}
	for _, j := range step.Forgiven {
		delete(s.judgements[j.Asset], j.Effective)
	}
	for _, j := range step.Judged {
		s.recordJudgement(j)
	}
	if e := step.Event; e.Kind != "" {
		s.Log.Info("a rollout went on", "partition", s.Partition, "rollout", step.Rollout, "run", step.Run.Run, "event", e.Kind, "what", e.Text)
	}
}
