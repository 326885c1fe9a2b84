package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testAdmit(t *testing.T, open func(t *testing.T) store.All) {
	for name, test := range map[string]func(*world){
		"Stop": admitStop, "Stale": admitStale, "OpenPush": admitOpenPush, "ResourceKey": admitResourceKey,
		"Quiet": admitQuiet, "Approval": admitApproval, "Quorum": admitQuorum, "Rule": admitRule, "PreviewRule": admitPreviewRule, "Author": admitAuthor, "Alone": admitAlone,
		"Rejection": admitRejection, "Override": admitOverride, "Budget": admitBudget, "Rate": admitRate, "Keys": admitKeys, "Claim": admitClaim,
		"EachOnItsOwn": admitEachOnItsOwn, "Malformed": admitMalformed,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open)
			w.t = t
			w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"))
			test(w)
		})
	}
}

func admitStop(w *world) {
	ctx := w.t.Context()
	for _, scope := range []intent.PartitionID{shop, ""} {
		w.must(w.SetStop(ctx, intent.Stop{Partition: scope, Owner: bob, Reason: "fire"}))
		waiting := w.waits(w.admission("p1", "a", at(1)), intent.WaitStop)
		if waiting.Owner != bob.Name || !strings.Contains(waiting.Reason, "fire") {
			w.t.Errorf("the refusal does not say who stopped it and why: %+v", waiting)
		}
		w.must(w.Resume(ctx, scope, "out", bob))
	}
	w.admitted(w.admission("p1", "a", at(1)))
}

func admitStale(w *world) {
	ctx := w.t.Context()
	for _, step := range []struct {
		what   string
		change func()
	}{
		{"head", func() { w.publish(entry("c", fmt.Sprint(w.revision()))) }},
		{"a pin", func() {
			_, err := w.SetPin(ctx, intent.Pin{Asset: "c", Incarnation: at(1), Rank: intent.RankPerson, Holder: bob})
			w.must(err)
		}},
		{"a hold", func() { w.must(w.SetHold(ctx, shop, intent.Hold{Asset: "c", Owner: bob})) }},
		{"an approval", func() {
			w.must(w.Approve(ctx, intent.Approval{Partition: shop, Asset: "c", Effective: digestOf("x"), Plan: digestOf("p"), By: bob}))
		}},
		{"a rejection", func() {
			w.must(w.Reject(ctx, intent.Rejection{Partition: shop, Asset: "c", Effective: digestOf("x"), Plan: digestOf("p"), By: bob, Reason: "no"}))
		}},
		{"a rejection taken back", func() { w.must(w.Withdraw(ctx, shop, "c", bob.Name, "yes", bob)) }},
		{"an override", func() {
			w.must(w.Override(ctx, intent.Override{Partition: shop, Asset: "c", Effective: digestOf("x"), Check: "order", By: bob, Reason: "now", Until: noon.Add(time.Hour)}))
		}},
		{"a stop that came and went", func() {
			w.must(w.SetStop(ctx, intent.Stop{Owner: bob}))
			w.must(w.Resume(ctx, "", "over", bob))
		}},
	} {
		decided := w.admission("stale", "a", at(1))
		step.change()
		w.t.Log(step.what)
		w.waits(decided, intent.WaitStale)
	}
	expired := w.admission("late", "a", at(1))
	expired.ValidUntil = noon
	w.waits(expired, intent.WaitStale)
	expired.ValidUntil = noon.Add(time.Nanosecond)
	w.admitted(expired)
}

func admitOpenPush(w *world) {
	w.admitted(w.admission("p1", "a", at(1)))
	waiting := w.waits(w.admission("p2", "a", at(1)), intent.WaitTurn)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) || !strings.Contains(waiting.Reason, "p1") {
		w.t.Errorf("the refusal does not name the push: %+v", waiting)
	}
	w.closePush("p1", store.EndingInDoubt)
	w.waits(w.admission("p2", "a", at(1)), intent.WaitSettling)
	w.closePush("p1", "settled")
	w.admitted(w.admission("p2", "a", at(1)))
}

func admitResourceKey(w *world) {
	ctx := w.t.Context()
	first := w.admission("p1", "a", at(1))
	first.ResourceKey = "cluster/x"
	w.admitted(first)
	second := w.admission("p2", "b", at(1))
	second.ResourceKey = "cluster/x"
	waiting := w.waits(second, intent.WaitTurn)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) {
		w.t.Errorf("blockers are %v", waiting.Blockers)
	}
	// In another partition too, without naming the asset (S3, S12).
	lease := w.register(theatre)
	foreign := second
	foreign.Target, foreign.Revision = intent.IncarnationID{Partition: theatre, Sequence: 1}, w.partition(theatre).Revision
	refusals, err := w.Admit(ctx, lease, []store.Admission{foreign})
	w.must(err)
	if refusals[0] == nil || refusals[0].Waiting.Kind != intent.WaitTurn || len(refusals[0].Waiting.Blockers) > 0 {
		w.t.Errorf("another partition's push of the same resource: %+v", refusals[0])
	}
	w.closePush("p1", "pushed")
	w.waits(second, intent.WaitClaim)
}

func admitQuiet(w *world) {
	w.admitted(w.admission("p1", "b", at(1)))
	a := w.admission("p2", "a", at(1))
	a.Quiet = []intent.AssetID{"c", "b"}
	waiting := w.waits(a, intent.WaitTurn)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"b"}) {
		w.t.Errorf("blockers are %v", waiting.Blockers)
	}
	w.closePush("p1", "pushed")
	w.admitted(a)
}

func admitApproval(w *world) {
	ctx := w.t.Context()
	wanted := func(push string) store.Admission {
		a := w.admission(push, "a", at(1))
		a.NeedsApproval = true
		return a
	}
	plan := wanted("p").Plan
	good := intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: plan, By: bob, Created: noon}
	for _, change := range []func(*intent.Approval){
		func(a *intent.Approval) { a.Asset = "b" },
		func(a *intent.Approval) { a.Effective = digestOf("other content") },
		func(a *intent.Approval) { a.Plan = digestOf("other plan") },
		func(a *intent.Approval) { a.Until = noon },
	} {
		wrong := good
		change(&wrong)
		w.must(w.Approve(ctx, wrong))
		w.waits(wanted("p1"), intent.WaitApproval)
	}
	w.must(w.Approve(ctx, good))
	// A refusal for another reason does not use it up.
	blocked := wanted("p1")
	blocked.Budgets = []store.BudgetUse{{Key: "none", Limit: 0}}
	w.waits(blocked, intent.WaitBudget)
	w.admitted(wanted("p1"))
	list, err := w.Consents(ctx, shop)
	w.must(err)
	for _, approval := range list.Approvals {
		if approval.Asset == "a" && approval.Effective == good.Effective && approval.Plan == good.Plan {
			w.t.Errorf("the used approval is still listed: %+v", approval)
		}
	}
	w.closePush("p1", "failed")
	w.waits(wanted("p2"), intent.WaitApproval) // once (S9)
	w.must(w.Approve(ctx, good))
	w.admitted(wanted("p2"))
}

func admitBudget(w *world) {
	use := func(push, asset string, limits ...int) store.Admission {
		a := w.admission(push, asset, at(1))
		for i, limit := range limits {
			a.Budgets = append(a.Budgets, store.BudgetUse{Key: fmt.Sprintf("scope/%d", i), Limit: limit})
		}
		return a
	}
	w.admitted(use("p1", "a", 2, 5))
	w.admitted(use("p2", "b", 2, 5))
	waiting := w.waits(use("p3", "c", 2, 5), intent.WaitBudget)
	if !strings.Contains(waiting.Reason, "2 of 2") || !strings.Contains(waiting.Reason, "scope/0") {
		w.t.Errorf("the refusal has no numbers: %q", waiting.Reason)
	}
	w.closePush("p2", store.EndingInDoubt)
	w.waits(use("p3", "c", 2, 5), intent.WaitBudget) // it may still be running
	w.closePush("p1", "pushed")
	w.closePush("p1", "pushed") // releases once
	w.admitted(use("p3", "c", 2, 5))
	w.waits(use("p4", "a", 2, 5), intent.WaitBudget)
	w.closePush("p2", "settled")
	doubled := w.admission("p4", "a", at(1))
	doubled.Budgets = []store.BudgetUse{{Key: "scope/0", Limit: 2}, {Key: "scope/0", Limit: 2}}
	w.waits(doubled, intent.WaitBudget)
	// What was refused took nothing: the second key is free for one more.
	w.admitted(use("p5", "a", 2, 2))
}

// admitKeys: a key holds what an asset's sources say of its scope, whatever that is.
// What a push takes under it is given back under it, and under no other (S8, L7).
func admitKeys(w *world) {
	keys := []string{"cluster=a", "cluster=a\ncluster=b", `cluster=a\ncluster=b`, "cluster=b", `\`, "\n"}
	one := func(push, asset string, keys ...string) store.Admission {
		a := w.admission(push, asset, at(1))
		for _, key := range keys {
			a.Budgets = append(a.Budgets, store.BudgetUse{Key: key, Limit: 1})
			a.Rates = append(a.Rates, store.RateUse{Key: key, Limit: 1, Period: time.Nanosecond})
		}
		return a
	}
	w.admitted(one("p1", "a", keys[0], keys[3]))
	w.admitted(one("p2", "b", keys[1], keys[2], keys[4], keys[5]))
	open, err := w.OpenPushes(w.t.Context(), shop)
	w.must(err)
	if !slices.Equal(open[1].Budgets, []string{keys[1], keys[2], keys[4], keys[5]}) || !slices.Equal(open[1].Rates, open[1].Budgets) {
		w.t.Errorf("they are %q and %q", open[1].Budgets, open[1].Rates)
	}
	w.closePush("p2", "pushed")
	w.waits(one("p3", "c", keys[0]), intent.WaitBudget)
	w.waits(one("p3", "c", keys[3]), intent.WaitBudget)
	w.closePush("p1", "pushed")
	last := one("p3", "c", keys...)
	last.At = last.At.Add(time.Hour)
	w.admitted(last)
}

func admitClaim(w *world) {
	ctx := w.t.Context()
	want := func(push, asset string) store.Admission {
		a := w.admission(push, asset, w.partition(shop).Head)
		a.ResourceKey = "cluster/x"
		return a
	}
	// A refused admission takes no claim.
	blocked := want("p0", "b")
	blocked.NeedsApproval = true
	w.waits(blocked, intent.WaitApproval)
	w.admitted(want("p1", "a"))
	w.closePush("p1", "failed")
	w.admitted(want("p2", "a")) // ours
	w.closePush("p2", "pushed")
	waiting := w.waits(want("p3", "b"), intent.WaitClaim)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) || !strings.Contains(waiting.Reason, "cluster/x") {
		w.t.Errorf("the refusal does not name the holder: %+v", waiting)
	}
	// Another partition waits too, even when the holder has left its head.
	lease := w.register(theatre)
	foreign := want("p4", "z")
	foreign.Target = intent.IncarnationID{Partition: theatre, Sequence: 1}
	w.publish(removal("a"))
	foreign.Revision = w.partition(theatre).Revision
	refusals, err := w.Admit(ctx, lease, []store.Admission{foreign})
	w.must(err)
	if refusals[0] == nil || refusals[0].Waiting.Kind != intent.WaitClaim || refusals[0].Waiting.Owner != string(shop) {
		w.t.Errorf("another partition's admission: %+v", refusals[0])
	}
	// Within the partition a renamed asset takes the claim along.
	w.admitted(want("p5", "b"))
	w.closePush("p5", "pushed")
	w.waits(want("p6", "c"), intent.WaitClaim)
	// A partition that was removed gives its claims up, or nobody ever could.
	w.must(w.RemovePartition(ctx, shop, "a try", alice))
	foreign.Push, foreign.Revision = "p7", w.partition(theatre).Revision
	refusals, err = w.Admit(ctx, lease, []store.Admission{foreign})
	w.must(err)
	if refusals[0] != nil {
		w.t.Errorf("after the holder's partition was removed: %+v", refusals[0])
	}
}

func admitEachOnItsOwn(w *world) {
	ctx := w.t.Context()
	stale := w.admission("p2", "b", at(1))
	stale.Revision--
	refusals, err := w.Admit(ctx, w.lease, []store.Admission{
		w.admission("p1", "a", at(1)), stale, w.admission("p3", "a", at(1)), w.admission("p4", "c", at(1)),
	})
	w.must(err)
	if len(refusals) != 4 || refusals[0] != nil || refusals[1] == nil || refusals[2] == nil || refusals[3] != nil {
		w.t.Fatalf("refusals are %v", refusals)
	}
	pushes, err := w.OpenPushes(ctx, shop)
	w.must(err)
	if len(pushes) != 2 || pushes[0].Push != "p1" || pushes[1].Push != "p4" {
		w.t.Errorf("open pushes are %+v", pushes)
	}
	none, err := w.Admit(ctx, w.lease, nil)
	w.must(err)
	if len(none) != 0 {
		w.t.Errorf("no admissions have %d refusals", len(none))
	}
}

func admitMalformed(w *world) {
	ctx := w.t.Context()
	w.admitted(w.admission("used", "a", at(1)))
	w.closePush("used", "pushed")
	foreign := w.admission("p2", "b", at(1))
	foreign.Target.Partition = theatre
	nameless := w.admission("", "b", at(1))
	again := w.admission("used", "b", at(1))
	for _, bad := range []store.Admission{foreign, nameless, again} {
		// One that cannot be decided admits none of the call.
		_, err := w.Admit(ctx, w.lease, []store.Admission{w.admission("good", "c", at(1)), bad})
		w.refused(err, fault.Invalid)
	}
	pushes, err := w.OpenPushes(ctx, shop)
	w.must(err)
	if len(pushes) != 0 {
		w.t.Errorf("a refused call left %+v", pushes)
	}
}
