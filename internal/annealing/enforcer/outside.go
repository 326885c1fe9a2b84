package enforcer

import (
	"cmp"
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
// asked once for all assets, and again while one that differs asks it. It only holds
// state: the enforcer asks what takeDue returns, and records the answers.
type inquiries struct {
	questions map[check.Question]*question
	answers   map[check.Question]check.Answer
	desks     map[answerer]*desk
	// crowded: more are to be asked than are known at once.
	crowded bool
}

// desk is what is asked of one answerer: what is due, and how many are under way.
type desk struct {
	due    loop.Queue[*question]
	asking int
}

func newInquiries() inquiries {
	return inquiries{questions: map[check.Question]*question{}, answers: map[check.Question]check.Answer{}, desks: map[answerer]*desk{}}
}

func newDesk() *desk {
	return &desk{due: loop.Queue[*question]{Compare: func(a, b *question) int {
		return cmp.Or(cmp.Compare(a.Text, b.Text), cmp.Compare(a.Keep, b.Keep), cmp.Compare(a.key(), b.key()))
	}}}
}

// get returns a question that is asked from a time on, of an asset at an incarnation;
// nil: there are too many.
func (i *inquiries) get(checkQuestion check.Question, at intent.IncarnationID, startsAt time.Time) *question {
	q := i.questions[checkQuestion]
	if q == nil && len(i.questions) >= mostQuestions {
		i.crowded = true
		return nil
	}
	if q == nil {
		q = &question{Question: checkQuestion, waiters: map[*asset]bool{}, guards: map[*protectionRun]bool{}}
		i.questions[checkQuestion] = q
		i.addDue(q, startsAt, loop.Fresh)
	}
	q.at = at
	return q
}

// addDue has a question asked at a time.
func (i *inquiries) addDue(q *question, at time.Time, priority loop.Priority) {
	d := i.desks[q.answerer()]
	if d == nil {
		d = newDesk()
		i.desks[q.answerer()] = d
	}
	d.due.Add(q, at, priority)
}

// ask adds the questions of an asset's checks, and the asset to those that wait for an
// answer to change.
func (i *inquiries) ask(a *asset, now time.Time) {
	for _, c := range a.requirements.checks {
		for _, checkQuestion := range c.Questions(a.requirements.own[c.Configured], a.stopped) {
			if q := i.get(checkQuestion, a.difference.Incarnation, now); q != nil {
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

// facts are what the checks that ask outside judge by.
func (i *inquiries) facts(a *asset, now time.Time) check.Facts {
	r := a.requirements
	return check.Facts{Now: now, Asset: a.id, Plan: a.difference.Plan, Checks: r.checks, Answers: i.answers, Own: r.own, Stopped: a.stopped}
}

// takeDue returns the questions that are to be asked now, and counts them as under way. It
// forgets those that nobody waits for.
func (i *inquiries) takeDue(now time.Time) (taken []*question) {
	for _, at := range i.answerers() {
		d := i.desks[at]
		for d.asking < mostAsking {
			q, _, due := d.due.Pop(now)
			if !due {
				break
			}
			if i.isIdle(q) {
				delete(i.questions, q.Question)
				delete(i.answers, q.Question)
				continue
			}
			d.asking++
			taken = append(taken, q)
		}
		if d.asking == 0 && d.due.Len() == 0 {
			delete(i.desks, at)
		}
	}
	return taken
}

// isIdle reports whether a question is to be forgotten: nobody waits for it, or it was
// answered and others have no room.
func (i *inquiries) isIdle(q *question) bool {
	switch {
	case len(q.guards) > 0:
		return false
	case len(q.waiters) == 0:
		return true
	case !i.crowded:
		return false
	}
	if _, answered := i.answers[q.Question]; !answered {
		return false
	}
	i.crowded = false
	return true
}

// answerers of whom something is asked, in an order.
func (i *inquiries) answerers() []answerer {
	return slices.SortedFunc(maps.Keys(i.desks), func(a, b answerer) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.place, b.place))
	})
}

// record takes over an answer. A failure leaves what was answered before, which
// counts until it is too old; unless it may not be asked so any more.
func (i *inquiries) record(q *question, answer check.Answer, err error, askedAt, now time.Time) {
	i.desks[q.answerer()].asking--
	if err == nil && i.answeredBytes(q.Question)+answer.Bytes > mostAnswered {
		err = fault.New(fault.Unavailable, "the answers to all checks of the partition take more than %d MB; make the queries give less, by aggregation", mostAnswered>>20)
	}
	pause := q.Pause()
	if err != nil {
		q.failures++
		pace := loop.Backoff{First: time.Second, Most: time.Minute}
		pause = pace.After(q.failures)
		previous := i.answers[q.Question]
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
	i.answers[q.Question] = answer
	i.addDue(q, now.Add(loop.Jitter(pause, q.key(), q.failures)), loop.Sweep)
	for g := range q.guards {
		g.takeAnswer(q.Question, answer)
	}
}

// answeredBytes counts the bytes of all answers but the one to a question.
func (i *inquiries) answeredBytes(but check.Question) (bytes int) {
	for q, answer := range i.answers {
		if q != but {
			bytes += answer.Bytes
		}
	}
	return bytes
}

// askAnew asks all questions at once, as after the clock was set.
func (i *inquiries) askAnew(now time.Time) {
	for _, q := range i.questions {
		if d := i.desks[q.answerer()]; d.due.Due(q) != (time.Time{}) {
			d.due.Add(q, now, loop.Fresh)
		}
	}
}

// next is the pause until a question is to be asked; negative: none is.
func (i *inquiries) next(now time.Time) time.Duration {
	pause := time.Duration(-1)
	for _, d := range i.desks {
		if d.asking == mostAsking {
			continue
		}
		if next := d.due.Next(now); next >= 0 && (pause < 0 || next < pause) {
			pause = next
		}
	}
	return pause
}
