package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// reportAt stores a report of a given time.
func (w *world) reportAt(at time.Time, r intent.Report) {
	w.Helper()
	r.Partition, r.At = "shop", at
	w.must(w.store.SaveReports(w.Context(), w.lease, []intent.Report{r}))
}

// push admits a push at one time and ends it at another.
func (w *world) push(id string, asset intent.AssetID, target intent.IncarnationID, admitted, ended time.Time, ending string) {
	w.Helper()
	p, err := w.store.Partition(w.Context(), "shop")
	w.must(err)
	refused, err := w.store.Admit(w.Context(), w.lease, []store.Admission{{
		Push: intent.PushID(id), Asset: asset, Target: target, Revision: p.Revision, ResourceKey: intent.ResourceKey("k/" + asset), At: admitted,
	}})
	w.must(err)
	if refused[0] != nil {
		w.Fatal(refused[0].Waiting)
	}
	w.must(w.store.ClosePushes(w.Context(), w.lease, []store.Closing{{Push: intent.PushID(id), Ending: ending, At: ended}}))
}

func waitsFor(asset intent.AssetID, kind intent.WaitingKind, reason string, blockers ...intent.AssetID) intent.Report {
	return intent.Report{Asset: asset, State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: kind, Reason: reason, Blockers: blockers}}}
}

// TestWhyOfThePast: each moment is answered by what was reported then, across assets,
// also where nothing was in the way and only the journal tells.
func TestWhyOfThePast(t *testing.T) {
	w := newWorld(t)
	first := w.publish(0, w.command("db", "x"), w.command("web", "y", "db"), w.command("calm", "z"))
	began := time.Now()
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w.reportAt(after(10), waitsFor("web", intent.WaitOrder, "db first", "db"))
	w.reportAt(after(10), waitsFor("db", intent.WaitApproval, "needs a person"))
	held := waitsFor("db", intent.WaitHold, "ann holds it")
	held.Pinned = "pinned to shop@1 by ann: a try"
	w.reportAt(after(20), held)
	w.reportAt(after(30), intent.Report{Asset: "db", State: intent.StateInSync})
	w.push("p1", "web", first.ID, after(40), after(50), "pushed")
	w.reportAt(after(60), intent.Report{Asset: "web", State: intent.StateInSync, Target: first.ID})
	w.push("p2", "calm", first.ID, after(20), after(40), "pushed")
	w.reportAt(after(100), waitsFor("calm", intent.WaitBackoff, "it failed"))
	for time.Now().Before(after(120)) { // The store dates a stop by the clock: it is to come after what was reported.
		time.Sleep(time.Millisecond)
	}
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: "shop", Owner: ann, Reason: "fire"}))
	stopped := time.Now()
	w.must(w.store.Resume(t.Context(), "shop", "out", ann))

	for _, c := range []struct {
		asset       string
		at          time.Time
		state, says string
	}{
		{"web", after(15), "waiting", "web waits for db: needs a person"},
		{"web", after(25), "waiting", "web waits for db: ann holds it"},
		{"db", after(25), "waiting", "ann holds it"},
		{"web", after(45), "pushing", "a push is under way"},
		{"web", after(55), "in-sync", "production is as shop@1 says"},
		{"web", after(70), "in-sync", "production is as shop@1 says"},
		{"calm", after(10), "", "nothing that was in its way is kept of then"},
		{"calm", after(30), "pushing", "a push is under way"},
		{"calm", after(90), "in-sync", "production is as shop@1 says"},
		{"calm", after(110), "waiting", "it failed"},
		{"web", stopped, "in-sync", "stopped by " + ann.Name},
	} {
		why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: c.asset, At: timestamppb.New(c.at)})
		w.must(err)
		if why.State != c.state || !strings.Contains(why.Summary, c.says) || why.Hint != "" || len(why.Unknown) == 0 {
			t.Errorf("%s after %s: %q %q, want %q %q; hint %q, unknown %q", c.asset, c.at.Sub(began), why.State, why.Summary, c.state, c.says, why.Hint, why.Unknown)
		}
	}
	why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "db", At: timestamppb.New(after(25))})
	w.must(err)
	if !slices.ContainsFunc(why.Reasons, func(r *apipb.Reason) bool { return r.Kind == "pin" && strings.Contains(r.Text, "a try") }) {
		t.Errorf("the pin of then is not told: %v", why.Reasons)
	}
	_, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "db", At: timestamppb.New(time.Now().Add(time.Hour))})
	w.refused(err, fault.Invalid, "name a time that is over")
	_, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "dbb", At: timestamppb.New(after(25))})
	w.refused(err, fault.NotFound, "did you mean db?")
	_, err = w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "db", At: timestamppb.New(began.Add(-time.Hour))})
	w.refused(err, fault.NotFound, "")
}

// TestWhyOfThePastOfMany: a group and the partition of then are answered by the causes of
// then, and what nothing is kept of is not told to be well.
func TestWhyOfThePastOfMany(t *testing.T) {
	w := newWorld(t)
	in := func(asset intent.Asset, service, instance string) intent.Asset {
		return w.with(asset, &intentpb.Group{Service: service, Instance: instance})
	}
	first := w.publish(0,
		in(w.command("db", "x"), "data", ""), in(w.command("web/a", "y", "db"), "web", "a"), in(w.command("web/b", "y", "db"), "web", "b"),
		in(w.command("calm", "z"), "data", ""),
	)
	began := time.Now()
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w.reportAt(after(10), waitsFor("web/a", intent.WaitOrder, "db first", "db"))
	w.reportAt(after(10), waitsFor("web/b", intent.WaitOrder, "db first", "db"))
	w.reportAt(after(10), waitsFor("db", intent.WaitHold, "ann holds it"))
	w.reportAt(after(30), intent.Report{Asset: "db", State: intent.StateInSync})
	w.push("p1", "web/a", first.ID, after(40), after(50), "pushed")
	w.reportAt(after(60), intent.Report{Asset: "web/a", State: intent.StateInSync})
	w.reportAt(after(60), waitsFor("web/b", intent.WaitBackoff, "push 1 failed"))
	w.reportAt(after(80), waitsFor("calm", intent.WaitDenied, "it is denied"))
	for time.Now().Before(after(90)) {
		time.Sleep(time.Millisecond)
	}
	// Since then web/b left the group, and web/a left intent.
	w.publish(first.ID.Sequence, in(w.command("db", "x"), "data", ""), in(w.command("web/b", "y", "db"), "mail", ""))
	for _, c := range []struct {
		name, as      string
		at            int
		subject, says string
		waiting       int64
		causes        int
		unknown       string
	}{
		{"web", "", 15, "group", "web: 2 of 2 wait: db: ann holds it (2 wait for that)", 2, 1, ""},
		{"web/b", "group", 15, "group", "web/b: 1 of 1 wait: db: ann holds it", 1, 1, ""},
		{"web", "", 55, "group", "web: 1 of 2 wait: web/b: db first", 1, 1, ""},
		{"web", "", 70, "group", "web: 1 of 2 wait: web/b: push 1 failed", 1, 1, ""},
		{"web", "", 5, "group", "web: nothing that was in the way of 2 assets is kept of then", 0, 0, "how the other 2 were"},
		{"", "", 15, "partition", "partition shop: 3 of 4 wait: db: ann holds it", 3, 1, "how the other 1 were"},
		{"shop", "", 70, "partition", "partition shop: 1 of 4 wait: web/b: push 1 failed", 1, 1, "how the other"},
		{"web", "partition", 85, "partition", "partition shop: 2 of 4 wait", 2, 2, ""},
	} {
		why, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: c.name, Subject: c.as, At: timestamppb.New(after(c.at))})
		w.must(err)
		if why.Subject != c.subject || !strings.HasPrefix(why.Summary, c.says) || why.States["waiting"] != c.waiting || len(why.Causes) != c.causes || why.Hint != "" ||
			why.States["unseen"] != 0 || strings.Contains(strings.Join(why.Unknown, "; "), "how the other") != (c.unknown != "") || !strings.Contains(strings.Join(why.Unknown, "; "), c.unknown) {
			t.Errorf("%q %s after %d ms: %s %q, %v, %d causes, hint %q, not known %q", c.name, c.as, c.at, why.Subject, why.Summary, why.States, len(why.Causes), why.Hint, why.Unknown)
		}
		for _, cause := range why.Causes {
			if cause.Root.Hint != "" || cause.Root.Next != nil {
				t.Errorf("%q after %d ms: %v", c.name, c.at, cause.Root)
			}
		}
	}
	for subject, hint := range map[string]string{"group": "lehr get groups", "thing": "asset, group, partition", "": ""} {
		_, err := w.client.Reports.Why(t.Context(), &apipb.WhyRequest{Partition: "shop", Asset: "nothing", Subject: subject, At: timestamppb.New(after(15))})
		kind := fault.NotFound
		if subject == "thing" {
			kind = fault.Invalid
		}
		w.refused(err, kind, hint)
	}
}

// TestTimeline: what the parts tell is in one order, a page at a time.
func TestTimeline(t *testing.T) {
	w := newWorld(t)
	first := w.publish(0, w.command("web", "x"))
	began := time.Now()
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w.reportAt(began, waitsFor("web", intent.WaitApproval, "needs a person"))
	w.reportAt(began.Add(time.Nanosecond), waitsFor("web", intent.WaitApproval, "needs 2 persons"))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "web", Owner: ann, Reason: "looking"}))
	w.must(w.store.SetHold(t.Context(), "shop", intent.Hold{Asset: "other", Owner: ann, Reason: "looking"}))
	w.must(w.store.Unhold(t.Context(), "shop", "web", "looked", ann))
	w.push("p1", "web", first.ID, after(5000), after(5200), "failed")
	w.reportAt(after(5200), waitsFor("web", intent.WaitBackoff, "failed"))
	w.push("p2", "web", first.ID, after(6000), after(6100), "pushed")
	w.reportAt(after(6200), intent.Report{Asset: "web", State: intent.StateInSync, Target: first.ID})
	get := func(request *apipb.GetTimelineRequest) (*apipb.GetTimelineResponse, string) {
		t.Helper()
		request.Partition, request.Asset = "shop", "web"
		timeline, err := w.client.Reports.GetTimeline(t.Context(), request)
		w.must(err)
		var kinds []string
		for _, e := range timeline.Events {
			kinds = append(kinds, e.Kind)
		}
		return timeline, strings.Join(kinds, " ")
	}
	end := timestamppb.New(after(10_000))
	all, kinds := get(&apipb.GetTimelineRequest{Before: end})
	const want = "published waiting hold unhold admitted waiting failed admitted pushed in-sync"
	if kinds != want {
		t.Errorf("the timeline is %s, want %s", kinds, want)
	}
	if wait := all.Events[1]; !wait.Until.AsTime().Equal(after(5200)) || wait.Text != "approval: needs a person" {
		t.Errorf("the wait is %v", wait)
	}
	var pages []string
	for before := end; before != nil; {
		page, kinds := get(&apipb.GetTimelineRequest{Before: before, Limit: 4})
		if kinds != "" {
			pages = append([]string{kinds}, pages...)
		}
		before = page.Older
		if len(pages) > 10 {
			t.Fatal("pages without end")
		}
	}
	if got := strings.Join(pages, " "); got != want {
		t.Errorf("by pages it is %s, want %s", got, want)
	}
	_, err := w.client.Reports.GetTimeline(t.Context(), &apipb.GetTimelineRequest{Partition: "shop", Asset: "weeb"})
	w.refused(err, fault.NotFound, "did you mean web?")
}

// TestSpread: who got an incarnation, when, and what is in the way of the others.
func TestSpread(t *testing.T) {
	w := newWorld(t)
	w.publish(0, w.command("a", "1"), w.command("b", "1"), w.command("c", "1"), w.command("d", "1"))
	second := w.publish(1, w.command("a", "2"), w.command("b", "2"), w.command("c", "2"))
	at := second.Created.Add(time.Second)
	w.push("p1", "a", second.ID, at, at.Add(time.Second), "pushed")
	w.push("p2", "b", second.ID, at, at.Add(time.Second), "failed")
	third := w.publish(2, w.command("c", "3"))
	w.push("p3", "c", third.ID, at, at.Add(3*time.Second), "pushed")
	w.reportAt(at, waitsFor("b", intent.WaitBackoff, "it failed"))
	spread, err := w.client.Reports.GetSpread(t.Context(), &apipb.GetSpreadRequest{Partition: "shop", Incarnation: "shop@2"})
	w.must(err)
	if spread.Assets != 3 || spread.Arrived != 2 || !spread.First.AsTime().Equal(at.Add(time.Second)) || !spread.Last.AsTime().Equal(at.Add(3*time.Second)) || spread.Cut || spread.Next != "" {
		t.Errorf("the spread is %v", spread)
	}
	var rows []string
	for _, a := range spread.Page {
		rows = append(rows, a.Asset+" "+a.Push+" "+a.Instead+" "+a.State+" "+a.Reason)
	}
	if got := strings.Join(rows, "|"); got != "a p1   |b   waiting it failed|c p3 shop@3  " {
		t.Errorf("the rows are %q", got)
	}
	page, err := w.client.Reports.GetSpread(t.Context(), &apipb.GetSpreadRequest{Partition: "shop", Incarnation: "shop@2", Limit: 2})
	w.must(err)
	if page.Next != "b" || len(page.Page) != 2 || page.Arrived != 2 {
		t.Errorf("a page is %v", page)
	}
	page, err = w.client.Reports.GetSpread(t.Context(), &apipb.GetSpreadRequest{Partition: "shop", Incarnation: "shop@2", Limit: 2, After: "b"})
	w.must(err)
	if page.Next != "" || len(page.Page) != 1 || page.Page[0].Asset != "c" {
		t.Errorf("the last page is %v", page)
	}
	_, err = w.client.Reports.GetSpread(t.Context(), &apipb.GetSpreadRequest{Partition: "shop", Incarnation: "shop@9"})
	w.refused(err, fault.NotFound, "")
}
