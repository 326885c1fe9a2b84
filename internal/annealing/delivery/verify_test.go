package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// verified is chain, whose test environment is verified by a program that Lehr runs.
func verified() *intentpb.Delivery {
	spec := chain()
	spec.Environments[0].Verify = []string{"smoke"}
	spec.Environments[0].Runs = []*intentpb.DeliveryVerification{{Name: "smoke", Kind: &intentpb.DeliveryVerification_Http{Http: "smoke"}}}
	return spec
}

// bench is an actor that lives on between passes, with a program that ends when the test says so.
type bench struct {
	*world
	actor *Deliverer
	began chan Verifying
	ends  chan error
	good  bool
}

func (w *world) bench() *bench {
	b := &bench{world: w, began: make(chan Verifying, 10), ends: make(chan error), good: true}
	b.restart()
	return b
}

// restart has another actor take over, under a lease of its own.
func (b *bench) restart() {
	b.t.Helper()
	lease, err := b.store.Acquire(b.t.Context(), shop, "server")
	b.must(err)
	b.leases[shop] = lease
	b.actor = New(Options{
		Partition: shop, Store: interposed{b.store, b.world}, Reader: &Reader{Store: b.store, Schemas: schemas{}}, Runtime: clock{loop.Real(), b.world}, Log: slog.New(slog.DiscardHandler),
		Verify: func(ctx context.Context, v Verifying) (Finding, error) {
			b.began <- v
			select {
			case err := <-b.ends:
				return Finding{b.good, "as it was told"}, err
			case <-ctx.Done():
				return Finding{}, ctx.Err()
			}
		},
	})
	b.actor.lease = lease
}

// step enforces what is built, and has the actor look once.
func (b *bench) step() {
	b.t.Helper()
	b.build(shop)
	b.enforce(shop)
	if _, err := b.actor.pass(b.t.Context()); err != nil && !fault.Is(err, fault.Conflict) && !errors.Is(err, errLost) {
		b.t.Fatal(err)
	}
	b.tick(time.Second)
}

// until steps until something is so.
func (b *bench) until(what string, so func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); b.step() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s never came to be", what)
		}
	}
}

func (b *bench) under() []intent.Verification {
	b.t.Helper()
	list, err := b.store.Verifications(b.t.Context(), shop)
	b.must(err)
	return list
}

// begins steps until the program was begun.
func (b *bench) begins() (v Verifying) {
	b.t.Helper()
	b.until("the verification", func() bool {
		select {
		case v = <-b.began:
			return true
		default:
			return false
		}
	})
	return v
}

// rows of kinds, as "kind name version good".
func (b *bench) rows(kinds ...intent.DeliveryKind) (list []intent.DeliveryRecord) {
	for _, r := range b.moment().Records {
		if slices.Contains(kinds, r.Kind) {
			list = append(list, r)
		}
	}
	return list
}

// ended reports whether no verification is on record.
func (b *bench) ended() bool { return len(b.under()) == 0 }

func TestAVerificationIsRun(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	v := b.begins()
	if v.Name != "smoke" || v.Version.Name != "1.0.0" || !slices.Equal(v.Assets, []intent.AssetID{"web/test"}) || v.Content.IsZero() {
		t.Errorf("it was told %+v", v)
	}
	if open := b.under(); len(open) != 1 || !open[0].Same(v.Verification) {
		t.Fatalf("under way are %+v", open)
	}
	b.ends <- nil
	b.until("the end", b.ended)
	results := b.rows(intent.DeliveryResult)
	if len(results) != 1 || !results[0].Good || results[0].Content != v.Content || results[0].Version != v.Version || results[0].By != intent.DeliveryHolder(shop, "web") {
		t.Errorf("the results are %+v", results)
	}
	for range 10 {
		b.step()
	}
	if n := len(b.rows(intent.DeliveryVerifying)); n != 1 {
		t.Errorf("it was begun %d times, want once", n)
	}
}

func TestABadVerificationGoesBack(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.begins()
	b.ends <- nil
	b.until("the end", b.ended)
	w.list("1.0.0", "1.1.0")
	if v := b.begins(); v.Version.Name != "1.1.0" {
		t.Fatalf("it verifies %s, want 1.1.0", v.Version.Name)
	}
	// Nothing comes while it is under way.
	w.list("1.0.0", "1.1.0", "1.2.0")
	for range 5 {
		b.step()
	}
	w.expectVersion(shop, "test", "1.1.0")
	b.good = false
	b.ends <- nil
	b.until("the end", b.ended)
	b.until("another version", func() bool { return !slices.Equal([]string{w.version("test")}, []string{"1.1.0"}) })
	w.expectVersion(shop, "test", "1.2.0")
}

// version that the field of an environment holds.
func (w *world) version(environment string) string {
	doc, err := w.store.Document(w.t.Context(), shop, "knobs", "")
	w.must(err)
	have, _, err := fieldOf(doc.Content, "/"+environment+"/version")
	w.must(err)
	return have
}

// What else of the environment changes makes it void: no result is of content that is not there.
func TestAVerificationOfOldContentIsVoid(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	first := b.begins()
	w.set(shop, "test", "0.9.0")
	b.until("the second one", func() bool { return len(b.began) > 0 || len(b.rows(intent.DeliveryVoid)) > 0 })
	w.act(intent.ActResume, "test", "")
	if results := b.rows(intent.DeliveryResult); len(results) != 0 {
		t.Errorf("a result of old content is kept: %+v", results)
	}
	second := b.begins()
	if second.Content == first.Content {
		t.Error("the second one is of the first one's content")
	}
	b.ends <- nil
	b.until("the end", b.ended)
	if results := b.rows(intent.DeliveryResult); len(results) != 1 || results[0].Content != second.Content {
		t.Errorf("the results are %+v", results)
	}
}

// A program that does not come to an end says nothing, and is run again.
func TestAVerificationThatFailsToRunIsRunAgain(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.begins()
	b.ends <- errors.New("it was killed")
	b.until("the end", b.ended)
	began := w.clock
	if results := b.rows(intent.DeliveryResult); len(results) != 0 {
		t.Errorf("a program that was killed has a result: %+v", results)
	}
	b.begins()
	if rested := w.clock.Sub(began); rested < firstRest-2*time.Second {
		t.Errorf("it was run again after %s, want a rest of %s", rested, firstRest)
	}
	b.ends <- nil
	b.until("the end", b.ended)
	if results := b.rows(intent.DeliveryResult); len(results) != 1 || !results[0].Good {
		t.Errorf("the results are %+v", results)
	}
}

// The server dies in the middle: the environment stays as it is until the program cannot run any
// more, and then it is verified anew. It never counts as good.
func TestADeadServersVerificationIsRunAgain(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	v := b.begins()
	b.restart()
	for range 5 {
		b.step()
	}
	if b.ended() {
		t.Error("the row is gone while the program may still be running")
	}
	w.tick(v.Until.Sub(w.clock))
	second := b.begins()
	if results := b.rows(intent.DeliveryResult); len(results) != 0 || second.Began.Before(v.Until) {
		t.Errorf("it began again at %s, the first one may run until %s; results %+v", second.Began, v.Until, results)
	}
}

// The answer to the row is lost: it was not begun, and is at once.
func TestAVerificationWithALostAnswer(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.until("nothing but the verification is left to do", func() bool {
		m := w.moment()
		return len(m.Application.Decide(m.Catalogue, m.Facts).Outcomes[0].Verify) > 0
	})
	w.lost = true
	b.step()
	if n := len(b.under()); n != 1 || len(b.began) != 0 {
		t.Fatalf("%d rows, and %d programs were begun", n, len(b.began))
	}
	b.begins()
}

// A server that ends in order leaves nothing behind.
func TestAnEndingServerFreesTheEnvironment(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.begins()
	b.actor.endRuns(t.Context())
	if !b.ended() {
		t.Error("the row is still there")
	}
	b.restart()
	b.begins()
}

// An application that is no longer defined holds nothing back.
func TestAVerificationOfNoApplicationEnds(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.begins()
	w.policies[shop] = &intentpb.Policy{}
	b.until("the end", b.ended)
}

// None begins while a push of the environment's assets is open.
func TestNoVerificationBesideAPush(t *testing.T) {
	w := newWorld(t, verified())
	b := w.bench()
	w.list("1.0.0")
	b.until("nothing but the verification is left to do", func() bool {
		m := w.moment()
		return len(m.Application.Decide(m.Catalogue, m.Facts).Outcomes[0].Verify) > 0
	})
	partition, err := w.store.Partition(t.Context(), shop)
	w.must(err)
	member := w.entries[shop]["web/test"].Member
	refusals, err := w.store.Admit(t.Context(), w.leases[shop], []store.Admission{{
		Push: "shop/1-1", Asset: "web/test", Target: partition.Head, Effective: member.Effective, Plan: intent.Sum("plan"), Revision: partition.Revision, At: w.clock,
	}})
	w.must(err)
	if refusals[0] != nil {
		t.Fatalf("the push is refused: %+v", refusals[0])
	}
	for range 3 {
		b.step()
	}
	if len(b.began) > 0 || !b.ended() {
		t.Fatal("a verification began beside a push")
	}
	w.must(w.store.ClosePushes(t.Context(), w.leases[shop], []store.Closing{{Push: "shop/1-1", Ending: "done", At: w.clock}}))
	b.begins()
	// And a push that was decided on before is not admitted any more.
	refusals, err = w.store.Admit(t.Context(), w.leases[shop], []store.Admission{{
		Push: "shop/1-2", Asset: "web/test", Target: partition.Head, Effective: member.Effective, Plan: intent.Sum("plan"), Revision: partition.Revision, At: w.clock,
	}})
	w.must(err)
	if refusals[0] == nil {
		t.Error("a push that was decided on before the verification began is admitted beside it")
	}
}
