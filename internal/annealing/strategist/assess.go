package strategist

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// verdictKey names a question: of one run, for one change of one stage.
type verdictKey struct {
	run               uint64
	validation, stage string
	changed           int64
}

// verdict is the answer to one, as far as it is known.
type verdict struct {
	intent.ValidationVerdict
	// next is when it is asked again; zero: never. asking: it is now.
	next   time.Time
	asking bool
	// errors are how many answers in a row were broken. Another process counts anew.
	errors uint32
}

// remembered are the last words that a run keeps: who asked anew would ask of what is
// long ago, and beside assets that have changed since. What began anew goes on from then.
func remembered(run intent.Rollout) map[verdictKey]*verdict {
	verdicts := map[verdictKey]*verdict{}
	for _, v := range run.Progress.Verdicts {
		if v.Result == "good" || v.Result == "bad" || v.Result == "inconclusive" {
			verdicts[verdictKey{run.Run, v.Validation, v.Stage, v.Changed.UnixNano()}] = &verdict{ValidationVerdict: v}
		} else if !v.Restarted.IsZero() {
			verdicts[verdictKey{run.Run, v.Validation, v.Stage, v.Changed.UnixNano()}] = &verdict{ValidationVerdict: v, next: v.Restarted}
		}
	}
	return verdicts
}

// verdictsOf are those of a run, of the newest change of each stage; and what was
// found bad, whatever has changed since that was asked.
func (st *state) verdictsOf(run intent.Rollout) (list []intent.ValidationVerdict) {
	newest := map[[2]string]verdictKey{}
	for key, v := range st.verdicts {
		if key.run != run.Run {
			continue
		}
		slot := [2]string{key.validation, key.stage}
		best, ok := newest[slot]
		bad, worse := v.Result == "bad", ok && st.verdicts[best].Result == "bad"
		if !ok || bad && !worse || bad == worse && key.changed > best.changed {
			newest[slot] = key
		}
	}
	for _, key := range newest {
		if v := st.verdicts[key]; v.Result != "" {
			list = append(list, v.ValidationVerdict)
		}
	}
	slices.SortFunc(list, func(a, b intent.ValidationVerdict) int {
		if c := compareText(a.Stage, b.Stage); c != 0 {
			return c
		}
		return compareText(a.Validation, b.Validation)
	})
	return list
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ask for the verdicts that are due, each away from the owner.
func (s *Strategist) ask(ctx context.Context, v *view, name string, st *state, run intent.Rollout, questions []conduct.Question) {
	now := s.Runtime.Now()
	wanted := map[verdictKey]bool{}
	for _, q := range questions {
		key := verdictKey{run.Run, q.Validation, q.Stage, q.Changed.UnixNano()}
		wanted[key] = true
		entry := st.verdicts[key]
		if entry == nil {
			entry = &verdict{next: now}
			st.verdicts[key] = entry
		}
		if entry.asking || entry.next.IsZero() || entry.next.After(now) {
			continue
		}
		config := validationOf(v.policy, q.Validation)
		entry.asking = true
		request := Assessing{Partition: s.Partition, Run: run, Validation: config, Question: q, Restarted: entry.Restarted, Now: now}
		s.Runtime.Go("validation", func() {
			s.Runtime.Point("validation")
			result := s.assess(ctx, request)
			s.inbox.Put(func() { st.answer(entry, request, result) })
		})
	}
	for key, v := range st.verdicts {
		if !wanted[key] && !v.asking {
			delete(st.verdicts, key)
		}
	}
}

// answer takes up what a validation found. What is bad begins anew, while the run has retries left of it.
func (st *state) answer(entry *verdict, request Assessing, result Assessed) {
	restarted, found, record := entry.Restarted, entry.Found, entry.Record
	entry.ValidationVerdict, entry.next, entry.asking = result.ValidationVerdict, result.Next, false
	entry.Restarted, entry.Found = restarted, found
	key := retryKey{request.Run.Run, request.Question.Validation}
	used, most := st.retries[key], int(request.Validation.GetRetries())
	entry.countErrors(request, result)
	switch {
	case entry.Result == "bad" && used < most:
		st.retries[key] = used + 1
		cause := entry.Reason
		entry.Result, entry.Restarted, entry.Found, entry.next, entry.errors = "waiting", request.Now, cause, request.Now, 0
		entry.Reason = fmt.Sprintf("it begins anew, %d of %d times in this run, after it found: %s", used+1, most, cause)
	case !restarted.IsZero() && entry.Result != "bad":
		entry.Record = cmp.Or(entry.Record, record) // That of what it found.
		entry.Reason = fmt.Sprintf("%s; it began anew, %d of %d times in this run, at %s, after it had found: %s",
			result.Reason, used, most, restarted.UTC().Format(time.RFC3339), found)
	}
}

// countErrors makes what was broken too often in a row bad, where policy says how often that is. What this process could
// not ask or keep does not count.
func (v *verdict) countErrors(request Assessing, result Assessed) {
	if result.Result != "broken" || result.Unkept {
		v.errors = 0
		return
	}
	if result.Unasked {
		return
	}
	v.errors++
	if limit := request.Validation; limit != nil && limit.Errors != nil && v.errors > *limit.Errors {
		v.Result, v.next = "bad", time.Time{}
		v.Reason = fmt.Sprintf("it could not be answered %d times in a row, and errors: %d allows no more: %s", v.errors, *limit.Errors, result.Reason)
	}
}

// retryKey names a validation of a run.
type retryKey struct {
	run        uint64
	validation string
}

func rememberedRetries(run intent.Rollout) map[retryKey]int {
	retries := map[retryKey]int{}
	for name, count := range run.Progress.Retries {
		retries[retryKey{run.Run, name}] = count
	}
	return retries
}

// retriesOf are those of a run, by validation. Those of other runs are forgotten.
func (st *state) retriesOf(run uint64) map[string]int {
	var retries map[string]int
	for key, count := range st.retries {
		if key.run != run {
			delete(st.retries, key)
			continue
		}
		if retries == nil {
			retries = map[string]int{}
		}
		retries[key.validation] = count
	}
	return retries
}

func validationOf(policy *intentpb.Policy, name string) *intentpb.Validation {
	for _, v := range policy.GetValidations() {
		if v.GetName() == name {
			return v
		}
	}
	return nil
}

// askAgain is when one that failed is asked again.
const askAgain = 10 * time.Second

// assess asks for one verdict, and keeps the record of it. What cannot be asked, or
// kept, is broken, and neither good nor bad (S11).
func (s *Strategist) assess(ctx context.Context, request Assessing) Assessed {
	result, err := s.assessed(ctx, request)
	if err != nil {
		result = Assessed{Next: request.Now.Add(askAgain), Unasked: result.Result == "", Unkept: result.Result != ""}
		result.Result, result.Reason, result.At = "broken", err.Error(), request.Now
	}
	result.Validation, result.Stage, result.Changed = request.Question.Validation, request.Stage, request.Changed
	return result
}

func (s *Strategist) assessed(ctx context.Context, request Assessing) (result Assessed, err error) {
	switch {
	case request.Validation == nil:
		return result, fault.New(fault.Invalid, "the policy has no validation of that name")
	case s.Assess == nil:
		return result, fault.New(fault.Unavailable, "nobody answers here")
	}
	result, err = s.Options.Assess(ctx, request)
	if err != nil {
		return Assessed{}, err
	}
	if result.Record == nil {
		return result, nil
	}
	result.ValidationVerdict.Record = store.JudgementName(request.Now, fmt.Sprintf("%s@%d/%s/%s", request.Run.Name, request.Run.Run, request.Stage, request.Question.Validation))
	return result, s.Store.PutBlobs(ctx, s.lease, store.JudgementBlobs, map[string][]byte{result.ValidationVerdict.Record: result.Record})
}
