package enforcer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

const (
	// mostQuestions that checks ask outside are known at once. Those beyond wait
	// until one that was answered comes up again, which is forgotten for them.
	mostQuestions = 10_000
	// mostAsking are under way at once of one answerer.
	mostAsking = 4
	// mostAnswered is what all answers that are kept may take, in bytes.
	mostAnswered = 16 << 20
)

// inquiries are the questions that checks ask, and what was answered. Each is
// asked once for all assets, and again while one that differs asks it.
type inquiries struct {
	questions map[check.Question]*question
	answers   map[check.Question]check.Answer
	desks     map[answerer]*desk
	// crowded: more are to be asked than are known at once.
	crowded bool
}

// answerer of questions. One that hangs keeps no other from being asked.
type answerer struct {
	source check.Source
	place  string
}

// desk is what is asked of one answerer: what is due, and how many are under way.
type desk struct {
	due    loop.Queue[*question]
	asking int
}

// question and the assets that wait for a change of its answer, and the pushes under
// way that it guards.
type question struct {
	check.Question
	failures int
	waiters  map[*asset]bool
	guards   map[*protectionRun]bool
	// at is the newest incarnation for which it was asked.
	at intent.IncarnationID
}

func newOutside() inquiries {
	return inquiries{questions: map[check.Question]*question{}, answers: map[check.Question]check.Answer{}, desks: map[answerer]*desk{}}
}

func newDesk() *desk {
	return &desk{due: loop.Queue[*question]{Compare: func(a, b *question) int {
		return cmp.Or(cmp.Compare(a.Text, b.Text), cmp.Compare(a.Keep, b.Keep), cmp.Compare(a.key(), b.key()))
	}}}
}

func (q *question) key() string { return fmt.Sprint(q.Question) }

func (q *question) answerer() answerer { return answerer{q.Source, q.Place} }

// nobody answers where an enforcer was given nobody to ask.
func nobody(context.Context, check.Question) (check.Answer, error) {
	return check.Answer{}, fault.New(fault.Unavailable, "nothing outside is asked here")
}

// question is one that is asked from a time on, of an asset at an incarnation; nil:
// there are too many.
func (e *Enforcer) question(checkQuestion check.Question, at intent.IncarnationID, startsAt time.Time) *question {
	q := e.inquiries.questions[checkQuestion]
	if q == nil && len(e.inquiries.questions) >= mostQuestions {
		e.inquiries.crowded = true
		return nil
	}
	if q == nil {
		q = &question{Question: checkQuestion, waiters: map[*asset]bool{}, guards: map[*protectionRun]bool{}}
		e.inquiries.questions[checkQuestion] = q
		e.addDue(q, startsAt, loop.Fresh)
	}
	q.at = at
	return q
}

// addDue has a question asked at a time.
func (e *Enforcer) addDue(q *question, at time.Time, priority loop.Priority) {
	d := e.inquiries.desks[q.answerer()]
	if d == nil {
		d = newDesk()
		e.inquiries.desks[q.answerer()] = d
	}
	d.due.Add(q, at, priority)
}

// ask has the questions of an asset's checks asked, and it woken when an answer
// changes what it waits for.
func (e *Enforcer) ask(a *asset, now time.Time) {
	for _, c := range a.requirements.checks {
		for _, checkQuestion := range c.Questions(a.requirements.own[c.Configured], a.stopped) {
			if q := e.question(checkQuestion, a.difference.Incarnation, now); q != nil {
				q.waiters[a] = true
				a.questions = append(a.questions, q)
			}
		}
	}
}

// leaveQuestions takes an asset out of those that wait for answers.
func (a *asset) leaveQuestions() {
	for _, q := range a.questions {
		delete(q.waiters, a)
	}
	a.questions = nil
}

// outsideFacts are what the checks that ask outside judge by.
func (e *Enforcer) outsideFacts(a *asset, now time.Time) check.Facts {
	r := a.requirements
	return check.Facts{Now: now, Asset: a.id, Plan: a.difference.Plan, Checks: r.checks, Answers: e.inquiries.answers, Own: r.own, Stopped: a.stopped}
}

// inquire asks what is due, and forgets what nobody waits for.
func (e *Enforcer) inquire(ctx context.Context) {
	now := e.now()
	for _, at := range e.answerers() {
		d := e.inquiries.desks[at]
		for d.asking < mostAsking {
			q, _, due := d.due.Pop(now)
			if !due {
				break
			}
			if e.isIdle(q) {
				delete(e.inquiries.questions, q.Question)
				delete(e.inquiries.answers, q.Question)
				continue
			}
			d.asking++
			checkQuestion := q.Question
			checkQuestion.Incarnation = q.at
			e.Runtime.Go("ask outside", func() {
				e.Runtime.Point("ask outside")
				answer, err := e.Outside(ctx, checkQuestion)
				e.inbox.Put(func() { e.replied(q, answer, err, now) })
			})
		}
		if d.asking == 0 && d.due.Len() == 0 {
			delete(e.inquiries.desks, at)
		}
	}
}

// isIdle reports whether a question is to be forgotten: nobody waits for it, or it was
// answered and others have no room.
func (e *Enforcer) isIdle(q *question) bool {
	switch {
	case len(q.guards) > 0:
		return false
	case len(q.waiters) == 0:
		return true
	case !e.inquiries.crowded:
		return false
	}
	if _, answered := e.inquiries.answers[q.Question]; !answered {
		return false
	}
	e.inquiries.crowded = false
	return true
}

// answerers of whom something is asked, in an order.
func (e *Enforcer) answerers() []answerer {
	return slices.SortedFunc(maps.Keys(e.inquiries.desks), func(a, b answerer) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.place, b.place))
	})
}

// replied takes up an answer. A failure leaves what was answered before, which
// counts until it is too old; unless it may not be asked so any more.
func (e *Enforcer) replied(q *question, answer check.Answer, err error, askedAt time.Time) {
	e.inquiries.desks[q.answerer()].asking--
	now := e.now()
	if err == nil && e.answeredBytes(q.Question)+answer.Bytes > mostAnswered {
		err = fault.New(fault.Unavailable, "the answers to all checks of the partition take more than %d MB; make the queries give less, by aggregation", mostAnswered>>20)
	}
	pause := q.Pause()
	if err != nil {
		q.failures++
		pace := loop.Backoff{First: time.Second, Most: time.Minute}
		pause = pace.After(q.failures)
		previous := e.inquiries.answers[q.Question]
		if previous.Failed = err; q.Misasked(err) {
			previous.At = time.Time{}
		}
		answer = previous
	} else {
		answer = answer.Indexed()
		q.failures, answer.At = 0, askedAt
		if answer.Reply != nil && answer.Reply.Until.After(now) {
			pause = min(pause, answer.Reply.Until.Sub(now))
		}
	}
	if askedAt.After(now) { // The clock was set back meanwhile.
		pause = 0
	}
	e.inquiries.answers[q.Question] = answer
	e.addDue(q, now.Add(loop.Jitter(pause, q.key(), q.failures)), loop.Sweep)
	for g := range q.guards {
		g.takeAnswer(q.Question, answer)
	}
	for a := range q.waiters {
		if e.turned(a, q, now) {
			e.soon(a, loop.Fresh)
		}
	}
}

// turned reports whether an answer changes what an asset waits for, or how well it
// counts after its push.
func (e *Enforcer) turned(a *asset, q *question, now time.Time) bool {
	if a.aftermath.hasQuestion(q) {
		return a.aftermath.turned(e, a, now)
	}
	return a.trouble != nil && !slices.Equal(a.sides, check.Sides(e.outsideFacts(a, now)))
}

// answeredBytes counts the bytes of all answers but the one to a question.
func (e *Enforcer) answeredBytes(but check.Question) (bytes int) {
	for q, answer := range e.inquiries.answers {
		if q != but {
			bytes += answer.Bytes
		}
	}
	return bytes
}

// askAnew asks all questions at once, as after the clock was set.
func (e *Enforcer) askAnew(now time.Time) {
	for _, q := range e.inquiries.questions {
		if d := e.inquiries.desks[q.answerer()]; d.due.Due(q) != (time.Time{}) {
			d.due.Add(q, now, loop.Fresh)
		}
	}
}

// untilDue is the pause until something is; negative: nothing is.
func (e *Enforcer) untilDue() time.Duration {
	now := e.now()
	pause := e.queue.Next(now)
	for _, d := range e.inquiries.desks {
		if d.asking == mostAsking {
			continue
		}
		if next := d.due.Next(now); next >= 0 && (pause < 0 || next < pause) {
			pause = next
		}
	}
	return pause
}
