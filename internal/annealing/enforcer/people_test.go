package enforcer

import (
	"context"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// as approves by a name what the asset's report shows.
func (w *world) as(name string, id intent.AssetID) {
	w.t.Helper()
	report := w.report(id)
	w.must(w.store.Approve(w.ctx, intent.Approval{
		Partition: shop, Asset: id, Effective: report.Effective, Plan: report.PlanDigest, By: intent.Actor{Name: name, Origin: "test"}, Created: time.Now(),
	}))
}

// override lets a check of an asset pass.
func (w *world) override(id intent.AssetID, check string, period time.Duration) {
	w.t.Helper()
	w.must(w.store.Override(w.ctx, intent.Override{
		Partition: shop, Asset: id, Effective: w.report(id).Effective, Check: check, By: tester, Reason: "blind",
		Created: time.Now(), Until: time.Now().Add(period),
	}))
}

// unpushed lets time pass in which the asset is not pushed.
func (w *world) unpushed(id intent.AssetID, while string) {
	w.t.Helper()
	before := w.production.pushes(id)
	w.pass(2 * time.Minute)
	if w.production.pushes(id) != before {
		w.t.Fatalf("%s was pushed while %s", id, while)
	}
}

// told waits until the asset's report says something.
func (w *world) told(id intent.AssetID, says string) {
	w.t.Helper()
	w.eventually(string(id)+" tells: "+says, func() bool {
		report := w.report(id)
		for _, waiting := range report.Waiting {
			if strings.Contains(waiting.Reason, says) {
				return true
			}
		}
		return false
	})
}

// TestAQuorumIsOfOthers: two people, neither the author, by policy or by what
// the asset asks for; the stricter of what was enforced and the target counts.
func TestAQuorumIsOfOthers(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Approval = &intentpb.ApprovalPolicy{Quorum: 2}
		w.publish(db.with(&intentpb.Approval{Reason: "precious"}))
		w.told("db", "0 of 2: nobody approved; needs 2 more approvers other than author")
		w.as("author", "db")
		w.as("bob", "db")
		w.told("db", "1 of 2: bob approved; needs 1 more approver other than author")
		w.unpushed("db", "one of two people had approved")
		w.as("carol", "db")
		w.inSync(db)
		// A commit that asks for fewer is itself approved by as many as before.
		w.policy.Approval = nil
		w.publish(dbV2.with(&intentpb.Approval{Reason: "precious", Quorum: 1}))
		w.told("db", "0 of 2")
		w.as("bob", "db")
		w.unpushed("db", "one of two people had approved")
		w.as("carol", "db")
		w.inSync(dbV2)
		// The asset may ask for more than policy does.
		w.publish(db.with(&intentpb.Approval{Reason: "precious", Quorum: 3}))
		w.told("db", "0 of 3")
	})
}

func TestAnApprovalCountsAsLongAsPolicySays(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Approval = &intentpb.ApprovalPolicy{Quorum: 2}
		w.publish(db.with(&intentpb.Approval{Reason: "precious", Quorum: 2}))
		w.told("db", "0 of 2")
		w.as("bob", "db")
		w.told("db", "1 of 2")
		report := w.report("db")
		w.must(w.store.Approve(w.ctx, intent.Approval{
			Partition: shop, Asset: "db", Effective: report.Effective, Plan: report.PlanDigest, By: intent.Actor{Name: "bob"}, Created: time.Now(), Until: time.Now().Add(time.Minute),
		}))
		w.pass(2 * time.Minute)
		w.told("db", "0 of 2")
		w.as("carol", "db")
		w.unpushed("db", "bob's approval had ended")
		w.as("bob", "db")
		w.inSync(db)
	})
}

func TestARejectionHoldsUntilItIsTakenBack(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		// Also of a plan that needs no approval.
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "reading"}))
		w.publish(webV2)
		w.waitsOn("web", intent.WaitHold)
		report := w.report("web")
		carol := intent.Actor{Name: "carol", Origin: "test"}
		w.must(w.store.Reject(w.ctx, intent.Rejection{Partition: shop, Asset: "web", Effective: report.Effective, Plan: report.PlanDigest, By: carol, Reason: "not today"}))
		w.must(w.store.Unhold(w.ctx, shop, "web", "done", tester))
		if waiting := w.waitsOn("web", intent.WaitRejected); waiting.Owner != "carol" || !strings.Contains(waiting.Reason, "not today") {
			t.Errorf("it waits on %+v", waiting)
		}
		w.as("bob", "web")
		w.unpushed("web", "its plan was rejected")
		w.must(w.store.Withdraw(w.ctx, shop, "web", "carol", "fine", carol))
		w.inSync(webV2)
	})
}

// blindWeb comes after a db that nobody can see.
func (w *world) blindWeb() {
	w.t.Helper()
	w.production.does("db", behaviour{unknown: "database unreachable"})
	w.publish(web.with(after("db")), db)
	w.waitsOn("web", intent.WaitOrder)
}

func TestAnOverrideLetsItsCheckPass(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"order"}}
		w.blindWeb()
		w.override("web", "version", time.Hour)
		w.unpushed("web", "another check was overridden")
		w.override("web", "order", time.Hour)
		w.inSync(web)
		// It was of that content: the next one waits again.
		w.publish(webV2.with(after("db")), db)
		w.waitsOn("web", intent.WaitOrder)
		w.unpushed("web", "its new content had no override")
	})
}

func TestAnOverrideEnds(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"order"}}
		w.blindWeb()
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "reading"}))
		w.override("web", "order", time.Minute)
		w.eventually("the override is reported", func() bool {
			report := w.report("web")
			return len(report.Overrides) == 1 && len(report.Waiting) == 1 && report.Waiting[0].Kind == intent.WaitHold
		})
		w.pass(2 * time.Minute)
		w.eventually("its end is reported", func() bool {
			report := w.report("web")
			return len(report.Overrides) == 0 && len(report.Waiting) == 2
		})
		w.must(w.store.Unhold(w.ctx, shop, "web", "done", tester))
		w.unpushed("web", "its override had ended")
	})
}

// TestACommitDoesNotAllowItsOwnOverride: what policy forbade when the asset was
// enforced last is forbidden still, whatever head says (S23).
func TestACommitDoesNotAllowItsOwnOverride(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web.with(after("db")), db)
		w.inSync(web, db)
		w.production.does("db", behaviour{unknown: "database unreachable"})
		w.pass(time.Minute)
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"order"}}
		w.publish(webV2.with(after("db")), dbV2)
		w.waitsOn("web", intent.WaitOrder)
		w.override("web", "order", time.Hour)
		w.told("web", "The override by tester does not count")
		w.unpushed("web", "the policy it was enforced under forbids the override")
	})
}

// TestAPinAvoidsNothingThatHeadAsks: whoever pins an asset to what it was before
// it was marked needs the approvals that head asks for (S9).
func TestAPinAvoidsNothingThatHeadAsks(t *testing.T) {
	precious := &intentpb.Approval{Reason: "precious", Quorum: 2}
	simulate(t, func(w *world) {
		w.observe(web)
		unmarked := w.head
		w.publish(webV2.with(precious))
		w.pin("web", unmarked, time.Time{})
		w.enforce(webV2.with(precious))
		w.told("web", "0 of 2")
		w.unpushed("web", "head asks for two approvals")
		w.as("bob", "web")
		w.as("carol", "web")
		w.inSync(web)
	})
}

// TestHeadThatBeginsToAskIsHeeded: also of an asset that was looked at, and only
// waits, when head was not that strict.
func TestHeadThatBeginsToAskIsHeeded(t *testing.T) {
	for name, strict := range map[string]func(*world) thing{
		"the asset is marked": func(*world) thing { return webV2.with(&intentpb.Approval{Reason: "precious"}) },
		"policy asks for more": func(w *world) thing {
			w.policy.Approval = &intentpb.ApprovalPolicy{Quorum: 2}
			return webV2
		},
		"the asset's mode": func(*world) thing { return webV2.with(observed()) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				// It serves as much as before, so nothing but head makes a fact void.
				same := func(d *intent.Difference) { d.Impacts = []intent.Impact{{Dimension: "tasks", Current: 1, Target: 1}} }
				w.production.does("web", behaviour{destructive: name == "policy asks for more", says: same})
				w.observe(web)
				w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "reading"}))
				w.pin("web", w.head, time.Time{})
				w.enforce(webV2)
				w.waitsOn("web", intent.WaitHold)
				if name == "policy asks for more" {
					w.as("bob", "web")
				}
				w.publish(strict(w))
				w.must(w.store.Unhold(w.ctx, shop, "web", "done", tester))
				w.unpushed("web", "head had become stricter")
			})
		})
	}
}

// TestBudgetsOfHeadHoldForWhatIsPinned: also where the pin's incarnation had none,
// and of an asset that head has no more (S8).
func TestBudgetsOfHeadHoldForWhatIsPinned(t *testing.T) {
	site := &intentpb.ImpactedScope{Scopes: map[string]string{"site": "east"}}
	simulate(t, func(w *world) {
		w.observe(web.with(site), db.with(site))
		w.pin("web", w.head, time.Time{})
		w.pin("db", w.head, time.Time{})
		w.policy.Budgets = []*intentpb.Budget{{Scope: "site", InFlight: 1}}
		slow := func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			time.Sleep(3 * time.Second)
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}
		w.production.does("web", behaviour{push: slow})
		w.production.does("db", behaviour{push: slow})
		w.enforce(dbV2.with(site))
		w.inSync(web, db)
		if most := w.production.mostAtOnce(); most > 1 {
			t.Errorf("%d pushes were under way at once in a budget of one", most)
		}
	})
}

// observe and enforce publish things in that mode.
func (w *world) observe(things ...thing) {
	w.inMode(intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE, things)
}
func (w *world) enforce(things ...thing) {
	w.inMode(intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE, things)
}

func (w *world) inMode(mode intentpb.EnforcementMode, things []thing) {
	w.policy.Mode = mode
	w.publish(things...)
}
