package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/detector"
)

// world is a partition in a real store, and targets that a test can break.
type world struct {
	*testing.T
	store  *sqlite.Store
	lease  store.Lease
	cancel context.CancelFunc
	ended  chan error
	lock   sync.Mutex
	// got are the messages that each target took, and broken how each answers.
	got    map[string][]notify.Message
	broken map[string]func(ctx context.Context) error
	// measure is told how it goes.
	measure measure.Notifier
}

func simulate(t *testing.T, notifications []*intentpb.Notification, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Memory()
		must(t, err)
		s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		must(t, err)
		w := &world{T: t, store: s, got: map[string][]notify.Message{}, broken: map[string]func(context.Context) error{}}
		w.lease = storetest.Register(t, s)
		w.publish(notifications)
		w.start()
		defer func() {
			w.stop()
			s.Close()
			db.Close()
		}()
		test(w)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) publish(notifications []*intentpb.Notification, rollouts ...*intentpb.Rollout) {
	w.Helper()
	set := schema.Builtin()
	payload, err := set.Pack(&intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE, Notifications: notifications, Rollouts: rollouts})
	must(w.T, err)
	body, digest, err := set.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	must(w.T, err)
	storetest.Publish(w.T, w.store, w.lease, []store.Entry{{
		Asset: intent.PolicyAsset, Body: body, Member: intent.Member{Asset: intent.PolicyAsset, Type: payload.Type, Digest: digest, Effective: digest},
	}})
}

func (w *world) start() {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(w.Context())
	w.ended = make(chan error, 1)
	n := notify.New(notify.Options{
		Partition: w.lease.Partition, Store: w.store, Runtime: loop.Real(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Send: w.send, Measure: &w.measure,
	})
	go func() { w.ended <- n.Run(ctx, w.lease) }()
}

// stop ends the notifier while it waits. A connection in memory survives a query that is cancelled, and may be
// left within its transaction.
func (w *world) stop() {
	synctest.Wait()
	w.cancel()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.Errorf("the notifier ended with %v", err)
	}
}

func (w *world) send(ctx context.Context, target string, m notify.Message) error {
	w.lock.Lock()
	broken := w.broken[target]
	w.lock.Unlock()
	if broken != nil {
		if err := broken(ctx); err != nil {
			return err
		}
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.got[target] = append(w.got[target], m)
	return nil
}

func (w *world) set(target string, broken func(context.Context) error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.broken[target] = broken
}

// took is what a target was told, in short.
func (w *world) took(target string) string {
	synctest.Wait()
	w.lock.Lock()
	defer w.lock.Unlock()
	var words []string
	for _, m := range w.got[target] {
		words = append(words, fmt.Sprintf("%s %s %d", m.Name, m.Status, m.Count))
	}
	return strings.Join(words, "; ")
}

func (w *world) are(what string, assets ...string) {
	w.Helper()
	var group []intent.Report
	for _, asset := range assets {
		r := intent.Report{Asset: intent.AssetID(asset), At: time.Now(), State: intent.State(what)}
		if what != "in-sync" {
			r.State, r.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitingKind(what), Reason: "so it is", Owner: "ann"}}
		}
		group = append(group, r)
	}
	must(w.T, w.store.SaveReports(w.Context(), w.lease, group))
}

func (w *world) want(target, want string) {
	w.Helper()
	if got := w.took(target); got != want {
		w.Errorf("%s took %q, want %q", target, got, want)
	}
}

func waits(to ...string) []*intentpb.Notification {
	return []*intentpb.Notification{{Name: "all", When: `report.state == "waiting"`, To: to, Repeat: durationpb.New(time.Hour)}}
}

func many(count int) (assets []string) {
	for i := range count {
		assets = append(assets, fmt.Sprintf("a/%05d", i))
	}
	return assets
}

// measured is what is measured of a target.
func (w *world) measured(target string, failing bool, waiting int64) {
	w.Helper()
	synctest.Wait()
	if of := w.measure.Targets.Of(target); of.Failing.Load() != failing || of.Waiting.Load() != waiting {
		w.Errorf("%s fails: %v, and %d messages wait; want %v and %d", target, of.Failing.Load(), of.Waiting.Load(), failing, waiting)
	}
}

// TestATargetThatHangsDelaysNoOther: nor does one that fails; both get all in the end.
func TestATargetThatHangsDelaysNoOther(t *testing.T) {
	simulate(t, waits("chat", "hung", "down"), func(w *world) {
		w.set("hung", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		w.set("down", func(context.Context) error { return errors.New("no") })
		w.are("stop", many(2500)...)
		time.Sleep(time.Minute)
		w.want("chat", "all firing 2500")
		time.Sleep(time.Hour)
		w.are("in-sync", many(2500)...)
		time.Sleep(time.Minute)
		w.want("chat", "all firing 2500; all firing 2500; all resolved 0")
		w.want("down", "")
		w.measured("chat", false, 0)
		w.measured("down", true, 3)
		w.measured("hung", false, 3) // Whoever sends gives up some time.
		w.stop()
		w.start()
		time.Sleep(10 * time.Second)
		w.measured("down", true, 3)
		w.set("down", nil)
		time.Sleep(10 * time.Minute)
		w.measured("down", false, 0)
		w.want("down", "all firing 2500; all firing 2500; all resolved 0")
		w.want("hung", "")
	})
}

// TestARestartNeitherLosesNorRepeats: also while a message is under way, which is then
// sent again, with the id that it had.
func TestARestartNeitherLosesNorRepeats(t *testing.T) {
	simulate(t, waits("chat", "hung"), func(w *world) {
		w.are("stop", "a", "b")
		time.Sleep(10 * time.Second)
		w.stop() // Before anything was told.
		w.are("stop", "c")
		w.start()
		time.Sleep(time.Minute)
		w.want("chat", "all firing 3")
		w.stop()
		w.start()
		time.Sleep(time.Minute)
		w.want("chat", "all firing 3")
		// One that was taken, but of which the notifier did not hear.
		w.set("chat", func(ctx context.Context) error {
			w.lock.Lock()
			w.got["lost"] = append(w.got["lost"], notify.Message{ID: w.got["chat"][0].ID})
			w.lock.Unlock()
			<-ctx.Done()
			return ctx.Err()
		})
		w.are("in-sync", "a", "b", "c")
		time.Sleep(time.Minute)
		w.stop()
		w.set("chat", nil)
		w.start()
		time.Sleep(time.Minute)
		if w.want("chat", "all firing 3; all resolved 0"); w.Failed() {
			return
		}
		first, second := w.got["chat"][0].ID, w.got["chat"][1].ID
		if before, _, _ := strings.Cut(first, "-"); first == second || !strings.HasPrefix(second, before) {
			t.Errorf("the ids are %s and %s", first, second)
		}
	})
}

// TestAClockThatWasAhead delays nothing: neither what was reported by it, nor what a
// notifier that went by it stored.
func TestAClockThatWasAhead(t *testing.T) {
	const ahead = 1000 * time.Hour
	simulate(t, waits("chat"), func(w *world) {
		must(w.T, w.store.SaveReports(w.Context(), w.lease, []intent.Report{{
			Asset: "a", At: time.Now().Add(ahead), State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: "stop", Reason: "so it is"}},
		}}))
		w.set("chat", func(context.Context) error { return errors.New("no") })
		time.Sleep(time.Minute)
		w.stop()
		state, err := notify.Load(w.Context(), w.store, w.lease.Partition)
		must(w.T, err)
		if len(state.Outbox) != 1 {
			w.Fatalf("%d messages wait, want 1", len(state.Outbox))
		}
		state.Outbox[0].Next = state.Outbox[0].Next.Add(ahead)
		for _, g := range state.Groups {
			g.Opened, g.Told = g.Opened.Add(ahead), g.Told.Add(ahead)
		}
		rows, err := state.Rows()
		must(w.T, err)
		must(w.T, w.store.PutBlobs(w.Context(), w.lease, notify.BlobKind, rows))
		w.set("chat", nil)
		w.start()
		time.Sleep(time.Minute)
		w.want("chat", "all firing 1")
		time.Sleep(time.Hour)
		w.want("chat", "all firing 1; all firing 1")
		must(w.T, w.store.SaveReports(w.Context(), w.lease, []intent.Report{{Asset: "a", At: time.Now().Add(ahead), State: intent.StateInSync}}))
		time.Sleep(time.Minute)
		w.want("chat", "all firing 1; all firing 1; all resolved 0")
	})
}

// TestRolloutsAreFollowed: a run that waits for a person, or went back, is told of, until it
// goes on; one that head has no more is not.
func TestRolloutsAreFollowed(t *testing.T) {
	simulate(t, nil, func(w *world) {
		told := []*intentpb.Notification{
			{Name: "paused", OfPartition: true, When: `partition.rollouts.exists(r, r.state == "paused")`, Text: `partition.rollouts.filter(r, r.state == "paused")[0].waits`, To: []string{"chat"}},
			{Name: "bad", OfPartition: true, When: `partition.rollouts.exists(r, r.bad != "" && r.run > 1)`, To: []string{"chat"}},
		}
		w.publish(told, &intentpb.Rollout{Name: "web"})
		is := func(name string, run uint64, state intent.RolloutState, bad string) {
			t.Helper()
			p, err := w.store.Partition(w.Context(), w.lease.Partition)
			must(w.T, err)
			must(w.T, w.store.SaveRollout(w.Context(), w.lease, store.RolloutStep{Revision: p.Revision, Run: intent.Rollout{
				Partition: p.ID, Name: name, Run: run, State: state, To: p.Head, Bad: bad, Began: time.Now(), Progress: intent.RolloutProgress{Waits: "for a person to look at " + name},
			}}))
			time.Sleep(time.Minute)
		}
		is("gone", 1, intent.RolloutPaused, "")
		is("web", 1, intent.RolloutRunning, "")
		w.want("chat", "")
		is("web", 1, intent.RolloutPaused, "")
		w.want("chat", "paused firing 1")
		if title := w.got["chat"][0].Title; !strings.Contains(title, "for a person to look at web") {
			t.Errorf("it is told %q", title)
		}
		is("web", 1, intent.RolloutDone, "")
		is("web", 2, intent.RolloutRolledBack, "errors")
		w.want("chat", "paused firing 1; paused resolved 0; bad firing 1")
	})
}

// TestPartitionAndPolicyAreFollowed: a stop is told of, and another policy counts at once.
func TestPartitionAndPolicyAreFollowed(t *testing.T) {
	simulate(t, nil, func(w *world) {
		w.are("approval", "a")
		time.Sleep(time.Hour)
		w.want("chat", "")
		w.publish([]*intentpb.Notification{{Name: "stopped", OfPartition: true, When: "has(partition.stop)", Text: `"by " + partition.stop.owner`, To: []string{"chat"}}})
		time.Sleep(time.Minute)
		must(w.T, w.store.SetStop(w.Context(), intent.Stop{Partition: w.lease.Partition, Owner: storetest.Tester, Reason: "fire"}))
		time.Sleep(time.Minute)
		w.want("chat", "stopped firing 1")
		if title := w.got["chat"][0].Title; !strings.Contains(title, "by "+storetest.Tester.Name) {
			t.Errorf("it is told %q", title)
		}
		must(w.T, w.store.Resume(w.Context(), w.lease.Partition, "out", storetest.Tester))
		time.Sleep(time.Minute)
		w.publish(waits("mail"))
		time.Sleep(time.Minute)
		w.want("chat", "stopped firing 1; stopped resolved 0")
		w.want("mail", "all firing 1")
		w.publish(nil)
		time.Sleep(time.Minute)
		w.are("in-sync", "a")
		time.Sleep(time.Hour)
		w.want("mail", "all firing 1")
	})
}

// TestItGoesOnWhereReportsWereForgotten: what is so is seen again.
func TestItGoesOnWhereReportsWereForgotten(t *testing.T) {
	simulate(t, waits("chat"), func(w *world) {
		time.Sleep(time.Minute)
		w.stop()
		for range 5 {
			w.are("in-sync", "a")
			w.are("hold", "a")
		}
		_, err := w.store.SaveEnforced(w.Context(), w.lease, []store.Enforced{{Asset: "a", Type: "t", Incarnation: intent.IncarnationID{Partition: w.lease.Partition, Sequence: 1}, At: time.Now()}})
		must(w.T, err)
		_, err = w.store.Collect(w.Context(), w.lease, store.Retention{Incarnations: 1, History: time.Hour, Reports: 1}, time.Now())
		must(w.T, err)
		w.are("stop", "b")
		w.start()
		time.Sleep(time.Minute)
		w.want("chat", "all firing 1; all firing 1")
	})
}

// TestALostLeaseEndsIt: who acts now tells.
func TestALostLeaseEndsIt(t *testing.T) {
	simulate(t, waits("chat"), func(w *world) {
		time.Sleep(time.Minute)
		stale := w.ended
		lease, err := w.store.Acquire(w.Context(), w.lease.Partition, "other")
		must(w.T, err)
		w.lease = lease
		w.are("hold", "a")
		time.Sleep(time.Minute)
		if err := <-stale; err == nil || !strings.Contains(err.Error(), "not current") {
			t.Errorf("it ended with %v", err)
		}
		w.want("chat", "")
		w.start()
		time.Sleep(time.Minute)
		w.want("chat", "all firing 1")
	})
}

// TestAFailedPushIsTold by the condition of docs/operate/notifications.md: the first one too,
// before which nothing was in the way, so that no report of it was kept.
func TestAFailedPushIsTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/notifications.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "  failed:\n    when: ")
	when, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("the page has no such condition")
	}
	simulate(t, []*intentpb.Notification{{Name: "failed", When: when, To: []string{"chat"}}}, func(w *world) {
		w.are("in-sync", "a")
		must(w.T, w.store.SaveReports(w.Context(), w.lease, []intent.Report{{Asset: "a", At: time.Now(), State: intent.StatePushing, Push: "1"}}))
		w.are("backoff", "a")
		time.Sleep(time.Minute)
		w.want("chat", "failed firing 1")
	})
}

// TestALongRehearsalEnds: what is repeated for years takes no memory without end.
func TestALongRehearsalEnds(t *testing.T) {
	simulate(t, waits("chat"), func(w *world) {
		began := time.Now()
		w.are("stop", "a")
		told, err := notify.Rehearse(w.Context(), w.store, w.lease.Partition, began, began.Add(5*365*24*time.Hour))
		must(w.T, err)
		if len(told.Messages) != 10_000 || len(told.Unknown) != 1 || !strings.Contains(told.Unknown[0], "there is more") {
			w.Errorf("%d messages, not known: %q", len(told.Messages), told.Unknown)
		}
	})
}

// TestRehearsal: what the past would have told is what was told.
func TestRehearsal(t *testing.T) {
	simulate(t, waits("chat"), func(w *world) {
		began, number := time.Now(), detector.Scale(1500, 150)
		w.are("stop", many(number)...)
		time.Sleep(90 * time.Minute)
		w.are("in-sync", many(number)...)
		time.Sleep(10 * time.Minute)
		w.are("hold", "late")
		time.Sleep(10 * time.Minute)
		w.want("chat", fmt.Sprintf("all firing %d; all firing %d; all resolved 0; all firing 1", number, number))
		rehearsed := func(since time.Time) string {
			told, err := notify.Rehearse(w.Context(), w.store, w.lease.Partition, since, time.Now())
			must(w.T, err)
			var words []string
			for _, m := range told.Messages {
				words = append(words, fmt.Sprintf("%s %s %d", m.Name, m.Status, m.Count))
			}
			return strings.Join(words, "; ")
		}
		if all := rehearsed(began.Add(-time.Hour)); all != w.took("chat") {
			t.Errorf("a rehearsal of all tells %s", all)
		}
		if last := rehearsed(time.Now().Add(-15 * time.Minute)); last != "all firing 1" {
			t.Errorf("a rehearsal of the last minutes tells %s", last)
		}
	})
}
