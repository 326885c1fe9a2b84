package enforcer

import (
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// guardPush has the protections asked of a push from now on; nil: there are none.
// Until one answers, what it said before the push counts, for as long as it would have.
func (i *inquiries) guardPush(g admission, now time.Time) *protectionRun {
	if len(g.guarded) == 0 {
		return nil
	}
	started := &protectionRun{}
	for _, w := range g.guarded {
		w.question = w.During(w.question, g.Push)
		i.answers[w.question] = w.answer
		q := i.questions[w.question]
		if q == nil {
			// However many there are: pushes under way are bounded.
			q = &question{Question: w.question, waiters: map[*asset]bool{}, guards: map[*protectionRun]bool{}}
			i.questions[w.question] = q
		}
		q.at, q.guards[started] = g.Target, true
		i.addDue(q, now, loop.Fresh)
		started.watched = append(started.watched, w)
	}
	return started
}

// endGuard ends what is asked of a push. What stopped it is asked on, and must pass
// before the next push of that content; of newer content, which the target may be by now,
// it says nothing (L3).
func (i *inquiries) endGuard(a *asset, push *push, target intent.Digest) {
	g := push.protectionRun
	if g == nil {
		return
	}
	for _, w := range g.watched {
		if q := i.questions[w.question]; q != nil {
			delete(q.guards, g)
		}
	}
	if v, refuser := g.refused(); v != nil && !g.fails() && target == push.effective {
		if a.stopped == nil {
			a.stopped = map[string]check.Question{}
		}
		a.stopped[refuser.Name] = refuser.question
	}
}

// protectionsOf are the protections that let a push begin by themselves, and are asked
// while it is under way: not those that a person let pass.
func protectionsOf(facts check.Facts) (list []protection) {
	for _, c := range facts.Checks {
		if facts.Back && !c.Rollbacks {
			continue // It would end by what it is to mend.
		}
		if c.Protection == nil || c.Protection.During == intentpb.Protection_DURING_UNSPECIFIED {
			continue
		}
		q := facts.Own[c.Configured].Before
		if answer := facts.Answers[q]; c.VerdictBy(facts.Now, q, answer).Answer == intent.Pass {
			list = append(list, protection{c.Configured, q, answer})
		}
	}
	return list
}
