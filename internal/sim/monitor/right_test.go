package monitor

import (
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

var turndown = &intentpb.Turndown{Reason: "over"}

func approved(a *store.Admission) { a.NeedsApproval = true }

func removal(e *world.Effect) {
	e.Delete, e.Destructive, e.Action, e.After = true, true, intent.ActionDelete, ""
}

// A run in which all is as it should be is no breach of anything, and every
// property is asked.
func TestNothingIsFoundWhereNothingIsWrong(t *testing.T) {
	r := newRun(t)
	ctx := t.Context()
	first := r.admit("a")
	r.must(r.SaveMemo(ctx, r.lease, first.Push, runMemo("a 1")))
	r.MemoSaved("a", runMemo("a 1"))
	r.RunBegun(world.Run{Asset: "a", Key: "key/a", Push: first.Push, Number: 1})
	r.effect(first)
	r.end(first, "pushed")
	r.sight("a", "key/a", false)

	r.publish(job("a", "2"), job("b", "2"))
	_, err := r.SetPin(ctx, intent.Pin{Asset: "b", Incarnation: r.at(1), Rank: intent.RankPerson, Holder: ann})
	r.must(err)
	r.must(r.SetHold(ctx, sim, intent.Hold{Asset: "c", Owner: ann, Until: r.now.Add(time.Minute)}))
	r.must(r.Unhold(ctx, sim, "c", "a try", ann))
	second := r.admit("a")
	r.MemosHanded("a", []intent.Memo{runMemo("a 1")}, second.Push)
	r.effect(second, func(e *world.Effect) { e.Class, e.Steps = plugin.Fenced, 2 })
	r.acquire("south")
	r.pass(6 * time.Second)
	r.end(second, "settled")
	third := r.admit("a")
	r.effect(third, func(e *world.Effect) { e.Class = plugin.Fenced })
	r.end(third, "pushed")
	r.sight("a", "key/a", false)
	r.must(r.Unpin(ctx, sim, "b", intent.RankPerson, "a try", ann))

	r.must(r.SetStop(ctx, intent.Stop{Partition: sim, Owner: ann}))
	r.StopAcknowledged(sim, r.now)
	r.must(r.Resume(ctx, sim, "over", ann))
	r.Resumed(sim, r.now)
	r.must(r.SetStop(ctx, intent.Stop{Owner: ann}))
	r.StopAcknowledged("", r.now)
	r.must(r.Resume(ctx, "", "over", ann))
	r.Resumed("", r.now)

	r.publish(job("d", "1", turndown))
	r.approve("d", r.now.Add(time.Hour))
	removes := r.admit("d", approved, func(a *store.Admission) {
		a.Removes = true
		a.Budgets = append(a.Budgets, store.BudgetUse{Key: "turndown", Limit: 1})
	})
	r.effect(removes, removal)
	r.end(removes, "pushed")
	r.sight("d", "key/d", true)
	r.scans()
	r.publish(gone("d"), gone("a"), job("f", "1"))
	r.sight("f", "key/a", false)

	r.Diffed("c", Diff{At: r.now, Outcome: intent.Differs, Effective: r.saved["c"].Effective, Plan: r.plan})
	last := r.admit("c")
	r.effect(last)
	r.end(last, "pushed")
	r.report("c")
	r.backsOff(time.Second)
	r.pass(3 * time.Hour)
	r.publish(gone("e"))
	_, err = r.Collect(ctx, r.lease, store.Retention{Incarnations: 1, Period: time.Minute, History: time.Minute}, r.now)
	r.must(err)
	r.scans()
	r.Waiting(r.now, time.Minute)
	r.looked([]intent.AssetID{"b", "c"}, true)
	r.End(ctx)
	r.fine()
	for property, times := range r.Checked() {
		// Nothing is rolled out here, and no workflow runs.
		if times == 0 && !slices.Contains([]string{"S10", "S19", "S20", "S28", "L8", "L9"}, property) {
			t.Errorf("%s was never asked", property)
		}
	}
}

func (r *run) sight(id intent.AssetID, key intent.ResourceKey, absent bool) {
	r.Helper()
	_, err := r.SaveEnforced(r.Context(), r.lease, []store.Enforced{{
		Asset: id, Type: r.saved[id].Type, Effective: r.saved[id].Effective, Incarnation: r.at(r.head), ResourceKey: key, Absent: absent, At: r.now,
	}})
	r.must(err)
}

func (r *run) report(id intent.AssetID, changes ...func(*intent.Report)) {
	r.Helper()
	report := intent.Report{Asset: id, Type: r.saved[id].Type, At: r.now, State: intent.StateInSync, Target: r.at(r.head), Effective: r.saved[id].Effective}
	if id == intent.PolicyAsset {
		report.State = intent.StateModel
	}
	for _, change := range changes {
		change(&report)
	}
	r.must(r.SaveReports(r.Context(), r.lease, []intent.Report{report}))
}

func (r *run) state(state intent.State, ids ...intent.AssetID) {
	r.Helper()
	for _, id := range ids {
		r.report(id, func(report *intent.Report) { report.State = state })
	}
}

func TestEveryBuiltInCheckIsAskedFor(t *testing.T) {
	var names []string
	for _, rule := range check.Rules() {
		names = append(names, rule.Name)
	}
	slices.Sort(names)
	if wanted := slices.Sorted(slices.Values(always)); !slices.Equal(names, wanted) {
		t.Errorf("the checks are %v, the monitor asks for %v", names, wanted)
	}
}

func TestAQuietStoreHasOneToken(t *testing.T) {
	r := newRun(t)
	before := r.Quiet()
	if after := r.Quiet(); !slices.Equal(after, before) {
		t.Errorf("nothing happened, and %s became %s", before, after)
	}
	r.report("a")
	if after := r.Quiet(); slices.Equal(after, before) {
		t.Error("a report was written, and the token is the same")
	}
	r.fine()
}

func TestFewAreTold(t *testing.T) {
	r := newRun(t)
	for range 3 * most {
		r.fail("S1", "one %d", 1)
	}
	r.fail("S2", "another")
	if told := r.Violations(); len(told) != most || told[0].Property != "S1" || told[1].Property != "S2" {
		t.Errorf("told are %+v", told)
	}
}
