// Package inquiry asks what validation rules ask outside of Lehr: a URL, a
// database or a command, each within limits of time and size and as far as the
// operator's policy (package external) allows. An answer is kept as long as its rule says. What
// cannot be asked, or does not answer, is an error: never an answer. The
// pipeline calls it through validate.Outside; it decides nothing.
package inquiry

import (
	"context"
	"sync"
	"time"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/prodspec/validate"
)

const (
	// atOnce questions are under way.
	atOnce = 8
	// maxTime that all questions of one candidate may take; those left are asked
	// when it is judged again.
	maxTime = time.Minute
	// giveUp is after how many failures in a row a rule's other questions are
	// not asked any more.
	giveUp = 3
	// maxRows of a database's answer.
	maxRows = 10_000
	// maxTogether is the weight of the answers to all questions that are asked at
	// once, in bytes, and maxKept of those that are kept: a tenant chooses what is
	// asked (S12).
	maxTogether, maxKept = 32 << 20, 16 << 20
)

// Asker asks, and keeps answers. It is safe for concurrent use. Partitions have one
// each, so that what one has answered takes no other's room.
type Asker struct {
	policy string
	now    func() time.Time

	lock    sync.Mutex
	answers map[answerKey]keptAnswer
	// weight of what is kept.
	weight int
}

// answerKey is a question: what one partition may ask is not told to another.
type answerKey struct {
	partition intent.PartitionID
	key       intent.Digest
}

type keptAnswer struct {
	answer rule.Answer
	until  time.Time
	weight int
}

// New returns an asker under the policy in a file, which is read for each
// candidate; no file: the zero policy.
func New(policy string, now func() time.Time) *Asker {
	return &Asker{policy: policy, now: now, answers: map[answerKey]keptAnswer{}}
}

var _ validate.Outside = (&Asker{}).Ask

// Ask answers each question, by what is kept or by asking.
func (a *Asker) Ask(ctx context.Context, questions []validate.Question) []validate.Reply {
	replies := make([]validate.Reply, len(questions))
	policy, err := external.ReadPolicy(a.policy)
	if err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fault.New(fault.Unavailable, "all questions together took more than %s; it is asked when the candidate is judged again", maxTime))
	defer cancel()
	var waiting sync.WaitGroup
	places := make(chan struct{}, atOnce)
	var lock sync.Mutex
	failed, last := map[string]int{}, map[string]error{}
	totalWeight := 0
	give := func(i int, answer rule.Answer) {
		if totalWeight += weigh(answer); totalWeight > maxTogether {
			last[questions[i].Rule] = fault.New(fault.Unavailable, "its answers are more than %d MB together", maxTogether>>20).
				WithHint("have less answered, or let where leave assets out")
			failed[questions[i].Rule] = giveUp
			replies[i].Err = last[questions[i].Rule]
			return
		}
		replies[i].Answer = answer
	}
	for i, q := range questions {
		if answer, ok := a.recall(q); ok {
			lock.Lock()
			give(i, answer)
			lock.Unlock()
			continue
		}
		places <- struct{}{}
		lock.Lock()
		lastErr := last[q.Rule]
		tired := failed[q.Rule] >= giveUp
		lock.Unlock()
		if tired || ctx.Err() != nil {
			<-places
			if replies[i].Err = lastErr; !tired || lastErr == nil {
				replies[i].Err = context.Cause(ctx)
			}
			continue
		}
		waiting.Go(func() {
			defer func() { <-places }()
			answer, err := ask(ctx, policy, q)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				replies[i].Err = err
				failed[q.Rule]++
				last[q.Rule] = err
				return
			}
			failed[q.Rule] = 0
			a.remember(q, answer)
			give(i, answer)
		})
	}
	waiting.Wait()
	return replies
}

func (a *Asker) recall(q validate.Question) (rule.Answer, bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	k, ok := a.answers[answerKey{q.Partition, q.Key}]
	// A clock that was set back does not lengthen what is kept.
	remaining := k.until.Sub(a.now())
	return k.answer, ok && remaining > 0 && remaining <= q.Keep
}

func (a *Asker) remember(q validate.Question, answer rule.Answer) {
	a.lock.Lock()
	defer a.lock.Unlock()
	k := keptAnswer{answer: answer, until: a.now().Add(q.Keep), weight: weigh(answer)}
	at := answerKey{q.Partition, q.Key}
	a.weight += k.weight - a.answers[at].weight
	a.answers[at] = k
	if a.weight > maxKept { // All is asked again, rather than looked for what is old each time.
		clear(a.answers)
		a.weight = 0
	}
}

// weigh is about how many bytes an answer takes.
func weigh(answer rule.Answer) int {
	const entry, row, cell = 256, 300, 64
	weight := entry + len(answer.Text)
	for _, r := range answer.Rows {
		weight += row
		for _, value := range r {
			text, _ := value.(string)
			weight += cell + len(text)
		}
	}
	return weight
}

// ask one question within its time.
func ask(ctx context.Context, policy *external.Policy, q validate.Question) (answer rule.Answer, err error) {
	late := fault.New(fault.Unavailable, "there was no answer within %s", q.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, q.Timeout, late)
	defer cancel()
	switch {
	case q.Check.GetHttp() != "":
		answer, err = get(ctx, policy, q)
	case q.Check.GetSql() != "":
		answer, err = query(ctx, policy, q)
	default:
		answer, err = run(ctx, policy, q)
	}
	if err != nil && ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	return answer, err
}
