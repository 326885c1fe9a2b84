package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/internal/web"
)

// receiver is a real server that takes messages, or answers 503.
type receiver struct {
	*httptest.Server
	lock sync.Mutex
	down bool
	// got are messages that were taken, and refused counts those that were not.
	got     []notify.Message
	refused int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.lock.Lock()
		defer r.lock.Unlock()
		var m notify.Message
		if r.down || json.Unmarshal(body, &m) != nil {
			r.refused++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.got = append(r.got, m)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) set(down bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.down = down
}

// await that something is so of what was taken.
func (r *receiver) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		r.lock.Lock()
		done := so()
		r.lock.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s; it took %+v", what, r.got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sending is a world whose notifier sends to a real receiver, and is started and ended again.
type sending struct {
	*world
	target *receiver
	// begin starts the notifier, and returns what ends it.
	begin func() (end func())
}

func newSending(t *testing.T) *sending {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	db, err := sqlite.Memory()
	must(t, err)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Log: log})
	must(t, err)
	t.Cleanup(func() { s.Close(); db.Close() })
	w := &sending{world: &world{T: t, store: s, lease: storetest.Register(t, s)}, target: newReceiver(t)}
	t.Setenv("CHAT_URL", w.target.URL)
	policy := filepath.Join(t.TempDir(), "notifications.yaml")
	must(t, os.WriteFile(policy, []byte("notifications: v1\nnetworks: [127.0.0.0/8, '::1/128']\ntargets:\n- {name: chat, webhook: {env: CHAT_URL}, partitions: ['*']}\n"), 0o600))
	base, err := url.Parse("https://lehr.example.com")
	must(t, err)
	w.begin = func() (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		n := notify.New(notify.Options{
			Partition: w.lease.Partition, Store: s, Runtime: loop.Real(), Log: log, Send: (&notify.Sender{Path: policy}).Send, Links: &web.Links{Base: base},
		})
		go func() { ended <- n.Run(ctx, w.lease) }()
		return func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the notifier ended with %v", err)
			}
		}
	}
	return w
}

// state is what the notifier has stored.
func (w *sending) state() *notify.State {
	w.Helper()
	state, err := notify.Load(w.Context(), w.store, w.lease.Partition)
	if err != nil {
		return notify.NewState() // It is being written.
	}
	return state
}

// What happens to versions is told of once, with a link, over restarts between what happened and the
// delivery, and while nobody takes it.
func TestDeliveriesAreToldOfOverRestarts(t *testing.T) {
	w := newSending(t)
	s, target, start := w.store, w.target, w.begin
	following := func() bool { return w.state().Delivered != nil }
	settled := func() bool { return len(w.state().Outbox) == 0 }
	add := func(rows ...intent.DeliveryRecord) {
		t.Helper()
		partition, err := s.Partition(t.Context(), w.lease.Partition)
		must(t, err)
		for i := range rows {
			rows[i].Version = intent.VersionName{Name: rows[i].Version.Name, Digest: "sha256:" + rows[i].Version.Name}
			rows[i].By, rows[i].Environment = intent.DeliveryHolder(w.lease.Partition, "web"), "production"
		}
		must(t, s.Promote(t.Context(), w.lease, store.PromotionStep{
			Home: w.lease.Partition, Application: "web", Revision: partition.Revision, HomeRevision: partition.Revision, Records: rows,
		}))
	}
	named := func(name string) intent.VersionName { return intent.VersionName{Name: name} }
	// What was before nobody is told.
	w.publish([]*intentpb.Notification{{Name: "moves", OfDelivery: true, When: `delivery.event != "failed"`, To: []string{"chat"}}})
	add(intent.DeliveryRecord{Kind: intent.DeliveryPromotion, Version: named("1.0"), Reason: "production of web gets 1.0"})
	stop := start()
	target.await(t, "it follows deliveries", following)
	stop()
	// It happens while nobody looks.
	add(
		intent.DeliveryRecord{Kind: intent.DeliveryWait, Version: named("1.1"), Constraint: "people", Cause: intent.CauseNeedsPeople, Reason: "0 of 1 have approved"},
		intent.DeliveryRecord{Kind: intent.DeliveryWait, Version: named("1.1"), Constraint: "hours", Cause: "closed"},
		intent.DeliveryRecord{Kind: intent.DeliveryAttempt, Version: named("1.1"), Reason: "not asked for"},
	)
	target.set(true)
	stop = start()
	target.await(t, "it is sent, and not taken", func() bool { return target.refused > 0 })
	stop()
	add(intent.DeliveryRecord{Kind: intent.DeliveryPromotion, Version: named("1.1"), Reason: "production of web gets 1.1"})
	stop = start()
	add(intent.DeliveryRecord{Kind: intent.DeliveryVeto, Version: named("1.1"), Rollout: "slow, run 1", Reason: "errors doubled"})
	add(intent.DeliveryRecord{Kind: intent.DeliveryPromotion, Version: named("1.0"), Back: true, Reason: "production of web gets 1.0"})
	target.set(false)
	target.await(t, "all four are taken", func() bool { return len(target.got) >= 4 })
	target.await(t, "that is stored", settled) // Killed before, it would send the last one again, with its id.
	stop()
	stop = start()
	add(intent.DeliveryRecord{Kind: intent.DeliveryPromotion, Version: named("1.2"), Reason: "production of web gets 1.2"})
	target.await(t, "what comes after is taken", func() bool { return len(target.got) >= 5 })
	stop()
	page := "https://lehr.example.com/partition/" + string(w.lease.Partition)
	want := []struct{ event, version, title, link string }{
		{"waiting", "1.1", "1.1 of web waits for people in production: 0 of 1 have approved", page + "/act/delivery-approve?application=web&constraint=people&digest=sha256%3A1.1&environment=production&version=1.1"},
		{"promoted", "1.1", "production of web gets 1.1", page + "/environment/production?application=web"},
		{"vetoed", "1.1", "1.1 of web is found bad in production by rollout slow, run 1: errors doubled", page + "/version/1.1?application=web&digest=sha256%3A1.1"},
		{"rolled-back", "1.0", "production of web gets 1.0", page + "/environment/production?application=web"},
		{"promoted", "1.2", "production of web gets 1.2", page + "/environment/production?application=web"},
	}
	ids := map[string]bool{}
	for i, m := range target.got {
		if i >= len(want) || m.Delivery == nil || string(m.Delivery.Event) != want[i].event || m.Delivery.Version != want[i].version || !strings.HasSuffix(m.Title, "moves: "+want[i].title) ||
			m.Link != want[i].link || m.Status != "happened" {
			t.Fatalf("message %d is %+v of %+v", i, m, m.Delivery)
		}
		if ids[m.ID] {
			t.Errorf("message %s came twice", m.ID)
		}
		ids[m.ID] = true
	}
	rehearsal, err := notify.Rehearse(t.Context(), s, w.lease.Partition, time.Now().Add(-time.Hour), time.Now())
	must(t, err)
	if len(rehearsal.Messages) != 6 {
		t.Errorf("the past would have told %d messages, want 6: %+v", len(rehearsal.Messages), rehearsal)
	}
}

// A target that takes Slack's messages gets links as they are, whatever a tenant chose.
func TestApprovalsHaveLinks(t *testing.T) {
	base, err := url.Parse("https://lehr.example.com")
	must(t, err)
	links := &web.Links{Base: base}
	plan := intent.Sum("a plan")
	want := "https://lehr.example.com/partition/shop/act/approve?asset=web%2Fa&plan=" + plan.String()
	if got := links.Approval("shop", "web/a", plan); got != want {
		t.Errorf("the link is %s, want %s", got, want)
	}
	want = "https://lehr.example.com/partition/shop/act/rollout-approve?rollout=jobs&run=4&stage=rest"
	if got := links.Stage("shop", "jobs", 4, "rest"); got != want {
		t.Errorf("the link is %s, want %s", got, want)
	}
}
