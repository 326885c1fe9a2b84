package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// member is an entry that says which group it is in.
func member(asset, service, instance string) store.Entry {
	e := entry(asset, service+instance)
	e.Fields = []intent.Field{{Path: intent.GroupServiceField, Value: service}}
	if instance != "" {
		e.Fields = append(e.Fields, intent.Field{Path: intent.GroupInstanceField, Value: instance})
	}
	return e
}

func testGroups(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(member("lb", "shop", ""), member("web/a", "shop", "a"), member("web/b", "shop", "b"), member("db/b", "shop", "b"),
		member("mail/a", "mail", "a"), entry("loose", "x"))
	w.publish(member("web/b", "mail", "a"), member("new/a", "new", "a"), member("new/b", "new", "b")) // web/b is of another group now.
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{
		{Asset: "lb", State: intent.StateInSync, Target: at(2)}, {Asset: "web/a", State: intent.StateWaiting, Target: at(1)},
		{Asset: "db/b", State: intent.StateWaiting}, {Asset: "web/b", State: intent.StateInSync, Target: at(1)},
		{Asset: "mail/a", State: intent.StatePushing, Target: at(2)}, {Asset: "loose", State: intent.StateWaiting, Target: at(2)},
	}))
	group := func(service, instance string, states map[intent.State]int) store.GroupStates {
		return store.GroupStates{Group: intent.Group{Service: service, Instance: instance}, States: states}
	}
	shopA := group("shop", "a", map[intent.State]int{intent.StateWaiting: 1})
	loose := group("shop", "", map[intent.State]int{intent.StateInSync: 1})
	shopB := group("shop", "b", map[intent.State]int{intent.StateWaiting: 1, intent.StateInSync: 1})
	mailA := group("mail", "a", map[intent.State]int{intent.StatePushing: 1})
	unseen := map[intent.State]int{intent.StateUnseen: 1}
	list := func(filter store.GroupFilter, want ...store.GroupStates) {
		t.Helper()
		got, err := w.ListGroups(ctx, at(2), filter)
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", filter, diff)
		}
	}
	groupFilter := func(service, instance string) store.GroupFilter {
		return store.GroupFilter{Of: intent.Group{Service: service, Instance: instance}}
	}
	list(store.GroupFilter{}, mailA, loose, shopA, shopB)
	list(store.GroupFilter{Limit: 1}, mailA)
	list(store.GroupFilter{After: "mail", Limit: 1}, loose, shopA, shopB)
	list(store.GroupFilter{After: "shop"})
	list(groupFilter("shop", ""), loose, shopA, shopB)
	list(groupFilter("shop", "b"), shopB)
	list(groupFilter("new", ""), group("new", "a", unseen), group("new", "b", unseen))
	list(groupFilter("new", "b"), group("new", "b", unseen))
	list(groupFilter("nope", ""))
	list(groupFilter("mail", "b"))

	// A report at the newer incarnation has the group of that; one of what left
	// has none.
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{
		{Asset: "web/b", State: intent.StateInSync, Target: at(2)}, {Asset: "nothing", State: intent.StateGone, Target: at(2)},
	}))
	shopB = group("shop", "b", map[intent.State]int{intent.StateWaiting: 1})
	list(groupFilter("shop", "b"), shopB)
	list(groupFilter("mail", ""), group("mail", "a", map[intent.State]int{intent.StatePushing: 1, intent.StateInSync: 1}))
	// What is in sync and unhealthy is counted apart.
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "lb", State: intent.StateInSync, Target: at(2), Health: intent.Health{State: intent.Unhealthy, Reason: "ill"}}}))
	loose.Unhealthy = 1
	list(groupFilter("shop", ""), loose, shopA, shopB)
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "lb", State: intent.StateInSync, Target: at(2)}}))
	loose.Unhealthy = 0
	list(groupFilter("shop", ""), loose, shopA, shopB)
	for name, c := range map[string]struct {
		filter store.ReportFilter
		want   []intent.AssetID
	}{
		"of a service":   {store.ReportFilter{Group: intent.Group{Service: "shop"}}, []intent.AssetID{"db/b", "lb", "web/a"}},
		"by state":       {store.ReportFilter{Group: intent.Group{Service: "shop"}, State: intent.StateWaiting}, []intent.AssetID{"db/b", "web/a"}},
		"after":          {store.ReportFilter{Group: intent.Group{Service: "shop"}, After: "db/b", Limit: 1}, []intent.AssetID{"lb"}},
		"by prefix":      {store.ReportFilter{Group: intent.Group{Service: "shop"}, Prefix: "web/"}, []intent.AssetID{"web/a"}},
		"of an instance": {store.ReportFilter{Group: intent.Group{Service: "shop", Instance: "b"}, State: intent.StateWaiting}, []intent.AssetID{"db/b"}},
	} {
		reports, err := w.ListReports(ctx, shop, c.filter)
		w.must(err)
		var got []intent.AssetID
		for _, report := range reports {
			got = append(got, report.Asset)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// testGrounds: a push tells what it was decided on, and who approved it as the admission
// saw that, whatever the decision had seen.
func testGrounds(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	approval := intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("plan"), By: bob, Reason: "meant", Created: noon}
	w.must(w.Approve(ctx, approval))
	fact := intent.Ground{Check: "errors", Fact: "error_ratio 0.004 < 0.02, 8 s old", Until: noon.Add(time.Minute)}
	refusals, err := w.Admit(ctx, w.lease, []store.Admission{
		{Push: "1", Asset: "a", Target: at(1), Effective: digestOf("x"), Plan: digestOf("plan"), Revision: w.revision(), At: noon,
			NeedsApproval: true, Grounds: []intent.Ground{fact}, Budgets: []store.BudgetUse{{Key: "cluster=a", Limit: 1}}},
		{Push: "2", Asset: "b", Target: at(1), Effective: digestOf("x"), Plan: digestOf("plan"), Revision: w.revision(), At: noon},
	})
	w.must(err)
	if refusals[0] != nil || refusals[1] != nil {
		t.Fatalf("refused: %+v %+v", refusals[0], refusals[1])
	}
	one, err := w.Push(ctx, shop, "1")
	w.must(err)
	want := []intent.Ground{fact, {Check: "approval", Fact: "1 of 1: bob approved"}}
	if diff := cmp.Diff(want, one.Grounds); diff != "" || one.Asset != "a" || !cmp.Equal(one.Budgets, []string{"cluster=a"}) {
		t.Errorf("%+v (-want +got):\n%s", one, diff)
	}
	two, err := w.Push(ctx, shop, "2")
	w.must(err)
	if two.Asset != "b" || two.Grounds != nil {
		t.Errorf("%+v", two)
	}
	_, err = w.Push(ctx, shop, "3")
	w.refused(err, fault.NotFound)
	_, err = w.Push(ctx, theatre, "1")
	w.refused(err, fault.NotFound)
}
