package strategist

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
	"lehr.dev/strategist/conduct"
)

// asked names a question: of one run, for one change of one stage.
type asked struct {
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
func remembered(run intent.Rollout) map[asked]*verdict {
	verdicts := map[asked]*verdict{}
	for _, v := range run.Progress.Verdicts {
		if v.Result == "good" || v.Result == "bad" || v.Result == "inconclusive" {
			verdicts[asked{run.Run, v.Validation, v.Stage, v.Changed.UnixNano()}] = &verdict{ValidationVerdict: v}
		}
	}
	return verdicts
}

// verdictsOf are those of a run, of the newest change of each stage; and what was
// found bad, whatever has changed since that was asked.
func (st *state) verdictsOf(run intent.Rollout) (list []intent.ValidationVerdict) {
	found := map[[2]string]asked{}
	for key, v := range st.verdicts {
		if key.run != run.Run {
			continue
		}
		of := [2]string{key.validation, key.stage}
		best, known := found[of]
		bad, worse := v.Result == "bad", known && st.verdicts[best].Result == "bad"
		if !known || bad && !worse || bad == worse && key.changed > best.changed {
			found[of] = key
		}
	}
	for _, key := range found {
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
	wanted := map[asked]bool{}
	for _, q := range questions {
		key := asked{run.Run, q.Validation, q.Stage, q.Changed.UnixNano()}
		wanted[key] = true
		known := st.verdicts[key]
		if known == nil {
			known = &verdict{next: now}
			st.verdicts[key] = known
		}
		if known.asking || known.next.IsZero() || known.next.After(now) {
			continue
		}
		said := validationOf(v.policy, q.Validation)
		known.asking = true
		of := Assessing{Partition: s.Partition, Run: run, Validation: said, Question: q, Now: now}
		s.Runtime.Go("validation", func() {
			s.Runtime.Point("validation")
			found := s.assess(ctx, of)
			s.inbox.Put(func() {
				known.ValidationVerdict, known.next, known.asking = found.ValidationVerdict, found.Next, false
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
func (s *Strategist) assess(ctx context.Context, of Assessing) Assessed {
	found, err := s.assessed(ctx, of)
	if err != nil {
		found = Assessed{Next: of.Now.Add(askAgain)}
		found.Result, found.Reason, found.At = "broken", err.Error(), of.Now
	}
	found.Validation, found.Stage, found.Changed = of.Question.Validation, of.Stage, of.Changed
	return found
}

func (s *Strategist) assessed(ctx context.Context, of Assessing) (found Assessed, err error) {
	switch {
	case of.Validation == nil:
		return found, fault.New(fault.Invalid, "the policy has no validation of that name")
	case s.Assess == nil:
		return found, fault.New(fault.Unavailable, "nobody answers here")
	}
	found, err = s.Options.Assess(ctx, of)
	if err != nil || found.Record == nil {
		return found, err
	}
	found.ValidationVerdict.Record = store.JudgementName(of.Now, fmt.Sprintf("%s@%d/%s/%s", of.Run.Name, of.Run.Run, of.Stage, of.Question.Validation))
	return found, s.Store.PutBlobs(ctx, s.lease, store.JudgementBlobs, map[string][]byte{found.ValidationVerdict.Record: found.Record})
}
