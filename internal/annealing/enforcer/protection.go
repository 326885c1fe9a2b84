package enforcer

import (
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
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
