package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func admitRate(w *world) {
	ctx, minute := w.t.Context(), time.Minute
	n := 0
	rated := func(asset string, offset time.Duration, uses ...store.RateUse) store.Admission {
		n++
		a := w.admission(fmt.Sprint("p", n), asset, at(1))
		a.At, a.Rates = noon.Add(offset), uses
		return a
	}
	endOffsets := func() (list []time.Duration) {
		pushes, err := w.Ended(ctx, shop, []string{"k", "other"}, 3)
		w.must(err)
		for _, push := range pushes["k"] {
			list = append(list, push.At.Sub(noon))
		}
		return list
	}
	end := func(push intent.PushID, ending string, offset time.Duration) {
		w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: push, Ending: ending, At: noon.Add(offset)}}))
	}
	two := store.RateUse{Key: "k", Limit: 2, Period: time.Hour}
	first, second := rated("a", 0, two), rated("b", minute, two, two)
	w.admitted(first)
	w.admitted(second) // counted once
	open, err := w.OpenPushes(ctx, shop)
	w.must(err)
	if len(endOffsets()) > 0 || len(open) != 2 || !slices.Equal(open[1].Rates, []string{"k"}) {
		w.t.Errorf("ended %v, open %+v", endOffsets(), open)
	}
	// Under way they count for as long as they are.
	waiting := w.waits(rated("c", 10*time.Hour, two), intent.WaitRate)
	if !strings.Contains(waiting.Reason, "rate limit k: 2 of 2") || !waiting.Until.Equal(noon.Add(11*time.Hour)) {
		w.t.Errorf("the refusal says %q until %s", waiting.Reason, waiting.Until)
	}
	end(first.Push, "stopped", 10*time.Hour)
	end(second.Push, store.EndingInDoubt, 10*time.Hour)
	waiting = w.waits(rated("c", 11*time.Hour-1, two), intent.WaitRate)
	if !waiting.Until.Equal(noon.Add(11 * time.Hour)) {
		w.t.Errorf("the refusal says %q until %s", waiting.Reason, waiting.Until)
	}
	w.waits(rated("c", 11*time.Hour, store.RateUse{Key: "k", Limit: 1, Period: time.Hour}), intent.WaitRate) // the one in doubt
	end(second.Push, "settled", 10*time.Hour+minute)
	end(second.Push, "settled", 20*time.Hour) // Its end was told before.
	if got := endOffsets(); !slices.Equal(got, []time.Duration{10 * time.Hour, 10*time.Hour + minute}) {
		w.t.Errorf("ended %v", got)
	}
	w.waits(rated("c", 11*time.Hour, store.RateUse{Key: "k", Limit: 1, Period: time.Hour}), intent.WaitRate)      // a lower limit
	w.waits(rated("c", 11*time.Hour, store.RateUse{Key: "k", Limit: 2, Period: time.Hour + 1}), intent.WaitRate)  // a longer period
	w.waits(rated("c", 11*time.Hour, two, store.RateUse{Key: "k", Limit: 1, Period: time.Hour}), intent.WaitRate) // the stricter
	blocked := rated("c", 11*time.Hour, two)
	blocked.Budgets = []store.BudgetUse{{Key: "none", Limit: 0}}
	w.waits(blocked, intent.WaitBudget)
	third := rated("c", 11*time.Hour, two)
	w.admitted(third) // What was refused did not count.
	end(third.Push, "pushed", 11*time.Hour)
	unlimited := rated("c", 11*time.Hour, store.RateUse{Key: "k", Period: time.Hour})
	w.admitted(unlimited) // let past
	end(unlimited.Push, "pushed", 11*time.Hour)
	if got := endOffsets(); !slices.Equal(got, []time.Duration{10*time.Hour + minute, 11 * time.Hour, 11 * time.Hour}) {
		w.t.Errorf("ended %v", got)
	}
	// A clock that was ahead: what it counted was now at the latest.
	w.waits(rated("a", -1000*time.Hour, two), intent.WaitRate)
	w.waits(rated("a", -999*time.Hour-1, two), intent.WaitRate)
	last := rated("a", -999*time.Hour, two)
	w.admitted(last)
	end(last.Push, "pushed", -999*time.Hour)
	// The collector takes what no limit can count any more.
	keep := store.Retention{Incarnations: 100, Period: 1e6 * time.Hour, History: 1e6 * time.Hour}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{-1000 * time.Hour, 3}, {-999 * time.Hour, 1}, {-998 * time.Hour, 0}} {
		_, err := w.Collect(ctx, w.lease, keep, noon.Add(step.after+store.LongestRate))
		w.must(err)
		if got := len(endOffsets()); got != step.left {
			w.t.Errorf("%d are counted after %s, want %d", got, step.after, step.left)
		}
	}
}

// rateModel counts one by one.
type rateModel struct {
	w       *world
	run, n  int
	now     time.Time
	counted map[string][]time.Time
	open    []store.Admission
}

// testRateModel compares limits with a naive count, over restarts, several
// admissions at once, pushes that end anyhow, and a clock that is set.
func testRateModel(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	w.publish(entry("a", "x"))
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		m := &rateModel{w: w, run: run, now: noon, counted: map[string][]time.Time{}}
		r.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "end": m.end, "": func(*rapid.T) {},
			"later": func(r *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
			},
			"set back": func(r *rapid.T) {
				m.now = m.now.Add(-time.Duration(rapid.IntRange(1, 300).Draw(r, "seconds")) * time.Second)
			},
			"restart": func(r *rapid.T) {
				lease, err := w.Acquire(t.Context(), shop, "next")
				if err != nil {
					r.Fatal(err)
				}
				w.lease = lease
			},
		})
		for _, push := range m.open {
			w.closePush(string(push.Push), "pushed")
		}
	})
}

func (m *rateModel) admit(r *rapid.T) {
	var admissions, accepted []store.Admission
	var want []bool
	for range rapid.IntRange(1, 3).Draw(r, "at once") {
		m.n++
		a := store.Admission{
			Push: intent.PushID(fmt.Sprintf("%d-%d", m.run, m.n)), Asset: intent.AssetID(fmt.Sprintf("%d-%d", m.run, m.n)), Target: at(1), Revision: m.w.revision(), At: m.now,
		}
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y"}), rapid.ID[string]).Draw(r, "keys") {
			a.Rates = append(a.Rates, store.RateUse{
				Key: fmt.Sprint(m.run, key), Limit: rapid.IntRange(0, 4).Draw(r, "limit"), Period: time.Duration(rapid.IntRange(1, 200).Draw(r, "period")) * time.Second,
			})
		}
		free := m.take(a, accepted)
		if admissions, want = append(admissions, a), append(want, free); free {
			accepted = append(accepted, a)
		}
	}
	refusals, err := m.w.Admit(m.w.t.Context(), m.w.lease, admissions)
	if err != nil {
		r.Fatal(err)
	}
	for i, refusal := range refusals {
		if (refusal == nil) != want[i] {
			r.Fatalf("%+v: refused %+v, want admitted %t; counted %v", admissions[i], refusal, want[i], m.counted)
		}
		if refusal == nil {
			m.open = append(m.open, admissions[i])
		}
	}
}

// end ends a push, or two at once.
func (m *rateModel) end(r *rapid.T) {
	var closings []store.Closing
	for range rapid.IntRange(1, 2).Draw(r, "at once") {
		if len(m.open) == 0 {
			break
		}
		at := rapid.IntRange(0, len(m.open)-1).Draw(r, "which")
		a := m.open[at]
		m.open = slices.Delete(m.open, at, at+1)
		closings = append(closings, store.Closing{Push: a.Push, Ending: "pushed", At: m.now})
		for _, use := range a.Rates {
			m.counted[use.Key] = append(m.counted[use.Key], m.now)
		}
	}
	if err := m.w.ClosePushes(m.w.t.Context(), m.w.lease, closings); err != nil {
		r.Fatal(err)
	}
}

// take says whether it may be admitted among those that are under way, others of
// the same call among them.
func (m *rateModel) take(a store.Admission, accepted []store.Admission) bool {
	for _, use := range a.Rates {
		count := 0
		for i, at := range m.counted[use.Key] {
			if at.After(a.At) {
				m.counted[use.Key][i] = a.At
				at = a.At
			}
			if a.At.Sub(at) < use.Period {
				count++
			}
		}
		for _, admission := range slices.Concat(m.open, accepted) {
			if slices.ContainsFunc(admission.Rates, func(rate store.RateUse) bool { return rate.Key == use.Key }) {
				count++
			}
		}
		if use.Limit > 0 && count >= use.Limit {
			return false
		}
	}
	return true
}

// testRateContention: many ask at once, answers are lost and the lease moves,
// and no more are admitted than the limit says (S8).
func testRateContention(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	w.publish(entry("a", "x"))
	const callers, rounds, limit = 6, 20, 17
	revision := w.revision()
	var lease atomic.Value
	lease.Store(w.lease)
	var admitted, unanswered atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for round := range rounds {
				id := fmt.Sprintf("%d-%d", caller, round)
				ctx, cancel := context.WithCancel(t.Context())
				if round%4 == 3 {
					cancel() // Its answer is lost, whatever it is.
				}
				refusals, err := w.Admit(ctx, lease.Load().(store.Lease), []store.Admission{{
					Push: intent.PushID(id), Asset: intent.AssetID(id), Target: at(1), Revision: revision, At: noon.Add(time.Duration(round) * time.Second),
					Rates: []store.RateUse{{Key: "k", Limit: limit, Period: time.Hour}},
				}})
				cancel()
				switch {
				case err != nil:
					unanswered.Add(1)
				case refusals[0] == nil:
					admitted.Add(1)
				}
				if caller == 0 && round%5 == 4 {
					if next, err := w.Acquire(t.Context(), shop, "next"); err == nil {
						lease.Store(next)
					}
				}
			}
		})
	}
	group.Wait()
	pushes, err := w.Pushes(t.Context(), shop, "", 1000)
	w.must(err)
	if len(pushes) > limit || admitted.Load() > int64(len(pushes)) {
		t.Errorf("%d pushes are in the journal under a limit of %d; %d were told of (S8)", len(pushes), limit, admitted.Load())
	}
	if len(pushes) < limit && unanswered.Load() == 0 {
		t.Errorf("%d pushes were admitted under a limit of %d", len(pushes), limit)
	}
}
