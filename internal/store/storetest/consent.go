package storetest

import (
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

var (
	carol = intent.Actor{Name: "carol", Origin: "api"}
	dave  = intent.Actor{Name: "dave", Origin: "cli"}
)

// needing is an admission of "a" at head that consumes approvals.
func (w *world) needing(push string, people int) store.Admission {
	w.t.Helper()
	a := w.admission(push, "a", w.partition(shop).Head)
	member, err := w.Member(w.t.Context(), a.Target, "a")
	w.must(err)
	a.Effective, a.NeedsApproval, a.Quorum = member.Effective, true, intent.Quorum{People: people}
	return a
}

// yes is an approval of what an admission is about.
func yes(a store.Admission, actor intent.Actor) intent.Approval {
	return intent.Approval{Partition: shop, Asset: a.Asset, Effective: a.Effective, Plan: a.Plan, By: actor, Reason: "fine", Created: noon}
}

func no(a store.Admission, actor intent.Actor) intent.Rejection {
	return intent.Rejection{Partition: shop, Asset: a.Asset, Effective: a.Effective, Plan: a.Plan, By: actor, Reason: "not today", Created: noon}
}

// lastDetail is the newest record of a verb.
func (w *world) lastDetail(verb string) string {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), shop, 0, 1000)
	w.must(err)
	for _, r := range slices.Backward(records) {
		if r.Verb == verb {
			return r.Detail
		}
	}
	w.t.Fatalf("nobody did %s", verb)
	return ""
}

// admitQuorum: as many people as are asked for, each once, counted in the
// transaction that uses their approvals (S9).
func admitQuorum(w *world) {
	ctx := w.t.Context()
	a := w.needing("p1", 2)
	w.waits(a, intent.WaitApproval)
	w.must(w.Approve(ctx, yes(a, bob)))
	w.must(w.Approve(ctx, yes(a, bob)))
	elsewhere := bob
	elsewhere.Origin = "another"
	w.must(w.Approve(ctx, yes(a, elsewhere))) // the same person, from elsewhere
	waiting := w.waits(w.needing("p1", 2), intent.WaitApproval)
	if !strings.Contains(waiting.Reason, "1 of 2: bob approved; needs 1 more approver") {
		w.t.Errorf("the refusal does not say who is missing: %q", waiting.Reason)
	}
	late := yes(a, carol)
	late.Until = noon // The admission is of noon: it has just ended.
	w.must(w.Approve(ctx, late))
	w.waits(w.needing("p1", 2), intent.WaitApproval)
	late.Until = noon.Add(time.Nanosecond)
	w.must(w.Approve(ctx, late))
	// Policy may let it count for a shorter time than it was given for.
	short := w.needing("p1", 2)
	short.Quorum.Period = time.Hour
	short.At = noon.Add(time.Hour)
	w.waits(short, intent.WaitApproval)
	// More than are asked for: all that count are used.
	w.must(w.Approve(ctx, yes(a, dave)))
	w.admitted(w.needing("p1", 2))
	if detail := w.lastDetail("admit"); !strings.Contains(detail, "; approved by bob, carol, dave") {
		w.t.Errorf("the record does not say who approved: %q", detail)
	}
	w.closePush("p1", "failed")
	w.waits(w.needing("p2", 1), intent.WaitApproval) // once
	w.must(w.Approve(ctx, yes(a, carol)))
	w.waits(w.needing("p2", 2), intent.WaitApproval)
	w.admitted(w.needing("p2", 1))
	nobody := yes(a, intent.Actor{Origin: "api"})
	w.refused(w.Approve(ctx, nobody), fault.Invalid)
}

// admitAuthor: who made the change is not one of its approvers.
func admitAuthor(w *world) {
	ctx := w.t.Context()
	publishAs := func(author, acknowledger intent.Actor, entries ...store.Entry) {
		w.t.Helper()
		head := w.partition(shop).Head
		w.must(w.Stage(ctx, w.lease, head, entries))
		_, err := w.Publish(ctx, w.lease, intent.Incarnation{
			ID: at(int(head.Sequence) + 1), Parent: head, Author: author, Acknowledger: acknowledger, Created: noon,
		})
		w.must(err)
	}
	authors := func(want ...string) {
		w.t.Helper()
		names, err := w.Authors(ctx, w.partition(shop).Head, "a", noon)
		w.must(err)
		if !slices.Equal(names, want) {
			w.t.Errorf("authors are %v, want %v", names, want)
		}
	}
	authors(alice.Name)
	enforced := func() {
		w.t.Helper()
		member, err := w.Member(ctx, w.partition(shop).Head, "a")
		w.must(err)
		_, err = w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "a", Type: "T", Effective: member.Effective, Incarnation: w.partition(shop).Head, At: noon}})
		w.must(err)
	}
	enforced()
	authors() // What is enforced is nobody's change: production moved.
	server := intent.Actor{Name: "lehr", Origin: intent.ServerOrigin}
	publishAs(bob, intent.Actor{}, entry("a", "two"))
	publishAs(server, carol, entry("a", "three"))
	publishAs(dave, intent.Actor{}, entry("b", "two"))
	authors(bob.Name, carol.Name)
	for _, author := range []intent.Actor{bob, carol} {
		w.must(w.Approve(ctx, yes(w.needing("p1", 1), author)))
		waiting := w.waits(w.needing("p1", 1), intent.WaitApproval)
		if !strings.Contains(waiting.Reason, "0 of 1: nobody approved; needs 1 more approver other than bob and carol") {
			w.t.Errorf("the refusal does not say who may not: %q", waiting.Reason)
		}
	}
	// However long ago they wrote it: also when the incarnation is not kept.
	_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1}, noon.Add(time.Hour))
	w.must(err)
	authors(carol.Name) // bob's content is gone with his incarnation
	publishAs(server, intent.Actor{}, entry("a", "four"))
	_, err = w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: w.partition(shop).Head, Rank: intent.RankPerson, Holder: dave, Until: noon.Add(time.Minute)})
	w.must(err)
	authors(carol.Name, dave.Name)
	w.must(w.Approve(ctx, yes(w.needing("p1", 1), dave)))
	w.waits(w.needing("p1", 1), intent.WaitApproval)
	w.must(w.Approve(ctx, yes(w.needing("p1", 1), bob)))
	w.admitted(w.needing("p1", 1))
}

// admitAlone: where there is one person, theirs counts for their own change,
// unless more are asked for.
func admitAlone(w *world) {
	ctx := w.t.Context()
	alone := yes(w.needing("p1", 1), alice) // who publishes
	w.must(w.Approve(ctx, alone))
	w.waits(w.needing("p1", 1), intent.WaitApproval)
	alone.Alone = true
	w.must(w.Approve(ctx, alone))
	w.must(w.Approve(ctx, yes(w.needing("p1", 1), bob)))
	w.waits(w.needing("p1", 2), intent.WaitApproval)
	w.admitted(w.needing("p1", 1))
	if detail := w.lastDetail("admit"); !strings.Contains(detail, "; self-approved by alice, bob") {
		w.t.Errorf("the record does not say that it is self-approved: %q", detail)
	}
}

// admitRejection: a rejection beats approvals given before and after it.
func admitRejection(w *world) {
	ctx := w.t.Context()
	rejected := func() {
		w.t.Helper()
		waiting := w.waits(w.needing("p1", 1), intent.WaitRejected)
		if waiting.Owner != carol.Name || !strings.Contains(waiting.Reason, "not today") || !strings.Contains(waiting.Reason, "carol") {
			w.t.Errorf("the refusal does not say who rejected it, and why: %+v", waiting)
		}
	}
	a := w.needing("p1", 1)
	w.must(w.Approve(ctx, yes(a, bob)))
	raced := w.needing("raced", 1)
	w.must(w.Reject(ctx, no(a, carol)))
	w.waits(raced, intent.WaitStale)
	rejected()
	w.must(w.Approve(ctx, yes(a, dave)))
	w.must(w.Approve(ctx, yes(a, carol)))
	rejected()
	// Also of a plan that needs nobody's approval, but of no other plan.
	unneeded := w.needing("p1", 0)
	unneeded.NeedsApproval = false
	w.waits(unneeded, intent.WaitRejected)
	otherPlan := unneeded
	otherPlan.Push, otherPlan.Plan = "p0", digestOf("another plan")
	w.admitted(otherPlan)
	w.closePush("p0", "pushed")
	w.refused(w.Withdraw(ctx, shop, "a", bob.Name, "", bob), fault.NotFound)
	w.must(w.Withdraw(ctx, shop, "a", carol.Name, "looked again", dave))
	if detail := w.lastDetail("withdraw"); !strings.Contains(detail, "by carol") {
		w.t.Errorf("the record does not say whose rejection was taken back: %q", detail)
	}
	// One that ends, does.
	ending := no(a, carol)
	ending.Until = noon.Add(time.Nanosecond)
	w.must(w.Reject(ctx, ending))
	rejected()
	ending.Until = noon
	w.must(w.Reject(ctx, ending))
	w.admitted(w.needing("p1", 1))
	w.refused(w.Reject(ctx, no(a, intent.Actor{})), fault.Invalid)
	nowhere := no(a, bob)
	nowhere.Partition = "nowhere"
	w.refused(w.Reject(ctx, nowhere), fault.NotFound)
}

// admitOverride: a check that passed by an override rests on it.
func admitOverride(w *world) {
	ctx := w.t.Context()
	wanted := func() store.Admission {
		a := w.needing("p1", 0)
		a.NeedsApproval, a.Overrides = false, []string{"order"}
		return a
	}
	override := intent.Override{
		Partition: shop, Asset: "a", Effective: wanted().Effective, Check: "order", By: bob, Reason: "the plugin is blind",
		Created: noon, Until: noon.Add(time.Nanosecond),
	}
	for _, change := range []func(*intent.Override){
		func(o *intent.Override) { o.Asset = "b" },
		func(o *intent.Override) { o.Effective = digestOf("other content") },
		func(o *intent.Override) { o.Check = "version" },
		func(o *intent.Override) { o.Until = noon },
	} {
		wrong := override
		change(&wrong)
		w.must(w.Override(ctx, wrong))
		w.waits(wanted(), intent.WaitStale)
	}
	w.must(w.Override(ctx, override))
	w.admitted(wanted())
	if detail := w.lastDetail("admit"); !strings.Contains(detail, "; order overridden by bob until 2") || !strings.Contains(detail, "the plugin is blind") {
		w.t.Errorf("the record does not name the override: %q", detail)
	}
	if detail := w.lastDetail("override"); !strings.Contains(detail, "check order of content") {
		w.t.Errorf("the override has no record: %q", detail)
	}
	for label, change := range map[string]func(*intent.Override){
		"nobody": func(o *intent.Override) { o.By = intent.Actor{} }, "no content": func(o *intent.Override) { o.Effective = intent.Digest{} },
		"no end": func(o *intent.Override) { o.Until = time.Time{} }, "no reason": func(o *intent.Override) { o.Reason = "" }, "no check": func(o *intent.Override) { o.Check = "" },
	} {
		wrong := override
		change(&wrong)
		w.t.Log(label)
		w.refused(w.Override(ctx, wrong), fault.Invalid)
	}
	list, err := w.Consents(ctx, shop)
	w.must(err)
	if at := slices.IndexFunc(list.Overrides, func(o intent.Override) bool {
		return o.Asset == "a" && o.Check == "order" && o.Effective == override.Effective
	}); at < 0 || list.Overrides[at] != override {
		w.t.Errorf("overrides are %+v", list.Overrides)
	}
	// What has ended is collected after a while.
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: time.Hour}, noon.Add(2*time.Hour))
	w.must(err)
	list, err = w.Consents(ctx, shop)
	w.must(err)
	if len(list.Overrides) > 0 {
		w.t.Errorf("ended overrides stay: %+v", list.Overrides)
	}
}
