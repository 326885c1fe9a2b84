package commitstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const shop intent.PartitionID = "shop"

var (
	ann            = intent.Actor{Name: "ann", Origin: "test"}
	first, second  = strings.Repeat("1", 40), strings.Repeat("2", 40)
	inTest, inProd = "lehr/shop/web/test", "lehr/shop/web/production"
)

// host is a small git host of either kind, which keeps statuses as the APIs do.
type host struct {
	*httptest.Server
	sync.Mutex
	kind githost.Kind
	// away answers come before any other; posts counts what was written.
	away, posts int
	statuses    map[string][]map[string]string
}

func newHost(t *testing.T, kind githost.Kind) *host {
	h := &host{kind: kind, statuses: map[string][]map[string]string{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *host) poster() Poster {
	return githost.Host{Kind: h.kind, API: h.URL, Repository: "team/shop", Token: func() (string, error) { return "t", nil }, Runtime: loop.Real()}
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Lock()
	defer h.Unlock()
	if h.away > 0 {
		h.away--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method == http.MethodPost {
		h.posts++
		sent := map[string]string{}
		_ = json.NewDecoder(r.Body).Decode(&sent)
		if h.kind == githost.GitLab {
			sent["context"], sent["status"] = sent["name"], sent["state"]
		}
		commit := parts[len(parts)-1]
		h.statuses[commit] = append([]map[string]string{sent}, h.statuses[commit]...)
		_ = json.NewEncoder(w).Encode(sent)
		return
	}
	_ = json.NewEncoder(w).Encode(h.statuses[parts[len(parts)-2]])
}

// status is the newest of a context at a commit.
func (h *host) status(commit, context string) string {
	h.Lock()
	defer h.Unlock()
	for _, s := range h.statuses[commit] {
		if s["context"] == context {
			return s["state"] + ": " + s["description"]
		}
	}
	return ""
}

// await a status, for as long as a busy machine may take.
func (h *host) await(t *testing.T, commit, context, want string) {
	t.Helper()
	const most = 3 * time.Minute
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if h.status(commit, context) == want {
			return
		}
	}
	t.Fatalf("%s at %.7s is %q, want %q", context, commit, h.status(commit, context), want)
}

type schemas struct{}

func (schemas) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newShop is a store with a partition whose application moves from test to production.
func newShop(t *testing.T) (*sqlite.Store, store.Lease) {
	db, err := sqlite.Memory()
	must(t, err)
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { s.Close(); db.Close() })
	ctx := t.Context()
	must(t, s.AddPartition(ctx, shop, "/shop/lehr.yaml", "a try", ann))
	lease, err := s.Acquire(ctx, shop, "server")
	must(t, err)
	_, err = s.CreateDocument(ctx, shop, "knobs", []byte(`{"test":"1.0.0","production":"1.0.0"}`), "from the wiki", ann)
	must(t, err)
	policy := &intentpb.Policy{Deliveries: []*intentpb.Delivery{{
		Name: "web", Versions: "images", Order: &intentpb.VersionOrder{}, Environments: []*intentpb.DeliveryEnvironment{
			{Name: "test", Document: "knobs", Pointer: "/test", Source: "knobs", Assets: `id == "web/test"`},
			{
				Name: "production", Document: "knobs", Pointer: "/production", Source: "knobs", Assets: `id == "web/production"`,
				Constraints: []*intentpb.DeliveryConstraint{{Name: "people", Kind: &intentpb.DeliveryConstraint_Judgement{Judgement: &intentpb.Judgement{}}}},
			},
		},
	}}}
	publish(t, s, lease, policy)
	var versions []intent.Version
	for name, commit := range map[string]string{"1.0.0": first, "1.1.0": second} {
		versions = append(versions, intent.Version{VersionName: intent.VersionName{Name: name, Digest: "sha256:" + name}, Commit: commit})
	}
	must(t, s.SaveVersions(ctx, lease, "images", versions))
	return s, lease
}

func publish(t *testing.T, s *sqlite.Store, lease store.Lease, payload proto.Message) {
	set := schema.Builtin()
	packed, err := set.Pack(payload)
	must(t, err)
	body, digest, err := set.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: packed})
	must(t, err)
	entry := store.Entry{Asset: intent.PolicyAsset, Body: body, Member: intent.Member{Asset: intent.PolicyAsset, Type: packed.Type, Digest: digest, Effective: digest}}
	must(t, s.Stage(t.Context(), lease, intent.IncarnationID{}, []store.Entry{entry}))
	_, err = s.Publish(t.Context(), lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: shop, Sequence: 1}, Count: 1, Author: ann, Created: time.Now().UTC(), Policy: digest, Schema: set.Digest(),
	})
	must(t, err)
}

// start an actor, and return what ends it.
func start(t *testing.T, lease store.Lease, run func(context.Context, store.Lease) error) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx, lease)
	}()
	end = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(end)
	return end
}

// Statuses follow what delivery does, at hosts of both kinds of which one is away at first. Each is
// posted once, also over a restart.
func TestStatusesFollowDelivery(t *testing.T) {
	s, lease := newShop(t)
	github, gitlab := newHost(t, githost.GitHub), newHost(t, githost.GitLab)
	gitlab.away = 2
	reader := &delivery.Reader{Store: s, Schemas: schemas{}}
	log := slog.New(slog.DiscardHandler)
	newTeller := func() *Teller {
		return New(Options{Partition: shop, Store: s, Reader: reader, Runtime: loop.Real(), Log: log, Hosts: func(application string) map[string]Poster {
			if application != "web" {
				t.Errorf("hosts of %s are asked for", application)
			}
			return map[string]Poster{"hub": github.poster(), "lab": gitlab.poster()}
		}})
	}
	start(t, lease, delivery.New(delivery.Options{Partition: shop, Store: s, Reader: reader, Runtime: loop.Real(), Log: log}).Run)
	end := start(t, lease, newTeller().Run)
	for h, word := range map[*host]string{github: "pending", gitlab: "running"} {
		h.await(t, second, inTest, word+": 1.1.0 comes to test")
		h.await(t, second, inProd, "pending: 1.1.0 waits for people before production")
	}
	end()
	posts := github.posts

	// A new process posts nothing again, and says what becomes of it.
	start(t, lease, newTeller().Run)
	_, err := s.RecordDelivery(t.Context(), intent.DeliveryRecord{
		Partition: shop, Application: "web", Kind: intent.DeliveryAct, Act: intent.ActMarkBad, Version: intent.VersionName{Name: "1.1.0", Digest: "sha256:1.1.0"}, By: ann, Reason: "it loses writes",
	}, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}})
	must(t, err)
	for h, word := range map[*host]string{github: "failure", gitlab: "failed"} {
		h.await(t, second, inTest, word+": 1.1.0 in test was found bad, and is rolled back")
		h.await(t, second, inProd, word+": 1.1.0 was found bad, and is kept out of production")
	}
	seen := map[string]bool{}
	github.Lock()
	defer github.Unlock()
	for commit, list := range github.statuses {
		for _, status := range list {
			key := fmt.Sprint(commit, status)
			if seen[key] {
				t.Errorf("posted twice: %s", key)
			}
			seen[key] = true
		}
	}
	if posts == 0 {
		t.Error("the first process posted nothing")
	}
}

// A commit that a host does not have delays no other, and is not tried again and again.
func TestACommitThatAHostDoesNotHave(t *testing.T) {
	s, lease := newShop(t)
	missing := &refusing{asked: map[string]int{}}
	teller := New(Options{
		Partition: shop, Store: s, Reader: &delivery.Reader{Store: s, Schemas: schemas{}}, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler),
		Hosts: func(string) map[string]Poster { return map[string]Poster{"hub": missing} },
	})
	teller.lease = lease
	for range 3 {
		must(t, teller.pass(t.Context()))
	}
	if len(missing.asked) < 2 {
		t.Errorf("asked for %v", missing.asked)
	}
	for key, count := range missing.asked {
		if count != 1 {
			t.Errorf("%s was posted %d times", key, count)
		}
	}
}

// refusing has no commit.
type refusing struct{ asked map[string]int }

func (r *refusing) PostStatus(_ context.Context, s githost.Status) (bool, error) {
	r.asked[s.Commit+" "+s.Context]++
	return false, fault.New(fault.NotFound, "no such commit")
}
