package enforcer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lehr.dev/annealing/check"
	"lehr.dev/fault"
	"lehr.dev/loop"
)

const (
	// mostQuestions that checks ask outside are known at once; those beyond wait
	// until one is forgotten.
	mostQuestions = 1000
	// mostAsking are under way at once.
	mostAsking = 4
	// mostAnswered is what all answers that are kept may take, in bytes.
	mostAnswered = 16 << 20
)

// outside are the questions that checks ask, and what was answered. Each is
// asked once for all assets, and again while one that differs asks it.
type outside struct {
	questions map[check.Question]*question
	answers   map[check.Question]check.Answer
	// due are those to be asked, asking counts those under way.
	due    loop.Queue[*question]
	asking int
}

// question and the assets that wait for a change of its answer.
type question struct {
	check.Question
	failures int
	waiters  map[*asset]bool
}

func newOutside() outside {
	return outside{
		questions: map[check.Question]*question{}, answers: map[check.Question]check.Answer{},
		due: loop.Queue[*question]{Compare: func(a, b *question) int {
			return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Keep, b.Keep), cmp.Compare(a.key(), b.key()))
		}},
	}
}

func (q *question) key() string { return fmt.Sprint(q.Question) }

// nobody answers where an enforcer was given nobody to ask.
func nobody(context.Context, check.Question) (check.Answer, error) {
	return check.Answer{}, fault.New(fault.Unavailable, "nothing outside is asked here")
}

// ask has the questions of an asset's checks asked, and it woken when an answer
// changes what it waits for.
func (e *Enforcer) ask(a *asset, now time.Time) {
	for _, c := range a.requirements.checks {
		own := a.requirements.own[c.Configured]
		if c.Question == nil || c.Sized != nil && own.Unsized == nil && !own.Serves.Falls() {
			continue
		}
		q := e.outside.questions[*c.Question]
		if q == nil && len(e.outside.questions) < mostQuestions {
			q = &question{Question: *c.Question, waiters: map[*asset]bool{}}
			e.outside.questions[*c.Question] = q
			e.outside.due.Add(q, now, loop.Fresh)
		}
		if q != nil {
			q.waiters[a] = true
			a.asks = append(a.asks, q)
		}
	}
}

// leaveQuestions takes an asset out of those that wait for answers.
func (a *asset) leaveQuestions() {
	for _, q := range a.asks {
		delete(q.waiters, a)
	}
	a.asks = nil
}

// outsideFacts are what the checks that ask outside judge by.
func (e *Enforcer) outsideFacts(a *asset, now time.Time) check.Facts {
	r := a.requirements
	return check.Facts{Now: now, Asset: a.id, Plan: a.difference.Plan, Checks: r.checks, Answers: e.outside.answers, Own: r.own}
}

// inquire asks what is due, and forgets what nobody waits for.
func (e *Enforcer) inquire(ctx context.Context) {
	now := e.now()
	for e.outside.asking < mostAsking {
		q, _, due := e.outside.due.Pop(now)
		if !due {
			return
		}
		if len(q.waiters) == 0 {
			delete(e.outside.questions, q.Question)
			delete(e.outside.answers, q.Question)
			continue
		}
		e.outside.asking++
		e.Runtime.Go("ask outside", func() {
			e.Runtime.Point("ask outside")
			answer, err := e.Outside(ctx, q.Question)
			e.inbox.Put(func() { e.replied(q, answer, err, now) })
		})
	}
}

// replied takes up an answer. A failure leaves what was answered before, which
// counts until it is too old.
func (e *Enforcer) replied(q *question, answer check.Answer, err error, asked time.Time) {
	e.outside.asking--
	now := e.now()
	if err == nil && e.answeredBytes(q.Question)+answer.Bytes > mostAnswered {
		err = fault.New(fault.Unavailable, "the answers to all checks of the partition take more than %d MB; make the queries give less, by aggregation", mostAnswered>>20)
	}
	pause := q.Keep / 2
	if err != nil {
		q.failures++
		pace := loop.Backoff{First: time.Second, Most: time.Minute}
		pause = pace.After(q.failures)
		kept := e.outside.answers[q.Question]
		kept.Failed = err
		answer = kept
	} else {
		answer = answer.Indexed()
		q.failures, answer.At = 0, asked
	}
	if asked.After(now) { // The clock was set back meanwhile.
		pause = 0
	}
	e.outside.answers[q.Question] = answer
	e.outside.due.Add(q, now.Add(loop.Jitter(pause, q.key(), q.failures)), loop.Sweep)
	for a := range q.waiters {
		if !slices.Equal(a.sides, check.Sides(e.outsideFacts(a, now))) {
			e.soon(a, loop.Fresh)
		}
	}
}

// answeredBytes counts the bytes of all answers but the one to a question.
func (e *Enforcer) answeredBytes(but check.Question) (bytes int) {
	for q, answer := range e.outside.answers {
		if q != but {
			bytes += answer.Bytes
		}
	}
	return bytes
}

// askAnew asks all questions at once, as after the clock was set.
func (e *Enforcer) askAnew(now time.Time) {
	for q := range maps.Values(e.outside.questions) {
		if e.outside.due.Due(q) != (time.Time{}) {
			e.outside.due.Add(q, now, loop.Fresh)
		}
	}
}

// untilDue is the pause until something is; negative: nothing is.
func (e *Enforcer) untilDue() time.Duration {
	now := e.now()
	pause := e.queue.Next(now)
	if e.outside.asking == mostAsking {
		return pause
	}
	if next := e.outside.due.Next(now); next >= 0 && (pause < 0 || next < pause) {
		return next
	}
	return pause
}
