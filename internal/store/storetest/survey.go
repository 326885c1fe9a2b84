package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testSurveys(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Standings", func(t *testing.T) { surveyedStandings(newSurveyed(t, open)) })
	t.Run("Matters", func(t *testing.T) { surveyedMatters(newSurveyed(t, open)) })
	t.Run("Service", func(t *testing.T) { surveyedService(newSurveyed(t, open)) })
	t.Run("Search", func(t *testing.T) { surveyedSearch(newSurveyed(t, open)) })
	t.Run("Fields", func(t *testing.T) { surveyedFields(newSurveyed(t, open)) })
}

// newSurveyed has two partitions of which there is something to tell, one without a head, and one that was removed.
func newSurveyed(t *testing.T, open func(t *testing.T) store.All) *world {
	t.Helper()
	w := newWorld(t, open)
	ctx := t.Context()
	shopLease := w.lease
	w.publish(entry("a", "1"), entry("web/cart", "1"))
	w.publish(entry("a", "2"), removal("web/cart"), entryWith("web/till", "1", "Job.name", "till", "Job.zone", "eu"))
	asking := intent.Report{Asset: "a", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitOrder}, {Kind: intent.WaitApproval}}}
	rejected := intent.Report{Asset: "b", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitRejected}}}
	w.must(w.SaveReports(ctx, shopLease, []intent.Report{
		asking, rejected, {Asset: "c", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: intent.WaitOrder}}}, {Asset: "web/till", State: intent.StateInSync},
	}))
	// What does not ask any more is told no more.
	rejected.Waiting = nil
	w.must(w.SaveReports(ctx, shopLease, []intent.Report{rejected}))
	w.must(w.SetLabel(ctx, at(2), "release", "spring", "to find it", alice))
	for asset, end := range map[intent.AssetID]time.Duration{"a": time.Hour, "b": 0, "c": 100 * time.Hour, "d": -time.Hour} {
		hold := intent.Hold{Asset: asset, Owner: bob, Reason: "racks", Created: noon, Until: noon.Add(end)}
		if end == 0 {
			hold.Until = time.Time{}
		}
		w.must(w.SetHold(ctx, shop, hold))
	}
	for _, name := range []string{"promote", "drain"} {
		_, err := w.StartWorkflow(ctx, workflowRun(name), workflowEvents(intent.WorkflowStarted), intent.Operator)
		w.must(err)
	}
	for _, rank := range []intent.Rank{intent.RankPerson, intent.RankRollout} {
		_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(1), Rank: rank, Holder: alice, Reason: "trial", Created: noon, Until: noon.Add(time.Hour)})
		w.must(err)
	}
	for _, id := range []intent.PartitionID{theatre, "gone", "new"} {
		lease := w.register(id)
		if id == "new" {
			continue
		}
		w.must(w.Stage(ctx, lease, intent.IncarnationID{Partition: id}, []store.Entry{entryWith("web/cart", string(id), "Job.name", "till")}))
		_, err := w.Publish(ctx, lease, intent.Incarnation{
			ID: intent.IncarnationID{Partition: id, Sequence: 1}, Parent: intent.IncarnationID{Partition: id}, Created: noon, Author: alice, Added: 1, Count: 1,
			Sources: []intent.SourceRevision{{Source: "git", Revision: "feedbeef", Commit: intent.Commit{Subject: "Carts are Quicker", Author: "carol"}}},
		})
		w.must(err)
		w.must(w.SetHold(ctx, id, intent.Hold{Asset: "web/cart", Owner: bob, Reason: "racks", Created: noon, Until: noon.Add(time.Hour)}))
	}
	w.must(w.RemovePartition(ctx, "gone", "a try", alice))
	w.must(w.SetStop(ctx, intent.Stop{Partition: theatre, Owner: bob, Reason: "fire", Since: noon}))
	return w
}

// surveyedStandings: the survey says of each partition what is said of it alone.
func surveyedStandings(w *world) {
	t, ctx := w.t, w.t.Context()
	partitions, err := w.ListPartitions(ctx)
	w.must(err)
	var want []store.Standing
	for _, p := range partitions {
		standing := store.Standing{Partition: p}
		standing.Reports, err = w.CountReports(ctx, p.ID)
		w.must(err)
		standing.Orphans, err = w.OrphanCount(ctx, p.ID)
		w.must(err)
		if !p.Head.IsZero() {
			incarnation, err := w.Incarnation(ctx, p.Head)
			w.must(err)
			standing.Count = incarnation.Count
		}
		want = append(want, standing)
	}
	got, err := w.SurveyStandings(ctx)
	w.must(err)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Errorf("of %d partitions the survey says otherwise:\n%s", len(got), diff)
	}
	contents, err := w.HeadContents(ctx, "web/cart")
	w.must(err)
	_, body, err := w.Content(ctx, intent.IncarnationID{Partition: theatre, Sequence: 1}, "web/cart")
	w.must(err)
	if diff := cmp.Diff(map[intent.PartitionID]store.HeadContent{theatre: {Head: intent.IncarnationID{Partition: theatre, Sequence: 1}, Body: body}}, contents); diff != "" {
		t.Errorf("the contents of heads are:\n%s", diff)
	}
}

func surveyedMatters(w *world) {
	t, ctx := w.t, w.t.Context()
	describeMatters := func(filter store.MattersFilter) string {
		found, err := w.SurveyMatters(ctx, filter)
		w.must(err)
		var lines []string
		for _, id := range []intent.PartitionID{shop, theatre, "gone", "new"} {
			m := found[id]
			if m == nil {
				continue
			}
			line := string(id) + ":"
			for _, report := range m.Asking {
				line += " asks " + string(report.Asset)
			}
			for _, run := range m.Runs {
				line += fmt.Sprintf(" run %s#%d", run.Workflow, run.Number)
			}
			for _, hold := range m.Holds {
				line += " hold " + string(hold.Asset)
			}
			for _, pin := range m.Pins {
				line += fmt.Sprintf(" pin %s to %s", pin.Asset, pin.Incarnation)
			}
			for _, incarnation := range m.Incarnations {
				line += " " + incarnation.ID.String()
			}
			if m.More {
				line += " more"
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	filter := store.MattersFilter{EndsAfter: noon, EndsBefore: noon.Add(24 * time.Hour), Limit: 10}
	if got := describeMatters(filter); got != "shop: asks a run drain#2 run promote#1 hold a pin a to shop@1\ntheatre: hold web/cart" {
		t.Errorf("what matters is\n%s", got)
	}
	filter.EndsBefore, filter.Limit = noon.Add(200*time.Hour), 1
	if got := describeMatters(filter); got != "shop: asks a run drain#2 hold a pin a to shop@1 more\ntheatre: hold web/cart" {
		t.Errorf("one of each is\n%s", got)
	}
	filter.Since, filter.Events = time.Unix(0, 0), 1
	filter.EndsBefore = noon
	if got := describeMatters(filter); got != "shop: asks a run drain#2 shop@2 more\ntheatre: theatre@1" {
		t.Errorf("the newest is\n%s", got)
	}
}

// surveyedService: of assets, only those of the service matter, and its partitions are those that count some.
func surveyedService(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(member("a", "till", "eu"), member("b", "cart", ""), member("d", "till", ""), member("e", "till", "eu"), member("f", "cart", ""), member("g", "till", "eu"))
	head := w.partition(shop).Head
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{
		{Asset: "a", State: intent.StateWaiting, Target: head, Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval}}},
		{Asset: "b", State: intent.StateWaiting, Target: head, Waiting: []intent.WaitingOn{{Kind: intent.WaitRejected}}},
		{Asset: "d", State: intent.StateInSync, Target: head},
		{Asset: "e", State: intent.StateInSync, Target: head},
		{Asset: "f", State: intent.StateInSync, Target: head},
		{Asset: "g", State: intent.StatePushing, Target: head},
	}))
	_, err := w.SetPin(ctx, intent.Pin{Asset: "b", Incarnation: head, Rank: intent.RankPerson, Holder: alice, Reason: "trial", Created: noon, Until: noon.Add(time.Hour)})
	w.must(err)
	for _, asset := range []string{"e", "f", "g"} {
		w.admitted(w.admission("p/"+asset, asset, head))
		w.closePush("p/"+asset, "pushed")
	}
	filter := store.MattersFilter{EndsAfter: noon.Add(-24 * time.Hour), EndsBefore: noon.Add(24 * time.Hour), Since: time.Unix(0, 0), Events: 10, Limit: 10, Service: "till"}
	found, err := w.SurveyMatters(ctx, filter)
	w.must(err)
	m := found[shop]
	if m == nil {
		t.Fatal("nothing is told of the partition that the service is in")
	}
	if diff := cmp.Diff(map[intent.State]int{intent.StateWaiting: 1, intent.StateInSync: 2, intent.StatePushing: 1}, m.States); diff != "" || found[theatre] != nil && found[theatre].States != nil {
		t.Errorf("assets of the service: %s", diff)
	}
	told := ""
	for _, report := range m.Asking {
		told += " asks " + string(report.Asset)
	}
	for _, hold := range m.Holds {
		told += " hold " + string(hold.Asset)
	}
	for _, pin := range m.Pins {
		told += " pin " + string(pin.Asset)
	}
	for _, push := range m.Pushes {
		told += " push " + string(push.Asset)
	}
	if told != " asks a hold a hold d pin a push g push e" {
		t.Errorf("of the service it tells%s", told)
	}
	filter.Events = 1
	found, err = w.SurveyMatters(ctx, filter)
	w.must(err)
	if pushes := found[shop].Pushes; len(pushes) != 1 || pushes[0].Asset != "g" {
		t.Errorf("the newest push of the service is %v", pushes)
	}
	filter.Service = "carts"
	found, err = w.SurveyMatters(ctx, filter)
	w.must(err)
	for id, m := range found {
		if m.States != nil || len(m.Asking)+len(m.Holds)+len(m.Pins)+len(m.Pushes) > 0 {
			t.Errorf("a service that is nowhere has something in %s: %+v", id, m)
		}
	}
}

func surveyedSearch(w *world) {
	t, ctx := w.t, w.t.Context()
	describeHits := func(partition intent.PartitionID, fragment string) string {
		filter := store.SearchFilter{Partition: partition, Fragment: fragment}
		var found []string
		assets := 0
		foundAssets, err := w.SearchAssets(ctx, filter, func(intent.PartitionID, intent.AssetID) (taken, more bool) {
			assets++
			return true, assets < 2
		})
		w.must(err)
		for _, a := range foundAssets {
			found = append(found, fmt.Sprintf("%s/%s=%s", a.Partition, a.Asset, a.State))
		}
		w.must(w.SearchIncarnations(ctx, filter, 10, func(i intent.Incarnation) {
			found = append(found, fmt.Sprintf("%s%v", i.ID, i.Labels))
		}))
		w.must(w.SearchWorkflowRuns(ctx, filter, 10, func(run intent.WorkflowRun) {
			found = append(found, fmt.Sprintf("%s run %s#%d", run.Partition, run.Workflow, run.Number))
		}))
		w.must(w.SearchBrakes(ctx, filter, func(id intent.PartitionID, hold intent.Hold) {
			found = append(found, fmt.Sprintf("%s held %s/%s", hold.Owner.Name, id, hold.Asset))
		}, func(pin intent.Pin) {
			found = append(found, fmt.Sprintf("%s pinned %s", pin.Holder.Name, pin.Asset))
		}))
		return strings.Join(found, ", ")
	}
	for _, c := range []struct {
		partition      intent.PartitionID
		fragment, want string
	}{
		{"", "web", "shop/web/till=in-sync, theatre/web/cart=, shop@2map[release:spring], shop run drain#2, shop run promote#1"},
		{theatre, "b", "theatre/web/cart=, theatre@1map[], bob held theatre/web/cart"},
		{"", "quicker", "shop@2map[release:spring], theatre@1map[]"},
		{shop, "alic", "shop@2map[release:spring], shop@1map[], shop run drain#2, shop run promote#1, alice pinned a"},
		{"", "w_b", "shop@2map[release:spring]"},
		{"", "%", "shop@2map[release:spring]"},
	} {
		if got := describeHits(c.partition, c.fragment); got != c.want {
			t.Errorf("%q in %q is found as\n%s\nwant\n%s", c.fragment, c.partition, got, c.want)
		}
	}
}

// surveyedFields: assets are found by a value of an indexed field, in the heads of registered partitions alone.
func surveyedFields(w *world) {
	find := func(most int, filter store.FieldFilter) string {
		var found []string
		w.must(w.SearchFields(w.t.Context(), filter, func(id intent.PartitionID, asset intent.AssetID, state intent.State, fields map[string]string) bool {
			found = append(found, fmt.Sprintf("%s/%s=%s%v", id, asset, state, fields))
			return len(found) < most
		}))
		return strings.Join(found, ", ")
	}
	till := store.FieldFilter{Type: job, Path: "Job.name", Value: "till"}
	inShop, otherType, otherValue := till, till, till
	inShop.Partition, otherType.Type, otherValue.Value = shop, "test.Other", "cart"
	first, both := "shop/web/till=in-syncmap[Job.name:till Job.zone:eu]", "shop/web/till=in-syncmap[Job.name:till Job.zone:eu], theatre/web/cart=map[Job.name:till]"
	for _, c := range []struct {
		most   int
		filter store.FieldFilter
		want   string
	}{{9, till, both}, {1, till, first}, {9, inShop, first}, {9, otherType, ""}, {9, otherValue, ""}} {
		if got := find(c.most, c.filter); got != c.want {
			w.t.Errorf("%+v finds\n%s\nwant\n%s", c.filter, got, c.want)
		}
	}
}
