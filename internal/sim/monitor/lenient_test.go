package monitor

import (
	"context"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// A plugin that outlives its process, too, is over before its push is settled,
// also where the target compares nothing.
func TestAPluginThatOutlivesItsProcessIsOverBeforeItsPushIsSettled(t *testing.T) {
	r := newRun(t)
	older, newer := r.two()
	r.effect(newer)
	r.effect(older, func(e *world.Effect) { e.Token = 1 })
	r.found("S3", "had begun")
	r.found("S1", `closed as "settled"`)
}

// With clocks that jump nobody can tell what was removed within a period; one
// incarnation alone is still asked.
func TestWrongClocksLeaveTheGuardOfOneIncarnation(t *testing.T) {
	r := newRun(t)
	r.options.Lenient.ClockFaults = true
	r.publish(gone("a"))
	r.publish(gone("b"))
	r.publish(gone("c"))
	r.fine()
	r = newRun(t)
	r.options.Lenient.ClockFaults = true
	r.publish(gone("a"), gone("b"), gone("c"))
	r.found("S23", "3 of 5 assets are gone")
}

// By a clock that jumps, a pin that has ended holds again, and its content is
// not superseded.
func TestWrongClocksHoldPinsThatHaveEnded(t *testing.T) {
	for _, faults := range []bool{false, true} {
		r := newRun(t)
		r.options.Lenient.ClockFaults = faults
		_, err := r.SetPin(t.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann, Until: r.now.Add(time.Second)})
		r.must(err)
		a := r.admit("a")
		r.publish(job("a", "2"))
		r.pass(time.Second)
		r.publish(job("b", "2"))
		r.pass(tooLate)
		r.effect(a)
		if faults {
			r.fine()
		} else {
			r.found("S2", "after the asset followed other content")
		}
	}
}

// answering is a plugin that only answers diffs.
type answering struct {
	plugin.Plugin
	answers []intent.Difference
}

func (a answering) Diff(context.Context, plugin.DiffRequest) ([]intent.Difference, error) {
	return a.answers, nil
}

func TestAnswersOfAWatchedPluginAreHeard(t *testing.T) {
	plan := intent.Plan{Action: intent.ActionUpdate}
	asks := func(d intent.Difference) *run {
		r := newRun(t)
		watched := r.Watch(answering{answers: []intent.Difference{d}})
		_, err := watched.Diff(t.Context(), plugin.DiffRequest{Incarnation: r.at(1), Assets: []intent.AssetID{"a"}})
		r.must(err)
		r.admit("a", func(a *store.Admission) { a.Plan = plan.Digest() })
		return r
	}
	asks(intent.Difference{Asset: "a", Outcome: intent.Differs, Plan: plan}).fine()
	asks(intent.Difference{Asset: "a"}).found("S11", "is outcome 0")
	asks(intent.Difference{Asset: "b", Outcome: intent.Differs, Plan: plan}).found("S11", "is outcome 0")
}

// By a clock that was set back, a pin that has ended has not.
func TestWrongClocksLeaveAPinThatHasEnded(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		r := newRun(t)
		r.options.Lenient.ClockFaults = wrong
		r.publish(job("a", "2"))
		_, err := r.SetPin(r.Context(), intent.Pin{Asset: "a", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann, Until: r.now.Add(time.Second)})
		r.must(err)
		pushed := r.admit("a", func(a *store.Admission) {
			a.Target, a.Effective = r.at(1), r.entry(job("a", "1")).Member.Effective
		})
		r.pass(time.Second)
		r.publish(job("b", "2"))
		r.pass(tooLate)
		if r.effect(pushed); wrong {
			r.fine()
		} else {
			r.found("S2", "after the asset followed other content")
		}
	}
}
