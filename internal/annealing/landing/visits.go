package landing

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

const (
	// visitPause is the time between two visits to a document. After each failed visit it doubles,
	// up to mostVisitPause.
	visitPause, mostVisitPause = 10 * time.Second, 5 * time.Minute
	// again is the pause after a visit that did not carry out a landing because its decision was
	// outdated. soon is the pause until the actor looks at a visit that has begun.
	again, soon = time.Second, 100 * time.Millisecond
	// mostEffect bounds the time of a commit, or of a request to a host.
	mostEffect = 2 * time.Minute
)

// Options of Visits.
type Options struct {
	Partition    intent.PartitionID
	Repositories Repositories
	Runtime      loop.Runtime
	Log          *slog.Logger
}

// Visits are the visits of one actor to the repositories of its partition. Only the actor begins
// them and reads their results. A restart forgets them.
type Visits struct {
	Options
	visits map[string]*Visit
	due    map[string]time.Time
	pauses map[string]time.Duration
	// landings for the next visit, by their ids.
	landings map[string]Landing
	answers
}

// New returns Visits.
func New(o Options) *Visits {
	return &Visits{
		Options: o, visits: map[string]*Visit{}, due: map[string]time.Time{}, pauses: map[string]time.Duration{}, landings: map[string]Landing{},
		answers: newAnswers(),
	}
}

// Visit reads one document of a repository in the background, and then carries out its landings. A
// document has one visit at a time.
type Visit struct {
	landings  []Landing
	questions []question
	cancel    context.CancelFunc
	ended     chan struct{}
	// done is set after all results are, and before ended is closed.
	done atomic.Bool
	// unanswered: a question could not be answered.
	unanswered bool

	// Document is what was read last. With Err, it is not known.
	Document document.Document
	Err      error
	// Outcomes of landings, by their ids. A landing has none if the document already had its value,
	// or if its decision was outdated.
	Outcomes map[string]Outcome

	// isSeen: the actor has read the results.
	isSeen bool

	lock sync.Mutex
	// recalled are the owners whose landings may not begin any more; acting are those with a landing
	// that has begun.
	recalled, acting map[string]bool
}

// Last returns the last visit to a document; ok: it is over.
func (v *Visits) Last(name string) (last *Visit, ok bool) {
	last = v.visits[name]
	if last == nil || !last.done.Load() {
		return nil, false
	}
	last.isSeen = true
	return last, true
}

// Soon makes the next visit to a document due now.
func (v *Visits) Soon(name string) { delete(v.due, name) }

// Hurry makes the next visit to a document due now, unless the last visit failed.
func (v *Visits) Hurry(name string) {
	if v.pauses[name] <= visitPause {
		v.Soon(name)
	}
}

// Add gives a landing to the next visit to its document.
func (v *Visits) Add(l Landing) { v.landings[l.ID] = l }

// Forget removes the landings of an owner that no visit has taken yet.
func (v *Visits) Forget(owner string) {
	maps.DeleteFunc(v.landings, func(_ string, l Landing) bool { return l.Owner == owner })
}

// Recall prevents landings of an owner from beginning. It reports false if one has begun and the
// actor has not read its result: a decision now could rest on outdated facts.
func (v *Visits) Recall(owner string) bool {
	v.Forget(owner)
	for _, visit := range v.visits {
		if visit.isSeen {
			continue
		}
		visit.lock.Lock()
		visit.recalled[owner] = true
		isActing := visit.acting[owner]
		visit.lock.Unlock()
		if isActing {
			return false
		}
	}
	return true
}

// begin reports whether a landing may be carried out. If so, Recall knows that it has begun.
func (v *Visit) begin(l Landing) bool {
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.recalled[l.Owner] {
		return false
	}
	v.acting[l.Owner] = true
	return true
}

// Go begins a visit to a document if one is due. Next is the time until the actor must call again.
func (v *Visits) Go(ctx context.Context, name string) (next time.Duration) {
	now := v.Runtime.Now()
	if last := v.visits[name]; last != nil && !last.done.Load() {
		return again
	}
	if left := v.due[name].Sub(now); left > 0 {
		return left
	}
	v.end(name, now)
	v.start(ctx, name)
	return soon
}

// end sets the time of the next visit by the result of the last one.
func (v *Visits) end(name string, now time.Time) {
	pause := visitPause
	switch last := v.visits[name]; {
	case last == nil:
	case last.failed():
		pause = min(max(2*v.pauses[name], visitPause), mostVisitPause)
	case len(last.Outcomes) < len(last.landings):
		pause = again // A decision was outdated, or the document already had the value.
	}
	v.pauses[name], v.due[name] = pause, now.Add(pause)
}

// Unread reports whether the document or an answer could not be read.
func (v *Visit) Unread() bool { return v.Err != nil || v.unanswered }

// failed reports whether something could not be read or done.
func (v *Visit) failed() bool {
	if v.Unread() {
		return true
	}
	for _, o := range v.Outcomes {
		if o.Err != nil {
			return true
		}
	}
	return false
}

// Acted reports whether a landing was tried: what was read before it may be outdated.
func (v *Visit) Acted() bool {
	v.lock.Lock()
	defer v.lock.Unlock()
	return len(v.acting) > 0
}

// start begins a visit to a document, with the landings and questions for it.
func (v *Visits) start(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	visit := &Visit{Outcomes: map[string]Outcome{}, cancel: cancel, ended: make(chan struct{}), recalled: map[string]bool{}, acting: map[string]bool{}}
	for id, l := range v.landings {
		if l.Document == name {
			visit.landings = append(visit.landings, l)
			delete(v.landings, id)
		}
	}
	slices.SortFunc(visit.landings, func(a, b Landing) int { return cmp.Compare(a.ID, b.ID) })
	visit.questions = v.take(name)
	v.visits[name] = visit
	v.Runtime.Go("repository", func() {
		v.Runtime.Point("repository")
		defer cancel()
		defer close(visit.ended)
		defer visit.done.Store(true)
		v.visit(ctx, name, visit)
	})
}

// visit reads the document, carries out each landing, and reads the document again if one changed it.
func (v *Visits) visit(ctx context.Context, name string, visit *Visit) {
	visit.Document, visit.Err = v.Repositories.Read(ctx, v.Partition, name)
	readAgain := false
	for _, l := range visit.landings {
		isNeedless := visit.Err != nil || isThere(visit.Document, l)
		if isNeedless && !l.Withdraw || !l.Decided(ctx) || !visit.begin(l) {
			continue
		}
		outcome := v.carryOut(ctx, l)
		visit.Outcomes[l.ID] = outcome
		readAgain = readAgain || l.Host == "" || outcome.Merged
	}
	if visit.Err != nil {
		return
	}
	if readAgain {
		newer, err := v.Repositories.Read(ctx, v.Partition, name)
		if err != nil {
			visit.Err = err // The content is not known now.
			return
		}
		visit.Document = newer
	}
	v.answer(ctx, visit)
}

// isThere reports whether a document already has the values of a landing.
func isThere(d document.Document, l Landing) bool {
	next, err := document.Apply(d.Content, l.Edit.Operations)
	return err == nil && string(next) == string(d.Content)
}

func (v *Visits) carryOut(ctx context.Context, l Landing) (outcome Outcome) {
	ctx, cancel := loop.WithTimeout(ctx, v.Runtime, mostEffect)
	defer cancel()
	outcome.Number = l.Number
	if l.Withdraw {
		outcome.Err = v.Repositories.Withdraw(ctx, v.Partition, l.Document, l)
		outcome.Withdrawn = outcome.Err == nil
		return outcome
	}
	outcome.Request, outcome.Err = v.Repositories.Land(ctx, v.Partition, l.Document, l)
	return outcome
}

// Wait waits until no visit is under way.
func (v *Visits) Wait(ctx context.Context) error {
	for _, visit := range v.visits {
		if err := v.Runtime.Wait(ctx, -1, visit.ended); err != nil {
			return err
		}
	}
	return nil
}

// End cancels visits, and waits up to 10 s for them.
func (v *Visits) End(ctx context.Context) {
	for _, visit := range v.visits {
		visit.cancel()
	}
	const most = 10 * time.Second
	ctx, cancel := loop.WithTimeout(context.WithoutCancel(ctx), v.Runtime, most)
	defer cancel()
	if err := v.Wait(ctx); err != nil {
		v.Log.Warn("a visit to a repository does not end", "partition", v.Partition, "error", err)
	}
}
