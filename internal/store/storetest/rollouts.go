package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/store"
)

func testRollouts(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Govern", func(t *testing.T) { govern(newWorld(t, open)) })
	t.Run("TakenOver", func(t *testing.T) { rolloutsTakenOver(newWorld(t, open)) })
	t.Run("Newest", func(t *testing.T) { newestRollouts(newWorld(t, open)) })
	t.Run("Steps", func(t *testing.T) { rolloutSteps(newWorld(t, open)) })
	t.Run("Previews", func(t *testing.T) { previewDocuments(newWorld(t, open)) })
	t.Run("Fields", func(t *testing.T) { rolloutFields(newWorld(t, open)) })
	t.Run("Outputs", func(t *testing.T) { outputsSaved(newWorld(t, open)) })
	t.Run("Orders", func(t *testing.T) { rolloutOrders(newWorld(t, open)) })
	t.Run("Judgements", func(t *testing.T) { judgements(newWorld(t, open)) })
	t.Run("Collected", func(t *testing.T) { rolloutsCollected(newWorld(t, open)) })
}

// rolloutPins are the places of the rollouts' pins, by asset.
func (w *world) rolloutPins() map[intent.AssetID]intent.Sequence {
	w.t.Helper()
	pins, err := w.Pins(w.t.Context(), shop)
	w.must(err)
	sequences := map[intent.AssetID]intent.Sequence{}
	for _, pin := range pins {
		if pin.Rollout() == "web" {
			sequences[pin.Asset] = pin.Incarnation.Sequence
		}
	}
	return sequences
}

func (w *world) governs(assets ...intent.AssetID) {
	w.t.Helper()
	var governed []store.Governed
	for _, asset := range assets {
		governed = append(governed, store.Governed{Asset: asset, Rollout: "web"})
	}
	next := intent.IncarnationID{Partition: shop, Sequence: w.partition(shop).Head.Sequence + 1}
	w.must(w.Govern(w.t.Context(), w.lease, next, governed))
}

func govern(w *world) {
	t := w.t
	w.publish(entry("a", "1"), entry("b", "1"))
	w.enforced("a", "key-a")
	w.publish(entry("a", "2"))
	w.moves("governing", func() { w.governs("a", "b") })
	if diff := cmp.Diff(map[intent.AssetID]intent.Sequence{"a": 1, "b": 0}, w.rolloutPins()); diff != "" {
		t.Errorf("what was enforced is pinned there, and what never was nowhere:\n%s", diff)
	}
	previous := w.revision()
	w.governs("a", "b")
	if current := w.revision(); current != previous {
		t.Errorf("governing what is governed moved the revision from %d to %d", previous, current)
	}
	// What the next incarnation governs is kept for it: what head does not name yet, what
	// comes back, and what head may govern no more.
	w.governs("c")
	w.publish(removal("c"), removal("b"))
	w.moves("governing anew", func() { w.governs("a", "b") })
	pins, err := w.Pins(t.Context(), shop)
	w.must(err)
	governedSince := map[intent.AssetID]intent.Sequence{}
	for _, pin := range pins {
		governedSince[pin.Asset] = pin.Governed
	}
	if diff := cmp.Diff(map[intent.AssetID]intent.Sequence{"a": 4, "b": 4, "c": 3}, governedSince); diff != "" {
		t.Errorf("governed from:\n%s", diff)
	}
	w.refused(w.Govern(t.Context(), w.lease, at(9), []store.Governed{{Asset: "d", Rollout: "web"}}), fault.Conflict)
	w.publish(entry("b", "1"))
	// A publication pins what it governs as it becomes head, and leaves what is
	// pinned where it is; another rollout's becomes its own.
	next := w.next()
	w.must(w.Stage(t.Context(), w.lease, next.Parent, []store.Entry{entry("d", "1")}))
	next.Governed = []intent.Governed{{Asset: "a", Rollout: "other"}, {Asset: "b", Rollout: "web"}, {Asset: "d", Rollout: "web"}}
	published, err := w.Publish(t.Context(), w.lease, next)
	w.must(err)
	if diff := cmp.Diff(map[intent.AssetID]intent.Sequence{"b": 0, "c": 0, "d": 0}, w.rolloutPins()); diff != "" || len(published.Governed) > 0 {
		t.Errorf("after a publication:\n%s", diff)
	}
	pins, err = w.Pins(t.Context(), shop)
	w.must(err)
	if at := slices.IndexFunc(pins, func(p intent.Pin) bool { return p.Asset == "a" }); at < 0 || pins[at].Rollout() != "other" || pins[at].Incarnation.Sequence != 1 {
		t.Errorf("what another rollout takes over: %+v", pins)
	}
	// What is not selected cannot go on with a push.
	admission := w.admission("p1", "b", at(5))
	w.admitted(admission)
	w.refused(w.Permit(t.Context(), w.lease, "p1", noon), fault.Conflict)
}

func (w *world) run(number uint64, state intent.RolloutState, target, base int) intent.Rollout {
	return intent.Rollout{Partition: shop, Name: "web", Run: number, State: state, To: at(target), From: at(base), Began: noon, By: alice}
}

func (w *world) step(run intent.Rollout) store.RolloutStep {
	return store.RolloutStep{Revision: w.revision(), Run: run, Event: intent.RolloutEvent{By: intent.RolloutHolder("web"), Kind: "begin", Text: "to " + run.To.String()}}
}

func (w *world) runs(filter store.RolloutFilter) []intent.Rollout {
	w.t.Helper()
	runs, err := w.Rollouts(w.t.Context(), shop, filter)
	w.must(err)
	return runs
}

func rolloutSteps(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"), entry("b", "1"))
	w.publish(entry("a", "2"), removal("b"))
	w.governs("a")
	holder := intent.RolloutHolder("web")

	step := w.step(w.run(1, intent.RolloutRunning, 2, 1))
	step.Pins = []intent.Pin{{Asset: "a", Incarnation: at(2), Rank: intent.RankRollout, Holder: holder, Reason: "canary"}}
	observation := intent.Observation{Rollout: "web", Asset: "a", Effective: digestOf("2"), Selected: noon, Healthy: time.Minute}
	step.Observed = []intent.Observation{observation}
	w.moves("a step that pins", func() { w.must(w.SaveRollout(ctx, w.lease, step)) })
	if diff := cmp.Diff(map[intent.AssetID]intent.Sequence{"a": 2}, w.rolloutPins()); diff != "" {
		t.Errorf("after the step:\n%s", diff)
	}
	// What it rested on has moved: nothing of it is done.
	again := step
	again.Run.State = intent.RolloutDone
	w.refused(w.SaveRollout(ctx, w.lease, again), fault.Conflict)
	if runs := w.runs(store.RolloutFilter{}); len(runs) != 1 || runs[0].State != intent.RolloutRunning {
		t.Errorf("after a step that was refused: %+v", runs)
	}
	observed, err := w.Observations(ctx, shop, "web")
	w.must(err)
	if diff := cmp.Diff([]intent.Observation{observation}, observed, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("observed:\n%s", diff)
	}

	// Bad steps do nothing at all, whatever of them would be well.
	for name, spoil := range map[string]func(*store.RolloutStep){
		"a pin to what lacks the asset":     func(s *store.RolloutStep) { s.Pins[0].Asset = "c" },
		"a pin of a person":                 func(s *store.RolloutStep) { s.Pins[0].Rank = intent.RankPerson },
		"a pin in another partition":        func(s *store.RolloutStep) { s.Pins[0].Incarnation.Partition = theatre },
		"a run beyond the next":             func(s *store.RolloutStep) { s.Run.Run = 3 },
		"a new run while the newest is on":  func(s *store.RolloutStep) { s.Run.Run = 2 },
		"a run of a number that is over":    func(s *store.RolloutStep) { s.Run.Run = 0 },
		"a step under a lease that is over": nil,
	} {
		bad := w.step(w.run(1, intent.RolloutPaused, 2, 1))
		bad.Pins = []intent.Pin{{Asset: "a", Incarnation: at(1), Rank: intent.RankRollback, Holder: holder}}
		lease := w.lease
		if spoil == nil {
			lease.Epoch--
		} else {
			spoil(&bad)
		}
		if err := w.SaveRollout(ctx, lease, bad); err == nil {
			t.Errorf("%s was carried out", name)
		}
		if runs := w.runs(store.RolloutFilter{Open: true}); len(runs) != 1 || runs[0].State != intent.RolloutRunning {
			t.Errorf("after %s: %+v", name, runs)
		}
	}

	endStep := w.step(w.run(1, intent.RolloutRolledBack, 2, 1))
	endStep.Pins = []intent.Pin{{Asset: "a", Incarnation: at(1), Rank: intent.RankRollback, Holder: holder}}
	endStep.Forget = []intent.AssetID{"a"}
	w.must(w.SaveRollout(ctx, w.lease, endStep))
	next := w.step(w.run(2, intent.RolloutRunning, 2, 1))
	next.Unpin = []store.PinOf{{Asset: "a", Rank: intent.RankRollback}}
	w.must(w.SaveRollout(ctx, w.lease, next))
	if observed, err = w.Observations(ctx, shop, "web"); err != nil || len(observed) > 0 {
		t.Errorf("what was to be forgotten is there: %v, %v", observed, err)
	}
	pins, err := w.Pins(ctx, shop)
	w.must(err)
	if len(pins) != 1 || pins[0].Rank != intent.RankRollout {
		t.Errorf("after the rollback's pin was taken back: %+v", pins)
	}
	for _, test := range []struct {
		filter store.RolloutFilter
		want   []uint64
	}{
		{store.RolloutFilter{}, []uint64{2, 1}},
		{store.RolloutFilter{Name: "web", Limit: 1}, []uint64{2}},
		{store.RolloutFilter{Name: "web", Before: 2}, []uint64{1}},
		{store.RolloutFilter{Name: "web", Run: 1}, []uint64{1}},
		{store.RolloutFilter{Open: true}, []uint64{2}},
		{store.RolloutFilter{Newest: true}, []uint64{2}},
		{store.RolloutFilter{Newest: true, Open: true, Name: "web"}, []uint64{2}},
		{store.RolloutFilter{Newest: true, Run: 1}, nil},
		{store.RolloutFilter{Name: "other"}, nil},
	} {
		var numbers []uint64
		for _, run := range w.runs(test.filter) {
			numbers = append(numbers, run.Run)
		}
		if diff := cmp.Diff(test.want, numbers); diff != "" {
			t.Errorf("%+v lists:\n%s", test.filter, diff)
		}
	}
}

// newestRollouts: of each name the newest run alone, whatever became of it.
func newestRollouts(w *world) {
	w.publish(entry("a", "1"))
	for _, row := range []struct {
		name  string
		run   uint64
		state intent.RolloutState
	}{
		{"web", 1, intent.RolloutDone}, {"web", 2, intent.RolloutStopped}, {"db", 1, intent.RolloutDone}, {"db", 2, intent.RolloutDone}, {"db", 3, intent.RolloutPaused},
	} {
		run := w.run(row.run, row.state, 1, 0)
		run.Name = row.name
		w.must(w.SaveRollout(w.t.Context(), w.lease, w.step(run)))
	}
	for _, test := range []struct {
		filter store.RolloutFilter
		want   []string
	}{
		{store.RolloutFilter{Newest: true}, []string{"db 3", "web 2"}},
		{store.RolloutFilter{Newest: true, Limit: 1}, []string{"db 3"}},
		{store.RolloutFilter{Newest: true, Open: true}, []string{"db 3"}},
		{store.RolloutFilter{Newest: true, Name: "web"}, []string{"web 2"}},
		{store.RolloutFilter{Newest: true, Before: 2}, nil},
	} {
		var names []string
		for _, run := range w.runs(test.filter) {
			names = append(names, fmt.Sprint(run.Name, " ", run.Run))
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			w.t.Errorf("%+v lists:\n%s", test.filter, diff)
		}
	}
}

// rolloutsTakenOver: in the middle of a rollback another rollout governs the asset. It
// has both pins, and what was seen (S10, S19); the former has nothing left of it, also
// where it made no run.
func rolloutsTakenOver(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"))
	w.publish(entry("a", "2"))
	w.governs("a")
	holder := intent.RolloutHolder("web")
	step := w.step(w.run(1, intent.RolloutRollingBack, 2, 1))
	step.Pins = []intent.Pin{
		{Asset: "a", Incarnation: at(2), Rank: intent.RankRollout, Holder: holder, Reason: "canary"},
		{Asset: "a", Incarnation: at(1), Rank: intent.RankRollback, Holder: holder, Reason: "it is bad"},
	}
	observation := intent.Observation{Rollout: "web", Asset: "a", Effective: digestOf("1"), Selected: noon, Healthy: time.Minute}
	step.Observed = []intent.Observation{observation}
	w.must(w.SaveRollout(ctx, w.lease, step))

	previousPins, err := w.Pins(ctx, shop)
	w.must(err)
	next := w.next()
	next.Governed = []intent.Governed{{Asset: "a", Rollout: "other"}}
	w.must(w.Stage(ctx, w.lease, next.Parent, []store.Entry{entry("a", "3")}))
	_, err = w.Publish(ctx, w.lease, next)
	w.must(err)
	pins, err := w.Pins(ctx, shop)
	w.must(err)
	places := map[intent.Rank]intent.Sequence{}
	for _, pin := range pins {
		if pin.Rollout() != "other" || pin.Governed != 3 || slices.ContainsFunc(previousPins, func(b intent.Pin) bool { return b.Revision >= pin.Revision }) {
			t.Errorf("a pin that was taken over: %+v", pin)
		}
		places[pin.Rank] = pin.Incarnation.Sequence
	}
	if diff := cmp.Diff(map[intent.Rank]intent.Sequence{intent.RankRollout: 2, intent.RankRollback: 1}, places); diff != "" {
		t.Errorf("its pins:\n%s", diff)
	}
	observed, err := w.Observations(ctx, shop, "other")
	w.must(err)
	observation.Rollout = "other"
	if diff := cmp.Diff([]intent.Observation{observation}, observed, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("what was seen before:\n%s", diff)
	}
	if remaining, err := w.Observations(ctx, shop, "web"); err != nil || len(remaining) > 0 {
		t.Errorf("the former rollout has still: %v, %v", remaining, err)
	}
	w.must(w.SaveRollout(ctx, w.lease, store.RolloutStep{Rollout: "other", Revision: w.revision(), Forget: []intent.AssetID{"a"}}))
	if remaining, err := w.Observations(ctx, shop, "other"); err != nil || len(remaining) > 0 {
		t.Errorf("what a rollout without a run forgets is there: %v, %v", remaining, err)
	}
}

func rolloutOrders(w *world) {
	t, ctx := w.t, w.t.Context()
	var first, second intent.RolloutOrder
	w.moves("an order", func() {
		var err error
		first, err = w.OrderRollout(ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderPause, Reason: "lunch", By: alice, At: noon})
		w.must(err)
	})
	second, err := w.OrderRollout(ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderStart, Value: []byte(`"v2"`), Reason: "ship", By: bob, At: noon})
	w.must(err)
	if first.Number == 0 || second.Number <= first.Number {
		t.Errorf("orders are numbered %d and %d", first.Number, second.Number)
	}
	orders, err := w.RolloutOrders(ctx, shop, first.Number)
	w.must(err)
	if diff := cmp.Diff([]intent.RolloutOrder{second}, orders); diff != "" {
		t.Errorf("orders after the first:\n%s", diff)
	}
	vote := intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderApprove, Run: 3, Stage: "rest", Reason: "looks good", By: bob, At: noon}
	stored, err := w.OrderRollout(ctx, vote)
	w.must(err)
	if !slices.Contains(stored.Roles, intent.Approver) {
		t.Errorf("a vote was stored with the roles %v, and its person has all", stored.Roles)
	}
	orders, err = w.RolloutOrders(ctx, shop, second.Number)
	w.must(err)
	if diff := cmp.Diff([]intent.RolloutOrder{stored}, orders); diff != "" {
		t.Errorf("the vote:\n%s", diff)
	}
	records, err := w.AuditRecords(ctx, shop, 0, 1000)
	w.must(err)
	if last := records[len(records)-1]; last.Verb != "rollout-approve" || last.Detail != "run 3, stage rest" || last.Reason != "looks good" {
		t.Errorf("the audit says of it %+v", last)
	}
	_, err = w.OrderRollout(ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: "dance", By: bob})
	w.refused(err, fault.Invalid)
	_, err = w.OrderRollout(ctx, intent.RolloutOrder{Partition: "nowhere", Name: "web", Kind: intent.OrderPause, By: bob})
	w.refused(err, fault.NotFound)
}

func judgements(w *world) {
	t, ctx := w.t, w.t.Context()
	judge := func(asset, content string, good bool) intent.Judgement {
		return intent.Judgement{Asset: intent.AssetID(asset), Effective: digestOf(content), Good: good, Rollout: "web", Reason: "looked", At: noon}
	}
	save := func(step store.RolloutStep) {
		t.Helper()
		step.Revision = w.revision()
		w.must(w.SaveRollout(ctx, w.lease, step))
	}
	verdicts := func(assets ...intent.AssetID) map[string]bool {
		t.Helper()
		list, err := w.Judgements(ctx, shop, assets)
		w.must(err)
		goodByName := map[string]bool{}
		for _, j := range list {
			goodByName[string(j.Asset)+" "+j.Effective.Short()] = j.Good
		}
		return goodByName
	}
	a1, a2, b1 := "a "+digestOf("1").Short(), "a "+digestOf("2").Short(), "b "+digestOf("1").Short()
	save(store.RolloutStep{Judged: []intent.Judgement{judge("a", "1", true), judge("a", "2", true), judge("b", "1", false)}})
	save(store.RolloutStep{Judged: []intent.Judgement{judge("a", "2", false), judge("b", "1", true)}})
	if diff := cmp.Diff(map[string]bool{a1: true, a2: false, b1: false}, verdicts()); diff != "" {
		t.Errorf("what was bad stays bad (S20):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{b1: false}, verdicts("b")); diff != "" {
		t.Errorf("of b:\n%s", diff)
	}
	save(store.RolloutStep{Forgiven: []intent.Judgement{judge("b", "1", false)}})
	save(store.RolloutStep{Judged: []intent.Judgement{judge("b", "1", true)}})
	if !verdicts("b")[b1] {
		t.Error("what was forgiven cannot become good")
	}
}

// rolloutsCollected: what a run that is open needs is retained (S17), and what has
// ended goes, but for the newest.
func rolloutsCollected(w *world) {
	t, ctx := w.t, w.t.Context()
	for _, content := range []string{"1", "2", "3", "4", "5"} {
		w.publish(entry("a", content))
	}
	w.must(w.SaveRollout(ctx, w.lease, w.step(w.run(1, intent.RolloutRunning, 3, 1))))
	later := time.Now().Add(1000 * time.Hour)
	collect := func() {
		t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: time.Hour}, later)
		w.must(err)
	}
	retained := func() (list []intent.Sequence) {
		t.Helper()
		incarnations, err := w.Incarnations(ctx, shop, 0, 0)
		w.must(err)
		for _, i := range incarnations {
			list = append(list, i.ID.Sequence)
		}
		return list
	}
	collect()
	if diff := cmp.Diff([]intent.Sequence{5, 3, 1}, retained()); diff != "" {
		t.Errorf("with an open run from 1 to 3, retained:\n%s", diff)
	}
	for number := uint64(1); number <= 2; number++ {
		endedRun := w.run(number, intent.RolloutDone, 3, 1)
		endedRun.Ended = noon
		w.must(w.SaveRollout(ctx, w.lease, w.step(endedRun)))
	}
	w.must(w.SaveRollout(ctx, w.lease, store.RolloutStep{Revision: w.revision(), Judged: []intent.Judgement{
		{Asset: "a", Effective: digestOf("gone"), Good: true, At: noon}, {Asset: "a", Effective: digestOf("evil"), At: noon},
	}}))
	old, young := store.JudgementName(later.Add(-2*time.Hour), "web@1/canary/errors"), store.JudgementName(later, "web@2/canary/errors")
	w.must(w.PutBlobs(ctx, w.lease, store.JudgementBlobs, map[string][]byte{old: []byte("old"), young: []byte("young")}))
	collect()
	if _, err := w.GetBlob(ctx, shop, store.JudgementBlobs, old); !fault.Is(err, fault.NotFound) {
		t.Errorf("the old record of a validation: %v", err)
	}
	if stored, err := w.GetBlob(ctx, shop, store.JudgementBlobs, young); err != nil || string(stored) != "young" {
		t.Errorf("the young record of a validation: %q, %v", stored, err)
	}
	if diff := cmp.Diff([]intent.Sequence{5}, retained()); diff != "" {
		t.Errorf("with no open run, retained:\n%s", diff)
	}
	if runs := w.runs(store.RolloutFilter{}); len(runs) != 1 || runs[0].Run != 2 {
		t.Errorf("of the runs that ended are left: %+v", runs)
	}
	judged, err := w.Judgements(ctx, shop, nil)
	w.must(err)
	if len(judged) != 1 || judged[0].Good {
		t.Errorf("of what nobody has any more only the bad is kept: %+v", judged)
	}
}

// outputsSaved: outputs are written under the partition's lease alone (S4); the first makes
// the document, and one that a person deleted is made anew.
func outputsSaved(w *world) {
	t, ctx := w.t, w.t.Context()
	edit := func(base, path, value string) document.Edit {
		return document.Edit{Base: base, Reason: "told", Operations: []document.Operation{{Path: path, Value: []byte(value)}}}
	}
	content := func() string {
		doc, err := w.Document(ctx, shop, outputs.Document, "")
		w.must(err)
		return string(doc.Content)
	}
	stale := w.lease
	stale.Epoch++
	_, err := w.SaveOutputs(ctx, stale, edit("", "/db", `{"port":1}`))
	w.refused(err, fault.Conflict)
	made, err := w.SaveOutputs(ctx, w.lease, edit("", "/db", `{"port":1}`))
	w.must(err)
	if made.Revision.ID != "1" || made.Revision.By != intent.OutputActor || content() != `{"db":{"port":1}}` {
		t.Errorf("it made %+v, and reads %s", made.Revision, content())
	}
	again, err := w.SaveOutputs(ctx, w.lease, edit("1", "/db/port", "2"))
	w.must(err)
	repeated, err := w.SaveOutputs(ctx, w.lease, edit("1", "/db/port", "2"))
	w.must(err)
	if again.Revision.ID != "2" || repeated.Revision.ID != "2" || content() != `{"db":{"port":2}}` {
		t.Errorf("it is at %s and %s, and reads %s", again.Revision.ID, repeated.Revision.ID, content())
	}
	_, err = w.SaveOutputs(ctx, w.lease, edit("1", "/db/port", "3"))
	w.refused(err, fault.Conflict)
	_, err = w.DeleteDocument(ctx, shop, outputs.Document, "2", "a try", bob)
	w.must(err)
	_, err = w.SaveOutputs(ctx, w.lease, edit("", "/web", `{"url":"u"}`))
	w.must(err)
	if content() != `{"web":{"url":"u"}}` {
		t.Errorf("it reads %s", content())
	}
}

// rolloutFields: a rollout edits documents under its lease alone (S4), once however
// often it is asked, and its run keeps what each field was.
func rolloutFields(w *world) {
	t, ctx, holder := w.t, w.t.Context(), intent.RolloutHolder("sizes")
	w.created(`{"a":1}`)
	result, err := w.SetFields(ctx, w.lease, w.revision(), knobs, setting("1", "/a", "2"), holder)
	w.must(err)
	if result.Revision.ID != "2" || result.Revision.By != holder || w.document("") != `{"a":2}` {
		t.Errorf("it made %+v, and reads %s", result.Revision, w.document(""))
	}
	again, err := w.SetFields(ctx, w.lease, w.revision(), knobs, setting("1", "/a", "2"), holder)
	w.must(err)
	if again.Revision.ID != "2" {
		t.Errorf("asked again, it made revision %s", again.Revision.ID)
	}
	_, err = w.SetFields(ctx, w.lease, w.revision(), knobs, setting("1", "/a", "3"), holder)
	w.refused(err, fault.Conflict)
	stale := w.lease
	stale.Epoch++
	_, err = w.SetFields(ctx, stale, w.revision(), knobs, setting("2", "/a", "3"), holder)
	w.refused(err, fault.Conflict)
	_, err = w.SetFields(ctx, w.lease, w.revision()+1, knobs, setting("2", "/a", "3"), holder)
	w.refused(err, fault.Conflict)
	if now := w.document(""); now != `{"a":2}` {
		t.Errorf("what was refused changed it to %s", now)
	}
	run := w.run(1, intent.RolloutRunning, 0, 0)
	run.To, run.From, run.Value, run.Base = intent.IncarnationID{}, intent.IncarnationID{}, []byte("null"), "1"
	run.Edits = []intent.RolloutEdit{
		{Document: "knobs", Pointer: "/a", Before: []byte("null"), Revision: "2", At: noon, Landed: at(1)},
		{Document: "knobs", Pointer: "/b"},
	}
	w.must(w.SaveRollout(ctx, w.lease, w.step(run)))
	runs, err := w.Rollouts(ctx, shop, store.RolloutFilter{Name: run.Name})
	w.must(err)
	if diff := cmp.Diff([]intent.Rollout{run}, runs, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("nothing, and null, are what they were:\n%s", diff)
	}
}
