package strategist

import (
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
}

// remembered are the last words that a run keeps: who asked anew would ask of what is
// long ago, and beside assets that have changed since.
func remembered(run intent.Rollout) map[verdictKey]*verdict {
	verdicts := map[verdictKey]*verdict{}
	for _, v := range run.Progress.Verdicts {
		if v.Result == "good" || v.Result == "bad" || v.Result == "inconclusive" {
			verdicts[verdictKey{run.Run, v.Validation, v.Stage, v.Changed.UnixNano()}] = &verdict{ValidationVerdict: v}
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
		request := Assessing{Partition: s.Partition, Run: run, Validation: config, Question: q, Now: now}
		s.Runtime.Go("validation", func() {
			s.Runtime.Point("validation")
			result := s.assess(ctx, request)
			s.inbox.Put(func() {
				entry.ValidationVerdict, entry.next, entry.asking = result.ValidationVerdict, result.Next, false
			})
		})
	}
	for key, v := range st.verdicts {
		if !wanted[key] && !v.asking {
			delete(st.verdicts, key)
		}
	}
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
		result = Assessed{Next: request.Now.Add(askAgain)}
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
	if err != nil || result.Record == nil {
		return result, err
	}
	result.ValidationVerdict.Record = store.JudgementName(request.Now, fmt.Sprintf("%s@%d/%s/%s", request.Run.Name, request.Run.Run, request.Stage, request.Question.Validation))
	return result, s.Store.PutBlobs(ctx, s.lease, store.JudgementBlobs, map[string][]byte{result.ValidationVerdict.Record: result.Record})
}
