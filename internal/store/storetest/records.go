package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testReports(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	_, err := w.Report(ctx, shop, "a")
	w.refused(err, fault.NotFound)
	full := intent.Report{
		Partition: shop, Asset: "a", Type: job, At: noon, State: intent.StateWaiting, Target: at(3), Effective: digestOf("x"),
		Pinned: "alice: trial", Plan: intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "spec.n", Current: "1", Target: "2"}}},
		PlanDigest: digestOf("plan"), ResourceKey: "k", Health: intent.Health{State: intent.Unhealthy, Reason: "no answer"},
		Waiting: []intent.WaitingOn{{Kind: intent.WaitOrder, Reason: "b first", Blockers: []intent.AssetID{"b"}, Until: noon.Add(time.Hour)}},
		Next:    noon.Add(time.Minute),
	}
	reports := []intent.Report{full}
	for i := range 1200 {
		reports = append(reports, intent.Report{Asset: intent.AssetID(fmt.Sprintf("b/%04d", i)), State: intent.StateInSync, At: noon})
	}
	w.must(w.SaveReports(ctx, w.lease, reports))
	read, err := w.Report(ctx, shop, "a")
	w.must(err)
	if diff := cmp.Diff(full, read); diff != "" {
		t.Errorf("a report reads differently:\n%s", diff)
	}
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "b/0007", State: intent.StatePushing, At: noon}}))
	counts, err := w.CountReports(ctx, shop)
	w.must(err)
	want := map[intent.State]int{intent.StateWaiting: 1, intent.StateInSync: 1199, intent.StatePushing: 1}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts:\n%s", diff)
	}
	for _, c := range []struct {
		filter      store.ReportFilter
		count       int
		first, last intent.AssetID
	}{
		{store.ReportFilter{}, 1000, "a", "b/0998"},
		{store.ReportFilter{After: "b/0998"}, 201, "b/0999", "b/1199"},
		{store.ReportFilter{State: intent.StatePushing}, 1, "b/0007", "b/0007"},
		{store.ReportFilter{State: intent.StateInSync, After: "b/0005", Limit: 2}, 2, "b/0006", "b/0008"},
		{store.ReportFilter{Prefix: "b/00", Limit: 3}, 3, "b/0000", "b/0002"},
		{store.ReportFilter{Prefix: "b/11", State: intent.StateInSync}, 100, "b/1100", "b/1199"},
	} {
		page, err := w.ListReports(ctx, shop, c.filter)
		w.must(err)
		if len(page) != c.count || page[0].Asset != c.first || page[len(page)-1].Asset != c.last {
			t.Errorf("%+v: %d reports, want %d from %s to %s", c.filter, len(page), c.count, c.first, c.last)
		}
	}
	ill := func(id intent.AssetID, state intent.State) intent.Report {
		return intent.Report{Asset: id, State: state, At: noon, Health: intent.Health{State: intent.Unhealthy}}
	}
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{ill("b/0100", intent.StateInSync), ill("b/0200", intent.StateInSync), ill("b/0300", intent.StatePushing), ill("b/0400", intent.StateInSync)}))
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "b/0400", State: intent.StateInSync, At: noon}})) // It is well again.
	page, err := w.ListReports(ctx, shop, store.ReportFilter{Unhealthy: true, After: "b/0100"})
	w.must(err)
	if len(page) != 1 || page[0].Asset != "b/0200" {
		t.Errorf("unhealthy in sync: %+v", page)
	}
	none, err := w.ListReports(ctx, theatre, store.ReportFilter{})
	w.must(err)
	if len(none) != 0 {
		t.Errorf("another partition lists %d reports", len(none))
	}
}

// testReportCounts: how many reports of each state there are is what counting them gives, whatever was
// written, twice in one call too, refused and removed.
func testReportCounts(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a000", "x"), entry("a001", "x"))
	random := rand.New(rand.NewPCG(1, 2))
	states := []intent.State{intent.StateInSync, intent.StateWaiting, intent.StatePushing, intent.StateOff}
	check := func(after string) {
		t.Helper()
		reports, err := w.ListReports(ctx, shop, store.ReportFilter{Limit: 10_000})
		w.must(err)
		want := map[intent.State]int{}
		for _, report := range reports {
			want[report.State]++
		}
		got, err := w.CountReports(ctx, shop)
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("counts after %s:\n%s", after, diff)
		}
		standings, err := w.SurveyStandings(ctx)
		w.must(err)
		for _, standing := range standings {
			if standing.ID == shop && !maps.Equal(standing.Reports, want) {
				t.Errorf("the survey counts %v after %s, want %v", standing.Reports, after, want)
			}
		}
	}
	write := func(lease store.Lease, count int) error {
		var reports []intent.Report
		for range count {
			reports = append(reports, intent.Report{Asset: intent.AssetID(fmt.Sprintf("a%03d", random.IntN(300))), State: states[random.IntN(len(states))], At: noon})
		}
		return w.SaveReports(ctx, lease, reports)
	}
	for _, count := range []int{1, 40, 0, 700, 300} {
		w.must(write(w.lease, count))
		check(fmt.Sprint(count, " reports"))
	}
	stale := w.lease
	stale.Epoch--
	if err := write(stale, 50); err == nil {
		t.Error("a stale lease writes reports")
	}
	check("a write that was refused")
	before, err := w.ListReports(ctx, shop, store.ReportFilter{Limit: 10_000})
	w.must(err)
	for range 10 {
		_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: time.Hour}, noon.Add(time.Hour))
		w.must(err)
	}
	left, err := w.ListReports(ctx, shop, store.ReportFilter{Limit: 10_000})
	w.must(err)
	if len(before) < 200 || len(left) != 2 {
		t.Errorf("of %d reports %d are left, want those of the two assets", len(before), len(left))
	}
	check("a collection")
}

func testAudit(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	_, err := w.SetPin(ctx, intent.Pin{Asset: "b", Incarnation: at(1), Rank: intent.RankPerson, Holder: bob, Reason: "because"})
	w.must(err)
	w.must(w.Unpin(ctx, shop, "b", intent.RankPerson, "a try", alice))
	w.must(w.SetHold(ctx, shop, intent.Hold{Asset: "b", Owner: bob, Reason: "looking"}))
	w.must(w.Unhold(ctx, shop, "b", "a try", bob))
	w.must(w.Approve(ctx, intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: alice, Reason: "fine"}))
	heldCandidate := candidate("one", intent.CandidateHeld)
	w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, nil))
	w.must(w.Acknowledge(ctx, heldCandidate.ID, "meant", alice))
	w.must(w.SetStop(ctx, intent.Stop{Partition: shop, Owner: bob, Reason: "fire"}))
	w.must(w.Resume(ctx, shop, "out", alice))
	w.must(w.SetStop(ctx, intent.Stop{Owner: bob, Reason: "flood"}))
	w.must(w.Resume(ctx, "", "dry", alice))
	w.admitted(w.admission("p1", "a", at(1)))
	w.waits(w.admission("p2", "a", at(1)), intent.WaitTurn) // refusals leave no record
	w.closePush("p1", store.EndingInDoubt)
	w.closePush("p1", "settled")
	w.must(w.RemovePartition(ctx, shop, "a try", bob))

	verbs := func(records []intent.AuditRecord) string {
		var verbs []string
		for i, r := range records {
			if r.Number != uint64(i)+1 || r.At.IsZero() || r.By.Name == "" {
				t.Errorf("record %d is %+v", i+1, r)
			}
			verbs = append(verbs, r.Verb+":"+r.By.Name)
		}
		return strings.Join(verbs, " ")
	}
	records, err := w.AuditRecords(ctx, shop, 0, 0)
	w.must(err)
	want := "add-partition:alice acquire:server-1 publish:alice pin:bob unpin:alice hold:bob unhold:bob approve:alice " +
		"save-candidate:server-1 acknowledge:alice stop:bob resume:alice admit:server-1 doubt:server-1 close:server-1 remove-partition:bob"
	if got := verbs(records); got != want {
		t.Errorf("the partition's records are\n%s, want\n%s", got, want)
	}
	admitted := records[slices.IndexFunc(records, func(r intent.AuditRecord) bool { return r.Verb == "admit" })]
	if admitted.Subject != "a" || !strings.Contains(admitted.Detail, "p1") || !strings.Contains(admitted.Detail, "order") {
		t.Errorf("the admission's record names no push or no checks: %+v", admitted)
	}
	global, err := w.AuditRecords(ctx, "", 0, 0)
	w.must(err)
	if got := verbs(global); got != "stop:bob resume:alice" {
		t.Errorf("the global records are %s", got)
	}
	page, err := w.AuditRecords(ctx, shop, 3, 2)
	w.must(err)
	if diff := cmp.Diff(records[3:5], page); diff != "" {
		t.Errorf("a page of two after the third:\n%s", diff)
	}
	for _, partition := range []intent.PartitionID{shop, "", theatre} {
		w.must(w.VerifyAudit(ctx, partition))
	}
}

// testCandidatesKeepTheirBase: whatever became of a candidate, what it changes can be read
// for as long as it is kept.
func testCandidatesKeepTheirBase(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	for i := range 6 {
		w.publish(entry("a", fmt.Sprint("a", i+1)))
	}
	for sequence, state := range map[int]intent.CandidateState{2: intent.CandidateRejected, 3: intent.CandidateSuperseded} {
		c := candidate(string(state), intent.CandidateHeld)
		c.Base, c.State = at(sequence), state
		w.must(w.SaveCandidate(ctx, w.lease, c, []store.Entry{entry("a", string(state))}))
	}
	keep := store.Retention{Incarnations: 1, Period: time.Hour, History: 100 * 365 * 24 * time.Hour}
	later := time.Now().AddDate(1, 0, 0)
	kept := func() (kept []int) {
		_, err := w.Collect(ctx, w.lease, keep, later)
		w.must(err)
		list, err := w.Incarnations(ctx, shop, 0, 0)
		w.must(err)
		for _, incarnation := range list {
			kept = append(kept, int(incarnation.ID.Sequence))
		}
		return kept
	}
	if got := kept(); !slices.Equal(got, []int{6, 3, 2}) {
		t.Errorf("kept %v, want head and what the candidates change", got)
	}
	keep.History = time.Hour
	if got := kept(); !slices.Equal(got, []int{6}) {
		t.Errorf("kept %v without the candidates", got)
	}
}

func testCollector(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	for i := range 8 { // 1 to 8
		w.publish(entry("a", fmt.Sprint("a", i+1)), entry("b", "same"), entry(fmt.Sprintf("only/%d", i+1), "x"), removal(fmt.Sprintf("only/%d", i)))
	}
	_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(2), Rank: intent.RankRollout, Holder: bob, Until: noon.Add(-time.Hour)})
	w.must(err)
	_, err = w.SaveEnforced(ctx, w.lease, []store.Enforced{{Asset: "b", Type: job, Effective: digestOf("same"), Incarnation: at(3), At: noon}})
	w.must(err)
	w.admitted(w.admission("open", "a", at(4)))
	w.admitted(w.admission("ended", "b", at(1)))
	w.closePush("ended", "pushed")
	heldCandidate := candidate("held", intent.CandidateHeld)
	heldCandidate.Base = at(5)
	rejected := candidate("rejected", intent.CandidateRejected)
	w.must(w.SaveCandidate(ctx, w.lease, rejected, []store.Entry{entry("a", "rejected")}))
	w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, []store.Entry{entry("a", "held")}))
	w.must(w.SaveReports(ctx, w.lease, []intent.Report{{Asset: "a", State: intent.StateInSync}, {Asset: "only/1", State: intent.StateInSync}}))
	w.must(w.Stage(ctx, w.lease, at(8), []store.Entry{entry("staged", "staged"), removal("b")}))
	previous := map[int]map[intent.AssetID]string{}
	for _, sequence := range []int{2, 3, 4, 5, 7, 8} {
		previous[sequence] = content(t, w, at(sequence))
	}

	// Young ones stay, then those among the newest.
	removed, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, Period: 24 * time.Hour, History: 100 * 365 * 24 * time.Hour}, noon.Add(time.Hour))
	w.must(err)
	if removed != 1 { // the report of an asset that is gone
		t.Errorf("collecting within the period removed %d rows", removed)
	}
	later := time.Now().AddDate(1, 0, 0) // candidates are dated by the engine's clock
	removed, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 2, Period: time.Hour, History: time.Hour}, later)
	w.must(err)
	if removed == 0 {
		t.Error("nothing was collected")
	}
	list, err := w.Incarnations(ctx, shop, 0, 0)
	w.must(err)
	var retained []int
	for _, incarnation := range list {
		retained = append(retained, int(incarnation.ID.Sequence))
	}
	if !slices.Equal(retained, []int{8, 7, 5, 4, 3, 2}) {
		t.Errorf("kept %v: head, the newest two, and what pin, enforced record, open push and held candidate name", retained)
	}
	for sequence, want := range previous {
		if diff := cmp.Diff(want, content(t, w, at(sequence))); diff != "" {
			t.Errorf("%d changed:\n%s", sequence, diff)
		}
	}
	for _, gone := range []string{"a1", "a6", "rejected"} {
		_, err := w.Body(ctx, digestOf(gone))
		w.refused(err, fault.NotFound)
	}
	_, err = w.CandidateDelta(ctx, heldCandidate.ID)
	w.must(err)
	_, err = w.Candidate(ctx, shop, rejected.ID.Digest.String())
	w.refused(err, fault.NotFound)
	pushes, err := w.Pushes(ctx, shop, "", 0)
	w.must(err)
	if len(pushes) != 1 || pushes[0].Push != "open" {
		t.Errorf("pushes left: %+v", pushes)
	}
	_, err = w.Report(ctx, shop, "a")
	w.must(err)

	// What is staged was left alone.
	_, err = w.Publish(ctx, w.lease, w.next())
	w.must(err)
	if got := content(t, w, at(9)); got["staged"] != "staged" || got["b"] != "" {
		t.Errorf("after publishing what was staged: %v", got)
	}
	w.must(w.VerifyAudit(ctx, shop))
	removed, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 9, Period: time.Hour, History: time.Hour}, later)
	w.must(err)
	if removed != 0 {
		t.Errorf("collecting again removed %d rows", removed)
	}
}

// testCollectorKeepsThePeriodsHead: an old incarnation that was head until a
// moment ago is what the guards of the period measure from (S23).
func testCollectorKeepsThePeriodsHead(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	long := noon.AddDate(0, 0, -30)
	for i, created := range []time.Time{long.Add(-time.Hour), long, noon.Add(-2 * time.Minute), noon.Add(-time.Minute)} {
		w.must(w.Stage(ctx, w.lease, at(i), []store.Entry{entry("a", fmt.Sprint(i))}))
		next := w.next()
		next.Created = created
		_, err := w.Publish(ctx, w.lease, next)
		w.must(err)
	}
	_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, Period: 24 * time.Hour}, noon)
	w.must(err)
	list, err := w.Incarnations(ctx, shop, 0, 0)
	w.must(err)
	var retained []intent.Sequence
	for _, incarnation := range list {
		retained = append(retained, incarnation.ID.Sequence)
	}
	if !slices.Equal(retained, []intent.Sequence{4, 3, 2}) {
		t.Errorf("kept %v, want the head of a day ago and all since", retained)
	}
}

func testChanged(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	w.publish(entry("a", "x"), entry("old", "x"))
	w.enforced("old", "k")
	w.publish(removal("old"))
	heldCandidate := candidate("held", intent.CandidateHeld)
	w.must(w.SaveCandidate(ctx, w.lease, heldCandidate, nil))
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"head", func() error { w.publish(entry("a", "y")); return nil }},
		{"pin", func() error {
			_, err := w.SetPin(ctx, intent.Pin{Asset: "a", Incarnation: at(1), Rank: intent.RankPerson, Holder: bob})
			return err
		}},
		{"unpin", func() error { return w.Unpin(ctx, shop, "a", intent.RankPerson, "a try", bob) }},
		{"hold", func() error { return w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob}) }},
		{"unhold", func() error { return w.Unhold(ctx, shop, "a", "a try", bob) }},
		{"approval", func() error {
			return w.Approve(ctx, intent.Approval{Partition: shop, Asset: "a", Effective: digestOf("x"), Plan: digestOf("p"), By: bob})
		}},
		{"stop", func() error { return w.SetStop(ctx, intent.Stop{Owner: bob}) }},
		{"resume", func() error { return w.Resume(ctx, "", "", bob) }},
		{"acknowledgement", func() error { return w.Acknowledge(ctx, heldCandidate.ID, "", bob) }},
		{"label", func() error { return w.SetLabel(ctx, at(1), "release", "r1", "a try", bob) }},
		{"disowning", func() error { return w.Disown(ctx, shop, "old", "gone", bob) }},
		{"hint", func() error {
			hintsBefore, err := w.Hints(ctx, shop)
			w.must(err)
			w.must(w.Hint(ctx, shop))
			hintsAfter, err := w.Hints(ctx, shop)
			if hintsAfter != hintsBefore+1 {
				t.Errorf("after a hint there are %d, before it %d", hintsAfter, hintsBefore)
			}
			w.refused(w.Hint(ctx, "other"), fault.NotFound)
			return err
		}},
		{"definition", func() error { return w.AddPartition(ctx, shop, "/srv/moved.yaml", "a try", bob) }},
		{"removal", func() error { return w.RemovePartition(ctx, shop, "a try", bob) }},
	} {
		first, second, other := w.Changed(""), w.Changed(shop), w.Changed("other")
		select {
		case <-first:
			t.Fatalf("before the %s: changed already", act.name)
		default:
		}
		w.must(act.do())
		for _, listener := range []<-chan struct{}{first, second} {
			select {
			case <-listener:
			case <-time.After(10 * time.Second):
				t.Errorf("a %s was not announced", act.name)
			}
		}
		select {
		case <-other:
			if ofAll := act.name == "stop" || act.name == "resume"; !ofAll {
				t.Errorf("the %s was announced to another partition", act.name)
			}
		default:
		}
	}
}
