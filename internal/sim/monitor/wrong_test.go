package monitor

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// breach is one way to break a property, in the words of the monitor, and its
// twin, which is nearly the same and breaks nothing.
type breach struct {
	property, words string
	wrong           func(*run)
	right           func(*run)
}

func TestEachBreachIsSeen(t *testing.T) {
	for _, breaches := range [][]breach{effects, admissions, owning, brakesAndAudit, contents, collected, waits, tooOften, answered, judged, ill, remembering, lookedAtApart, rotating, unservedStates, ofOthers, outputsTold, ofGenerations, inCommon} {
		for _, b := range breaches {
			t.Run(b.property+" "+b.words, func(t *testing.T) {
				r := newRun(t)
				r.fine()
				b.wrong(r)
				r.found(b.property, b.words)
				if b.right == nil {
					return
				}
				r = newRun(t)
				b.right(r)
				r.fine()
			})
		}
	}
}

// times of late effects: D + E, and the margin of the lock delay, are 5.5 s.
const justInTime, tooLate = 5500 * time.Millisecond, 5501 * time.Millisecond

var effects = []breach{
	{"S21", "without a push",
		func(r *run) { r.effect(store.Admission{Asset: "a"}) },
		func(r *run) { r.effect(store.Admission{Asset: "a"}, func(e *world.Effect) { e.By = world.ByDrift }) }},
	{"S1", "never admitted",
		func(r *run) { r.effect(r.admission("a")) },
		func(r *run) { r.effect(r.admission("a"), func(e *world.Effect) { e.Refused = "no" }) }},
	{"S1", "admitted was",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Plan = intent.Sum("other") }) },
		func(r *run) { r.effect(r.admit("a")) }},
	{"S1", "admitted was",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Effective = intent.Sum("other") }) }, nil},
	{"S1", "admitted was",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Asset = "b" }) }, nil},
	{"S1", `closed as "pushed"`,
		func(r *run) { a := r.admit("a"); r.end(a, "pushed"); r.effect(a) },
		func(r *run) { a := r.admit("a"); r.effect(a); r.end(a, "pushed") }},
	{"S2", "after the asset followed other content",
		func(r *run) { a := r.admit("a"); r.publish(job("a", "2")); r.pass(tooLate); r.effect(a) },
		func(r *run) { a := r.admit("a"); r.publish(job("a", "2")); r.pass(justInTime); r.effect(a) }},
	{"S2", "after the asset followed other content",
		func(r *run) { r.publish(job("a", "2")); a := r.admit("a"); r.pin("a", 1); r.pass(tooLate); r.effect(a) },
		func(r *run) {
			r.publish(job("a", "2"))
			a := r.admit("a")
			r.pin("a", 1)
			r.must(r.Unpin(r.Context(), sim, "a", intent.RankPerson, "a try", ann))
			r.pass(tooLate)
			r.effect(a)
		}},
	{"S2", "which is newer, had brought",
		func(r *run) { older, newer := r.two(); r.effect(newer); r.effect(older) },
		func(r *run) { _, newer := r.two(); r.effect(newer) }},
	{"S3", "had begun",
		func(r *run) { older, newer := r.two(); r.effect(newer); r.effect(older) }, nil},
	{"S3", "had begun", // of one resource
		func(r *run) {
			first := r.admit("a", key("shared"))
			r.end(first, "failed")
			r.publish(gone("a"))
			second := r.admit("b", key("shared"))
			r.effect(second)
			r.effect(first)
		}, nil},
	{"S3", "admitted was a push of",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Key = "key/b" }) },
		func(r *run) { // A plugin took one for the other.
			r.Swapped("a", "key/b")
			r.effect(r.admit("a", key("key/b")), func(e *world.Effect) { e.Key = "key/a" })
		}},
	{"S3", "admitted was a push of", // when it took another asset for the other, or told of another key
		func(r *run) {
			r.Swapped("b", "key/b")
			r.Swapped("a", "key/c")
			r.effect(r.admit("a", key("key/b")), func(e *world.Effect) { e.Key = "key/a" })
		}, nil},
	{"S3", "admitted was a push of", // or only after the admission
		func(r *run) {
			a := r.admit("a", key("key/b"))
			r.Monitor.Commit()
			r.Swapped("a", "key/b")
			r.effect(a, func(e *world.Effect) { e.Key = "key/a" })
		}, nil},
	{"S3", "after its permit had ended",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.PermitLeft = 0 }) },
		func(r *run) {
			r.effect(r.admit("a"), func(e *world.Effect) { e.PermitLeft, e.Class = 0, plugin.CompareAndSet })
		}},
	{"S4", "carries the token",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Token = 9 }) }, nil},
	{"S4", "accepted the token 1 after 2",
		func(r *run) { older, newer := r.two(); r.effect(newer, fenced(2)); r.effect(older, fenced(1)) },
		func(r *run) { _, newer := r.two(); r.effect(newer, fenced(2)); r.effect(newer, fenced(2)) }},
	{"S4", "after the lease of its epoch 1 was lost",
		func(r *run) {
			a := r.admit("a")
			r.acquire("south")
			r.pass(tooLate)
			r.effect(a, func(e *world.Effect) { e.Token = 1 })
		},
		func(r *run) {
			a := r.admit("a")
			r.acquire("south")
			r.pass(justInTime)
			r.effect(a, func(e *world.Effect) { e.Token = 1 })
		}},
	{"S5", "has no Turndown",
		func(r *run) { r.approve("a", time.Time{}); r.effect(r.admit("a", approved), removal) },
		func(r *run) {
			r.publish(job("a", "1", turndown))
			r.approve("a", time.Time{})
			r.effect(r.remove("a"), removal)
		}},
	{"S5", "has no Turndown", // it vanished
		func(r *run) {
			r.approve("a", time.Time{})
			r.effect(r.admit("a", approved), func(e *world.Effect) { e.After = "" })
		},
		func(r *run) {
			r.approve("a", time.Time{})
			r.effect(r.admit("a", approved), func(e *world.Effect) { e.After, e.Action, e.Destructive = "", intent.ActionReplace, true })
		}},
	{"S8", "2 have had effects within 1m0s under the rate limit often", // admitted by another clock
		func(r *run) { r.twiceAMinute(time.Minute - 1) },
		func(r *run) { r.twiceAMinute(time.Minute) }},
	{"S8", "are at work",
		func(r *run) {
			first, second := r.neighbours()
			r.effect(second, partly)
			r.effect(first)
		},
		func(r *run) {
			_, second := r.neighbours()
			r.effect(second, partly)
			r.effect(second)
		}},
	{"S9", "destroyed something without an approval",
		func(r *run) { r.effect(r.admit("a"), func(e *world.Effect) { e.Destructive = true }) },
		func(r *run) {
			r.approve("a", time.Time{})
			r.effect(r.admit("a", approved), func(e *world.Effect) { e.Destructive = true })
		}},
	{"S18", "came 5.501s after the stop of",
		func(r *run) { a := r.admit("a"); r.stop(sim); r.pass(tooLate); r.effect(a) },
		func(r *run) { a := r.admit("a"); r.stop(sim); r.pass(justInTime); r.effect(a) }},
	{"S18", "came 5.501s after the stop of",
		func(r *run) { a := r.admit("a"); r.stop(""); r.pass(tooLate); r.effect(a) },
		func(r *run) {
			a := r.admit("a")
			r.stop("")
			r.must(r.Resume(r.Context(), "", "over", ann))
			r.pass(tooLate)
			r.effect(a)
		}},
}

func key(name intent.ResourceKey) func(*store.Admission) {
	return func(a *store.Admission) { a.ResourceKey = name }
}

func fenced(token uint64) func(*world.Effect) {
	return func(e *world.Effect) { e.Class, e.Token = plugin.Fenced, token }
}

// two pushes of one asset, the second under a newer lease, with other content.
func (r *run) two() (older, newer store.Admission) {
	r.Helper()
	older = r.admit("a")
	r.acquire("south")
	r.end(older, "settled")
	r.publish(job("a", "2"))
	return older, r.admit("a")
}

// neighbours are pushes in one cluster, the first of which was closed between
// its effects.
func (r *run) neighbours() (first, second store.Admission) {
	r.Helper()
	r.publish(jobIn("x", "a", "1"), jobIn("x", "b", "1"))
	first = r.admit("a")
	r.effect(first, partly)
	r.end(first, "settled")
	return first, r.admit("b")
}

func partly(e *world.Effect) { e.Step, e.Steps = 1, 2 }

func (r *run) remove(id intent.AssetID, changes ...func(*store.Admission)) store.Admission {
	r.Helper()
	return r.admit(id, append(changes, approved, func(a *store.Admission) {
		a.Removes = true
		a.Budgets = append(a.Budgets, store.BudgetUse{Key: "turndown", Limit: 1})
	})...)
}

func (r *run) pin(id intent.AssetID, to intent.Sequence) {
	r.Helper()
	_, err := r.SetPin(r.Context(), intent.Pin{Asset: id, Incarnation: r.at(to), Rank: intent.RankPerson, Holder: ann})
	r.must(err)
}

func (r *run) stop(scope intent.PartitionID) {
	r.Helper()
	r.must(r.SetStop(r.Context(), intent.Stop{Partition: scope, Owner: ann}))
	r.StopAcknowledged(scope, r.now)
}
