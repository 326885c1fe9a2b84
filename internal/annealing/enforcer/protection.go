package enforcer

import (
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// protection is a protection that is asked while a push is under way, by which question,
// and what was answered.
type protection struct {
	*check.Configured
	question check.Question
	answer   check.Answer
}

// protectionRun is what protections say of one push under way. The push's goroutines ask it
// for each permit; the owner tells it what was answered.
type protectionRun struct {
	mu      sync.Mutex
	watched []protection
	// refusal of a permit, by one of them: that push is given no other.
	refusal *intent.Verdict
	refuser protection
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

// takeAnswer takes up an answer.
func (g *protectionRun) takeAnswer(q check.Question, answer check.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.watched {
		if g.watched[i].question == q {
			g.watched[i].answer = answer
		}
	}
}

// permit is nil while every protection passes.
func (g *protectionRun) permit(now time.Time) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.watched {
		if v := w.VerdictBy(now, w.question, w.answer); g.refusal == nil && v.Answer != intent.Pass {
			g.refusal, g.refuser = &v, w
		}
	}
	if g.refusal == nil {
		return nil
	}
	return fault.New(fault.Conflict, "%s", g.refusal.Waiting.Reason)
}

// refused says why the push had no further permit; nil: no protection is why.
func (g *protectionRun) refused() (_ *intent.Verdict, refuser protection) {
	if g == nil {
		return nil, refuser
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal, g.refuser
}

// fails reports whether a protection says no to a push that fails by that. One that
// does not answer only stops it.
func (g *protectionRun) fails() bool {
	v, refuser := g.refused()
	return v != nil && v.Answer == intent.Wait && refuser.Protection.During == intentpb.Protection_DURING_FAIL
}

// adjustResult is how a push ended that protections guard: one that they stopped says so.
func (g *protectionRun) adjustResult(result plugin.PushResult) plugin.PushResult {
	v, _ := g.refused()
	if v == nil || result.Ending != plugin.Stopped {
		return result
	}
	result.Reason = v.Waiting.Reason
	if g.fails() {
		result.Ending, result.Retryable = plugin.Failed, true
	}
	return result
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
