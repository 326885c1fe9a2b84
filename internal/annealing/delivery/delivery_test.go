package delivery

import (
	"errors"
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

func TestAVersionMovesOn(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	w.expectVersion(shop, "production", "1.0.0")
	w.approve("1.1.0")
	w.goOn()
	w.expectVersion(shop, "production", "1.1.0")
	if count := w.edits(shop); count != 2 {
		t.Errorf("delivery made %d edits, want 2", count)
	}
	m := w.moment()
	var promotions int
	for _, row := range m.Records {
		if row.Kind == intent.DeliveryPromotion {
			promotions++
		}
		if row.Kind == intent.DeliveryAdmission && row.Environment == "production" {
			if len(row.Verdicts) != 2 || row.Verdicts[1].Status != "passes" {
				t.Errorf("production let it in by %v", row.Verdicts)
			}
		}
	}
	if promotions != 2 {
		t.Errorf("%d promotions are in rows, want 2", promotions)
	}
	rows := len(m.Records)
	w.goOn()
	if now := len(w.moment().Records); now != rows {
		t.Errorf("at rest it added %d rows", now-rows)
	}
}

// Killed between any two steps, and with the answer to each lost in turn, everything is done once.
func TestNothingIsDoneTwice(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0", "1.1.0")
	for i := range 40 {
		w.build(shop)
		if i%2 == 0 {
			w.enforce(shop)
		}
		w.lost = i%3 == 0
		if _, err := w.pass(shop); err != nil && !errors.Is(err, errLost) && !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		w.lost = false
		if i == 20 {
			w.approve("1.1.0")
		}
		w.tick(time.Second)
	}
	w.expectVersion(shop, "test", "1.1.0")
	w.expectVersion(shop, "production", "1.1.0")
	if count := w.edits(shop); count != 2 {
		t.Errorf("delivery made %d edits, want 2", count)
	}
	seen := map[string]bool{}
	for _, row := range w.moment().Records {
		if row.Kind != intent.DeliveryPromotion && row.Kind != intent.DeliveryAdmission {
			continue
		}
		key := string(row.Kind) + row.Environment + row.Version.Name
		if seen[key] {
			t.Errorf("twice: %s of %s in %s", row.Kind, row.Version.Name, row.Environment)
		}
		seen[key] = true
	}
}

// What people say between the decision and the edit counts.
func TestWhatIsSaidMeanwhileCounts(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"a mark":  func(w *world) { w.act(intent.ActMarkBad, "", "1.1.0") },
		"a pause": func(w *world) { w.act(intent.ActPause, "", "") },
		"a stop": func(w *world) {
			w.must(w.store.SetStop(w.t.Context(), intent.Stop{Partition: shop, Owner: ann, Reason: "fire"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, chain())
			w.list("1.0.0")
			w.goOn()
			w.list("1.0.0", "1.1.0")
			w.meanwhile = func() { meanwhile(w) }
			w.goOn()
			w.expectVersion(shop, "test", "1.0.0")
			if count := w.edits(shop); count != 0 {
				t.Errorf("delivery made %d edits, want none", count)
			}
		})
	}
}

func TestABadVersionGoesBack(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0")
	w.goOn()
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.act(intent.ActMarkBad, "", "1.1.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	w.approve("1.1.0")
	w.goOn()
	w.expectVersion(shop, "production", "1.0.0")
	revisions, err := w.store.DocumentRevisions(t.Context(), shop, "knobs", "", 1)
	w.must(err)
	if !revisions[0].GoesBack() {
		t.Errorf("the edit %v does not go back", revisions[0])
	}
}

func TestWhatSomebodyElseSetIsLeftAlone(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	w.set(shop, "test", "1.0.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	m := w.moment()
	if hold := m.Application.Decide(m.Catalogue, m.Facts).Outcomes[0].Hold; hold != promotion.HeldByEdit {
		t.Errorf("it is held by %d", hold)
	}
	w.act(intent.ActResume, "test", "")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
}

// TestAVersionSetWithoutItsDigestIsAnother: where somebody sets the version and leaves the digest as
// it was, what runs there is no release, and is not taken for the one that a source lists under that
// name: nothing is let in elsewhere for it.
func TestAVersionSetWithoutItsDigestIsAnother(t *testing.T) {
	spec := chain()
	spec.Environments[0].DigestPointer = "/test/digest"
	w := newWorld(t, spec)
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	w.set(shop, "test", "1.0.0")
	w.goOn()
	has := func() intent.VersionName {
		m := w.moment()
		return m.Application.Decide(m.Catalogue, m.Facts).Outcomes[0].Has
	}
	if want := (intent.VersionName{Name: "1.0.0", Digest: "sha256:1.1.0"}); has() != want {
		t.Errorf("it has %+v, want %+v", has(), want)
	}
	rows := len(w.moment().Records)
	w.goOn()
	if now := len(w.moment().Records); now != rows {
		t.Errorf("at rest it added %d rows", now-rows)
	}
	m := w.moment()
	if hold := m.Application.Decide(m.Catalogue, m.Facts).Outcomes[0].Hold; hold != promotion.HeldByEdit {
		t.Errorf("it is held by %d", hold)
	}
	w.act(intent.ActResume, "test", "")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	if want := (intent.VersionName{Name: "1.1.0", Digest: "sha256:1.1.0"}); has() != want {
		t.Errorf("it has %+v, want %+v", has(), want)
	}
}

// Another partition says itself what may be set there, and sets it under its own lease.
func TestAcrossPartitions(t *testing.T) {
	spec := chain()
	production := spec.Environments[1]
	production.Partition, production.Source, production.Constraints = string(eu), "", production.Constraints[:1]
	w := newWorld(t, spec)
	w.open(eu, &intentpb.Policy{})
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	w.expectVersion(eu, "production", "1.0.0")
	if trouble := w.moment().Places[1].Trouble; trouble != promotion.NotAllowed {
		t.Errorf("the trouble is %d", trouble)
	}
	grant := &intentpb.PromotionGrant{Partition: string(shop), Application: "web", Document: "knobs", Source: "knobs", Pointers: []string{"/other"}}
	w.policies[eu] = &intentpb.Policy{PromotionGrants: []*intentpb.PromotionGrant{grant}}
	w.goOn()
	w.expectVersion(eu, "production", "1.0.0")
	grant.Pointers = []string{"/production"}
	w.policies[eu] = &intentpb.Policy{Owner: "eu", PromotionGrants: []*intentpb.PromotionGrant{grant}}
	w.goOn()
	w.expectVersion(eu, "production", "1.1.0")
	w.expectVersion(shop, "production", "1.0.0")
	if w.edits(eu) != 1 || w.edits(shop) != 1 {
		t.Errorf("%d edits in eu, %d in shop, want one each", w.edits(eu), w.edits(shop))
	}
	m := w.moment()
	if last := m.Facts.Environments["production"].Stays; last[len(last)-1].GoodSince.IsZero() {
		t.Error("nobody noted that production has converged")
	}
	// The mark of the home is heeded there.
	w.act(intent.ActMarkBad, "", "1.1.0")
	w.goOn()
	w.expectVersion(eu, "production", "1.0.0")
}

// A rollout's bad verdict is the version's veto, and the field follows what it went back to.
func TestARolloutsVerdictIsAVeto(t *testing.T) {
	w := newWorld(t, chain())
	ctx := t.Context()
	w.list("1.0.0")
	w.goOn()
	started, err := w.store.Partition(ctx, shop)
	w.must(err)
	w.list("1.0.0", "1.1.0")
	for w.edits(shop) == 0 {
		_, err := w.pass(shop)
		w.must(err)
	}
	w.build(shop)
	now, err := w.store.Partition(ctx, shop)
	w.must(err)
	run := intent.Rollout{Partition: shop, Name: "slow", Run: 1, State: intent.RolloutRunning, From: started.Head, To: now.Head, Began: w.clock, By: ann}
	pin := intent.Pin{Asset: "web/test", Incarnation: started.Head, Rank: intent.RankRollout, Holder: intent.RolloutHolder("slow"), Reason: "governed"}
	save := func(run intent.Rollout, pins ...intent.Pin) {
		t.Helper()
		partition, err := w.store.Partition(ctx, shop)
		w.must(err)
		w.must(w.store.SaveRollout(ctx, w.leases[shop], store.RolloutStep{Revision: partition.Revision, Run: run, Pins: pins}))
	}
	save(run, pin)
	_, err = w.pass(shop)
	w.must(err)
	if !w.moment().Facts.Environments["test"].Rollout {
		t.Fatal("the rollout does not hold the environment")
	}
	run.State, run.Bad, run.Back = intent.RolloutRollingBack, "errors doubled", started.Head
	save(run)
	for range 5 {
		_, err := w.pass(shop)
		w.must(err)
	}
	w.expectVersion(shop, "test", "1.1.0") // One goes back, not two.
	run.State, run.Ended = intent.RolloutRolledBack, w.clock
	save(run)
	for range 5 {
		_, err := w.pass(shop)
		w.must(err)
	}
	w.expectVersion(shop, "test", "1.0.0")
	vetoes := w.moment().Facts.Environments["test"].Vetoes
	if len(vetoes) != 1 || vetoes[0].Name != "1.1.0" || vetoes[0].BackTo.Name != "1.0.0" {
		t.Errorf("vetoes: %+v", vetoes)
	}
}

// What does not converge in time is an attempt that failed, counted once.
func TestAnAttemptFails(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0")
	w.goOn()
	w.list("1.0.0", "1.1.0")
	for w.edits(shop) == 0 {
		_, err := w.pass(shop)
		w.must(err)
	}
	w.build(shop)
	for range 4 {
		w.enforce(shop, "web/test")
		_, err := w.pass(shop)
		w.must(err)
		w.expectVersion(shop, "test", "1.1.0")
		w.tick(defaultRetry / 5)
	}
	w.tick(defaultRetry)
	for range 3 {
		w.enforce(shop, "web/test")
		_, err := w.pass(shop)
		w.must(err)
	}
	w.expectVersion(shop, "test", "1.0.0")
	failures := w.moment().Facts.Environments["test"].Failures
	if len(failures) != 1 || failures[0].Attempts != 1 || failures[0].Name != "1.1.0" {
		t.Errorf("failures: %+v", failures)
	}
}

func TestGrantsNameFields(t *testing.T) {
	for _, test := range []struct {
		pointers []string
		pointer  string
		want     bool
	}{
		{[]string{"/a"}, "/a", true},
		{[]string{"/a"}, "/a/b", true},
		{[]string{"/a"}, "/ab", false},
		{[]string{"/a/b"}, "/a", false},
		{nil, "/a", false},
		{[]string{"/x", "/a"}, "/a/b/c", true},
	} {
		if got := within(test.pointers, test.pointer); got != test.want {
			t.Errorf("%s within %v: %v", test.pointer, test.pointers, got)
		}
	}
	if slices.Contains(intent.DeliveryActs(), "") {
		t.Error("an act has no name")
	}
	for _, act := range intent.DeliveryActs() {
		if acts[act] == 0 {
			t.Errorf("nobody carries out %s", act)
		}
	}
}

// Attempts that failed count anew when something else of the environment is to be otherwise: while
// it has the version that failed, and when it has gone back.
func TestAttemptsCountAnewWhenSomethingElseChanges(t *testing.T) {
	for name, stays := range map[string]bool{"where it stays": true, "where it goes back": false} {
		t.Run(name, func(t *testing.T) {
			spec := chain()
			if stays {
				spec.Environments[0].OnBad = intentpb.DeliveryEnvironment_ON_BAD_STAY
			}
			w := newWorld(t, spec)
			fails := func() {
				t.Helper()
				w.build(shop)
				w.enforce(shop, "web/test")
				_, err := w.pass(shop)
				w.must(err)
			}
			failures := func() int { return len(w.moment().Facts.Environments["test"].Failures) }
			w.list("1.0.0")
			w.goOn()
			w.list("1.0.0", "1.1.0")
			for w.edits(shop) == 0 {
				_, err := w.pass(shop)
				w.must(err)
			}
			fails()
			w.tick(defaultRetry)
			for range 3 {
				fails()
			}
			if failures() != 1 {
				t.Fatalf("%d versions failed, want 1", failures())
			}
			if !stays {
				w.expectVersion(shop, "test", "1.0.0")
				w.goOn()
				if failures() != 1 {
					t.Fatal("going back has attempts count anew")
				}
			}
			w.set(shop, "production", "0.9.0") // Of another environment.
			fails()
			if failures() != 1 {
				t.Error("what is changed elsewhere has attempts count anew")
			}
			w.knob = "larger"
			for range 3 {
				if fails(); stays {
					continue
				}
				w.enforce(shop)
				_, err := w.pass(shop)
				w.must(err)
			}
			if failures() != 0 {
				t.Errorf("something else changed, and %d versions still count as failed", failures())
			}
			if stays {
				w.tick(defaultRetry)
				for range 3 {
					fails()
				}
				if f := w.moment().Facts.Environments["test"].Failures; len(f) != 1 || f[0].Attempts != 1 {
					t.Errorf("after another attempt: %+v", f)
				}
			}
		})
	}
}

// What a version waits for is in rows, each wait once, and its end.
func TestWaitsAreKept(t *testing.T) {
	w := newWorld(t, chain())
	w.list("1.0.0")
	w.goOn()
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.goOn()
	w.approve("1.1.0")
	w.goOn()
	var got []string
	for _, row := range w.moment().Records {
		if row.Kind == intent.DeliveryWait && row.Environment == "production" {
			got = append(got, row.Version.Name+" "+row.Constraint+" "+row.Cause)
		}
	}
	want := []string{"1.1.0 tested not-there", "1.1.0 people " + intent.CauseNeedsPeople, "1.1.0  "}
	if !slices.Equal(got, want) {
		t.Errorf("waits %q, want %q", got, want)
	}
	// A version that nothing lets in any more waits for nothing.
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.goOn()
	w.act(intent.ActMarkBad, "", "1.2.0")
	w.goOn()
	if open := w.moment().Waits["production"]; len(open) != 0 {
		t.Errorf("still waits: %v", open)
	}
	figures := w.moment().Figures(w.clock.Add(-24*time.Hour), w.clock)
	production := figures[1]
	if production.Environment != "production" || production.Promotions != 1 || production.Failed != 0 || production.Lead.Count != 1 || len(production.Queues) != 2 {
		t.Errorf("figures of production: %+v", production)
	}
	if test := figures[0]; test.Promotions != 2 || test.Failed != 1 || test.Restore.Count != 1 {
		t.Errorf("figures of test: %+v", test)
	}
}

// A promotion of which what is built is refused has failed, unless the partition was refused for the same
// before: then it waits, and nothing goes back.
func TestARefusalIsOfWhatBroughtIt(t *testing.T) {
	other := intent.Finding{Rule: "generate", Severity: intent.Error, Message: "cart.star does not parse", File: "cart.star"}
	own := intent.Finding{Rule: "validate", Severity: intent.Error, Message: "web/test: the version is not allowed", Asset: "web/test"}
	for name, test := range map[string]struct {
		// before and after are findings of what is built before the promotion and of it.
		before, after []intent.Finding
		failed        bool
	}{
		"its own finding":                {nil, []intent.Finding{own}, true},
		"refused before":                 {[]intent.Finding{other}, []intent.Finding{other}, false},
		"refused before, and its own":    {[]intent.Finding{other}, []intent.Finding{own, other}, true},
		"only its own after all is well": {[]intent.Finding{other}, []intent.Finding{own}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, chain())
			w.list("1.0.0")
			w.goOn()
			w.refuse(test.before)
			w.list("1.0.0", "1.1.0")
			for edits := 0; edits == 0; edits = w.edits(shop) {
				_, err := w.pass(shop)
				w.must(err)
			}
			w.expectVersion(shop, "test", "1.1.0")
			w.tick(time.Second)
			w.refuse(test.after)
			for range 3 {
				_, err := w.pass(shop)
				w.must(err)
			}
			failures := w.moment().Facts.Environments["test"].Failures
			if failed := len(failures) > 0; failed != test.failed {
				t.Errorf("failed attempts: %+v", failures)
			}
			want := "1.1.0"
			if test.failed {
				want = "1.0.0"
			}
			w.expectVersion(shop, "test", want)
		})
	}
}
