package delivery

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// Asking is what a constraint asks about a version.
type Asking struct {
	// Home defines the application, as its incarnation At says. Partition has the environment.
	Home, Partition                      intent.PartitionID
	At                                   intent.IncarnationID
	Application, Environment, Constraint string
	Version                              intent.VersionName
	// Commit of the version; empty: not known.
	Commit string
	Spec   *intentpb.AskedVerdict
	// Timeout is how long the answer is waited for.
	Timeout time.Duration
}

// Reply is an answer to what a constraint asks.
type Reply struct {
	Pass   bool
	Reason string
	// Until is when a pass ends, or a no may end; zero: it does not say.
	Until time.Time
}

const (
	defaultAskTimeout = 10 * time.Second
	defaultAskEvery   = time.Minute
	// firstAskRest is how long to wait after a question that got no answer; it doubles up to
	// mostAskRest.
	firstAskRest, mostAskRest = 5 * time.Second, time.Minute
	// reasonPause is the shortest time between two rows of a no that differ in their reason alone.
	reasonPause = 5 * time.Minute
)

// inquiryKey names a question.
type inquiryKey struct {
	environmentKey
	constraint string
	version    intent.VersionName
	// askedDigest identifies whom it asks.
	askedDigest intent.Digest
}

// inquiry is a question that this process asks, or asked last. It holds nothing that a restart could
// lose: answers that count are rows, and the next process asks again.
type inquiry struct {
	startedAt time.Time
	cancel    context.CancelFunc
	// done is set once reply or err is.
	done  atomic.Bool
	reply Reply
	err   error
	// stored: the answer is in rows. Next is when to ask again after that.
	stored bool
	next   time.Time
	// rest is how long is waited after no answer.
	rest time.Duration
}

// ask asks the questions of an environment that are due, one at a time, and stores the answers. Next is when to look again; 0: it does not matter.
func (d *Deliverer) ask(ctx context.Context, m *Moment, decision *promotion.Decision, at int) (next time.Duration, stepped bool, err error) {
	place, outcome := &m.Places[at], &decision.Outcomes[at]
	own := environmentKey{m.Home.ID, m.Spec.GetName(), place.Spec.GetName()}
	questions := outcome.Questions
	if d.Ask == nil || place.Trouble != 0 {
		questions = nil
	}
	keys := make([]inquiryKey, len(questions))
	for i, q := range questions {
		keys[i] = inquiryKey{own, q.Constraint.GetName(), q.Version, promotion.AskedDigest(q.Constraint.GetAsked())}
	}
	isBusy := false
	for key, i := range d.inquiries {
		switch {
		case key.environmentKey != own:
		case !slices.Contains(keys, key):
			i.cancel()
			delete(d.inquiries, key)
		case !i.done.Load():
			isBusy = true
		}
	}
	for n, q := range questions {
		i := d.inquiries[keys[n]]
		if i != nil && i.done.Load() && !i.stored && m.restartedSince(keys[n], i.startedAt) {
			i.stored = true // A person wants it asked anew: an answer to the older question does not count.
		}
		if i != nil && i.done.Load() && !i.stored {
			stepped, err := d.storeAnswer(ctx, m, keys[n], i, q)
			if err != nil || stepped {
				return 0, stepped, err
			}
		}
		due := time.Duration(0)
		switch {
		case i == nil:
		case !i.done.Load():
			due = again
		case !m.restartedSince(keys[n], i.startedAt):
			due = max(0, i.next.Sub(m.Facts.Now))
		}
		if due == 0 && !isBusy {
			d.startAsking(ctx, m, place, keys[n], q)
			isBusy, due = true, again
		}
		if due = cmp.Or(due, again); next == 0 || due < next {
			next = due
		}
	}
	return next, false, nil
}

// forgetAbandonedQuestions ends those of environments that are no longer defined.
func (d *Deliverer) forgetAbandonedQuestions(tasks []task) {
	defined := map[environmentKey]bool{}
	for _, t := range tasks {
		for _, e := range t.spec.GetEnvironments() {
			defined[environmentKey{t.home.ID, t.spec.GetName(), e.GetName()}] = true
		}
	}
	for key, i := range d.inquiries {
		if !defined[key.environmentKey] {
			i.cancel()
			delete(d.inquiries, key)
		}
	}
}

// startAsking asks beside the actor, until there is an answer or its time is over.
func (d *Deliverer) startAsking(ctx context.Context, m *Moment, place *Place, key inquiryKey, q promotion.Question) {
	asking := Asking{
		Home: m.Home.ID, Partition: d.Partition, At: m.Home.Head, Application: key.application, Environment: key.environment, Constraint: key.constraint,
		Version: key.version, Commit: m.Versions[q.Version].Commit, Spec: q.Constraint.GetAsked(), Timeout: defaultAskTimeout,
	}
	if timeout := asking.Spec.GetTimeout(); timeout != nil {
		asking.Timeout = timeout.AsDuration()
	}
	ctx, cancel := context.WithCancel(ctx)
	i := &inquiry{startedAt: m.Facts.Now, cancel: cancel}
	if before := d.inquiries[key]; before != nil {
		i.rest = before.rest
	}
	d.inquiries[key] = i
	d.Runtime.Go("constraint", func() {
		d.Runtime.Point("constraint")
		limited, free := loop.WithTimeout(ctx, d.Runtime, asking.Timeout)
		defer free()
		i.reply, i.err = d.Ask(limited, asking)
		i.done.Store(true)
	})
}

// storeAnswer stores what was answered, unless rows say it already.
func (d *Deliverer) storeAnswer(ctx context.Context, m *Moment, key inquiryKey, i *inquiry, q promotion.Question) (stepped bool, err error) {
	now := m.Facts.Now
	row := intent.DeliveryRecord{
		Kind: intent.DeliveryAnswer, Environment: key.environment, Version: key.version, Constraint: key.constraint, Content: key.askedDigest,
		Good: i.reply.Pass, Reason: clip(cmp.Or(i.reply.Reason, "it gives no reason")),
	}
	rest := defaultAskEvery
	if every := q.Constraint.GetAsked().GetEvery(); every != nil {
		rest = every.AsDuration()
	}
	failure := i.err
	if failure == nil && i.reply.Pass && !i.reply.Until.IsZero() && !i.reply.Until.After(now) {
		failure = fault.New(fault.Invalid, "it passed the version until %s, which is over", i.reply.Until.UTC().Format(time.RFC3339))
	}
	switch {
	case failure != nil:
		row.Kind, row.Good, row.Reason = intent.DeliveryUnanswered, false, clip(failure.Error())
		rest = min(max(2*i.rest, firstAskRest), mostAskRest)
		i.rest = rest
	case i.reply.Pass:
		row.Until, i.rest = i.reply.Until, 0
	default:
		if i.rest = 0; i.reply.Until.After(now) {
			rest = min(rest, max(time.Second, i.reply.Until.Sub(now)))
		}
	}
	if !m.answered(row, now) {
		if err := d.promote(ctx, m, store.PromotionStep{Records: []intent.DeliveryRecord{row}}); err != nil {
			return false, err
		}
		stepped = true
	}
	i.stored, i.next = true, now.Add(rest)
	return stepped, nil
}

// answered reports whether rows say already what a row would: the newest answer about a version
// does, or differs in nothing but its reason and is not old. A pass is always a row of its own.
func (m *Moment) answered(row intent.DeliveryRecord, now time.Time) bool {
	if row.Good {
		return false
	}
	for n := len(m.Records) - 1; n >= 0; n-- {
		r := &m.Records[n]
		if r.Environment != row.Environment || r.Constraint != row.Constraint || r.Version != row.Version {
			continue
		}
		switch {
		case r.Kind == intent.DeliveryAct && r.Act == intent.ActRestart:
			return false
		case (r.Kind == intent.DeliveryAnswer || r.Kind == intent.DeliveryUnanswered) && r.Content == row.Content:
			return r.Kind == row.Kind && !r.Good && (r.Reason == row.Reason || now.Sub(r.At) < reasonPause)
		}
	}
	return false
}

// restartedSince reports whether a person wants a question asked anew that was asked at a time.
func (m *Moment) restartedSince(key inquiryKey, asked time.Time) bool {
	return slices.ContainsFunc(m.Records, func(r intent.DeliveryRecord) bool {
		return r.Kind == intent.DeliveryAct && r.Act == intent.ActRestart && r.At.After(asked) &&
			r.Environment == key.environment && r.Constraint == key.constraint && r.Version == key.version
	})
}
