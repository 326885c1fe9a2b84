package enforcer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// ask sets the rules of the common policy.
func (w *world) ask(rules ...*intentpb.CommonRule) {
	w.t.Helper()
	policy := &intentpb.CommonPolicy{Rules: rules, File: "lehr-policy.yaml"}
	body, digest, err := commonpolicy.Encode(policy)
	w.must(err)
	w.must(w.store.SetCommonPolicy(w.ctx, store.CommonPolicy{Body: body, Digest: digest}, tester))
}

// young is a common rule that asks for an age of half an hour.
func young(mode intentpb.CommonRule_Mode) *intentpb.CommonRule {
	return &intentpb.CommonRule{
		Name: "young", Owner: "platform", Mode: mode, Line: 3, Lines: map[string]uint32{"checks.age": 7},
		Policy: &intentpb.Policy{Checks: []*intentpb.Check{{
			Name: commonpolicy.CheckName("young", "age"), Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(30 * time.Minute)}},
		}}},
	}
}

// TestACommonCheckHoldsWhatThePartitionAllows: it names rule, owner, file and line, and a partition
// whose policy lets people override everything cannot let them override it.
func TestACommonCheckHoldsWhatThePartitionAllows(t *testing.T) {
	simulate(t, func(w *world) {
		w.ask(young(intentpb.CommonRule_MODE_REQUIRE))
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"age", "common.young.age", "min_age"}}
		w.publish(web)
		w.pass(time.Minute)
		waiting := w.waitsOn("web", intent.WaitAge)
		if waiting.Check != "common.young.age" || waiting.Owner != "platform" || !strings.Contains(waiting.Reason, "(common rule young of platform, lehr-policy.yaml:7)") {
			t.Errorf("it waits for %+v", waiting)
		}
		report, err := w.store.Report(w.ctx, shop, "web")
		w.must(err)
		w.must(w.store.Override(w.ctx, intent.Override{Partition: shop, Asset: "web", Effective: report.Effective, Check: "common.young.age", By: tester, Reason: "r", Created: time.Now(), Until: time.Now().Add(time.Hour)}))
		w.pass(time.Minute)
		w.waitsOn("web", intent.WaitAge)
		w.pass(30 * time.Minute)
		if w.production.pushes("web") != 1 {
			t.Errorf("it was pushed %d times", w.production.pushes("web"))
		}
	})
}

// TestAnOverridableCommonCheckIsOverridden: where its rule lets people.
func TestAnOverridableCommonCheckIsOverridden(t *testing.T) {
	simulate(t, func(w *world) {
		rule := young(intentpb.CommonRule_MODE_REQUIRE)
		rule.Overridable = []string{"common.young.age"}
		w.ask(rule)
		w.publish(web)
		w.pass(time.Minute)
		w.waitsOn("web", intent.WaitAge)
		report, err := w.store.Report(w.ctx, shop, "web")
		w.must(err)
		w.must(w.store.Override(w.ctx, intent.Override{Partition: shop, Asset: "web", Effective: report.Effective, Check: "common.young.age", By: tester, Reason: "r", Created: time.Now(), Until: time.Now().Add(time.Hour)}))
		w.pass(time.Minute)
		if w.production.pushes("web") != 1 {
			t.Errorf("it was pushed %d times", w.production.pushes("web"))
		}
	})
}

// TestAnObservedCommonCheckHoldsNothing: what it would hold stands in the grounds of the push.
func TestAnObservedCommonCheckHoldsNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.ask(young(intentpb.CommonRule_MODE_OBSERVE))
		w.publish(web)
		w.pass(time.Minute)
		if w.production.pushes("web") != 1 {
			t.Fatalf("it was pushed %d times", w.production.pushes("web"))
		}
		pushes, err := w.store.Pushes(w.ctx, shop, "web", 1)
		w.must(err)
		found := false
		for _, ground := range pushes[0].Grounds {
			found = found || ground.Check == "common.young.age" && strings.Contains(ground.Fact, "would wait")
		}
		if !found {
			t.Errorf("grounds %+v", pushes[0].Grounds)
		}
	})
}

// TestACommonRuleThatComesWhileAPushIsDecidedCounts: admission asks again.
func TestACommonRuleThatComesWhileAPushIsDecidedCounts(t *testing.T) {
	simulate(t, func(w *world) {
		g := w.gated()
		open := g.shut("admit")
		w.publish(web)
		w.pass(time.Minute)
		w.ask(young(intentpb.CommonRule_MODE_REQUIRE))
		open()
		w.pass(time.Minute)
		w.waitsOn("web", intent.WaitAge)
		if w.production.pushes("web") > 0 {
			t.Fatal("it was pushed under a policy that was not in force any more")
		}
		w.ask()
		w.pass(time.Minute)
		if w.production.pushes("web") != 1 {
			t.Errorf("it was pushed %d times after the rule was gone", w.production.pushes("web"))
		}
	})
}

// TestTheSmallerOfTwoBudgetsCounts: that of the common rule, or the partition's.
func TestTheSmallerOfTwoBudgetsCounts(t *testing.T) {
	for _, limits := range [][2]uint32{{2, 9}, {9, 2}} {
		simulate(t, func(w *world) {
			budgets := func(most uint32) []*intentpb.Budget { return []*intentpb.Budget{{Scope: "cluster", InFlight: most}} }
			w.policy.Budgets = budgets(limits[0])
			w.ask(&intentpb.CommonRule{Name: "b", Owner: "platform", Mode: intentpb.CommonRule_MODE_REQUIRE, Policy: &intentpb.Policy{Budgets: budgets(limits[1])}})
			var things []thing
			for i := range 6 {
				id := intent.AssetID(fmt.Sprint("web/", i))
				things = append(things, thing{id: id, word: "v1"}.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}))
				w.production.does(id, behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
					time.Sleep(30 * time.Second)
					apply()
					return plugin.PushResult{Ending: plugin.Pushed}
				}})
			}
			w.publish(things...)
			w.inSync(things...)
			if most := w.production.mostAtOnce(); most != 2 {
				t.Errorf("with budgets %v %d pushes at once, want 2", limits, most)
			}
		})
	}
}
