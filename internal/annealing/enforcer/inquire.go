package enforcer

import (
	"context"
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

// nobody answers where an enforcer was given nobody to ask.
func nobody(context.Context, check.Question) (check.Answer, error) {
	return check.Answer{}, fault.New(fault.Unavailable, "nothing outside is asked here")
}

// inquire asks the questions that are due.
func (e *Enforcer) inquire(ctx context.Context) {
	now := e.now()
	for _, q := range e.inquiries.takeDue(now) {
		checkQuestion := q.Question
		checkQuestion.Incarnation = q.at
		e.Runtime.Go("ask outside", func() {
			e.Runtime.Point("ask outside")
			answer, err := e.Outside(ctx, checkQuestion)
			e.inbox.Put(func() { e.replied(q, answer, err, now) })
		})
	}
}

// replied records an answer, and looks at those for whom it changes something.
func (e *Enforcer) replied(q *question, answer check.Answer, err error, askedAt time.Time) {
	now := e.now()
	e.inquiries.record(q, answer, err, askedAt, now)
	for a := range q.waiters {
		if e.isChangedBy(a, q, now) {
			e.soon(a, loop.Fresh)
		}
	}
}

// isChangedBy reports whether an answer changes what an asset waits for, or how well it
// counts after its push.
func (e *Enforcer) isChangedBy(a *asset, q *question, now time.Time) bool {
	if a.aftermath.hasQuestion(q) {
		return e.afterPushes.isChanged(a, now)
	}
	return a.trouble != nil && !slices.Equal(a.sides, check.Sides(e.inquiries.facts(a, now)))
}
