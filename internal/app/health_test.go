package app_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/store"
)

// ailing is a store that does not answer while it is away, and whose next
// enforcers' reads never end while it is mute.
type ailing struct {
	store.All
	away, mute atomic.Bool
	// stuck: scrapes wait until their time is over, and asking counts them.
	stuck  atomic.Bool
	asking atomic.Int64
}

func (s *ailing) Replicas(ctx context.Context) ([]store.Replica, error) {
	if s.stuck.Load() {
		s.asking.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.All.Replicas(ctx)
}

func (s *ailing) Identity(ctx context.Context) (string, error) {
	if s.away.Load() {
		return "", errors.New("away")
	}
	return s.All.Identity(ctx)
}

func (s *ailing) Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error) {
	if s.mute.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.All.Pins(ctx, partition)
}

// leaping is a runtime whose clock can be put forward.
type leaping struct {
	loop.Runtime
	by atomic.Int64
}

func (l *leaping) Now() time.Time { return l.Runtime.Now().Add(time.Duration(l.by.Load())) }

// watched is an app that listens, over a store that ails, with an address for
// metrics.
func watched(t *testing.T, register map[intent.PartitionID]string) (*app.App, *ailing, *leaping) {
	ails, clock := &ailing{}, &leaping{Runtime: loop.Real()}
	running, _ := begin(t, newProduction(), register, func(o *app.Options) {
		ails.All = o.Parts.Store
		o.Parts.Store, o.Parts.Runtime = ails, clock
		o.Store, o.Listen, o.Metrics = filepath.Join(t.TempDir(), "lehr.db"), "127.0.0.1:0", "127.0.0.1:0"
	})
	return running, ails, clock
}

// get asks without a credential, by a name that the server does not know.
func get(t *testing.T, url, host, token string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(read)
}

// What is asked over and over again must come to be so, and name no tenant.
func becomes(t *testing.T, url string, status int, says string) {
	t.Helper()
	eventually(t, url+" says "+says, func() bool {
		got, body := get(t, url, "10.1.2.3:7474", "")
		if strings.Contains(body, "secretive") {
			t.Fatalf("it names a tenant: %s", body)
		}
		return got == status && strings.Contains(body, says)
	})
}

func TestHealth(t *testing.T) {
	running, ails, clock := watched(t, map[intent.PartitionID]string{"secretive": partition(t, "secretive", "a")})
	server, monitoring := running.Address().URL, "http://"+running.Monitoring()
	for _, address := range []string{server, monitoring} {
		becomes(t, address+"/healthz", 200, "alive")
		becomes(t, address+"/readyz", 200, "ready")
	}
	health := connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](
		http.DefaultClient, server+"/grpc.health.v1.Health/Check", connect.WithGRPCWeb())
	serving := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		answer, err := health.CallUnary(t.Context(), connect.NewRequest(&grpc_health_v1.HealthCheckRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Msg.Status
	}
	if got := serving(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("gRPC is told %s", got)
	}
	if _, err := health.CallUnary(t.Context(), connect.NewRequest(&grpc_health_v1.HealthCheckRequest{Service: "x"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("of another service gRPC is told %v", err)
	}

	ails.away.Store(true)
	becomes(t, server+"/readyz", 503, "not ready\n- the store does not answer")
	becomes(t, server+"/healthz", 200, "alive")
	if got := serving(); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("without a store gRPC is told %s", got)
	}
	ails.away.Store(false)
	becomes(t, server+"/readyz", 200, "ready")

	// An enforcer that does not come back from a step is no life. That its store
	// did not answer meanwhile is.
	ails.mute.Store(true)
	if err := ails.SetHold(t.Context(), "secretive", intent.Hold{Asset: "a", Owner: by, Reason: "something is to be read"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the enforcer is at one step", func() bool { return metric(t, running, `lehr_enforcer_step_seconds{partition="secretive"}`) > 0 })
	clock.by.Store(int64(90 * time.Second))
	becomes(t, server+"/healthz", 200, "alive")
	ails.away.Store(true)
	becomes(t, server+"/readyz", 503, "the store")
	ails.away.Store(false)
	clock.by.Store(int64(190 * time.Second)) // 100 s after the store was away.
	becomes(t, server+"/healthz", 200, "alive")
	clock.by.Store(int64(5 * time.Minute))
	becomes(t, server+"/healthz", 503, "not alive\n- 1 of the partitions' enforcers have been at one step for more than 2m0s")
}

// A partition that cannot be served makes the replica unready when it is the only
// one, and not when others are served.
func TestOneTenantDoesNotMakeAReplicaUnready(t *testing.T) {
	running, _, _ := watched(t, map[intent.PartitionID]string{"secretive": partition(t, "secretive", "a")})
	becomes(t, running.Address().URL+"/readyz", 200, "ready\n")
	p := newProduction()
	p.poison["bad"] = 1 << 30
	broken, opened := begin(t, p, map[intent.PartitionID]string{"secretive": partition(t, "secretive", "bad")}, func(o *app.Options) {
		o.Store, o.Listen = filepath.Join(t.TempDir(), "lehr.db"), "127.0.0.1:0"
	})
	becomes(t, broken.Address().URL+"/readyz", 503, "not ready\n- 1 of 1 partitions are not served: enforcer (1)")
	if err := opened.AddPartition(t.Context(), "other", partition(t, "other", "good"), "a try", by); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other partition is served", func() bool { return p.has("good") })
	becomes(t, broken.Address().URL+"/readyz", 200, "ready\n- 1 of 2 partitions are not served: enforcer (1)")
}

// speechless is a store of which nobody learns what was told.
type speechless struct{ store.All }

func (s speechless) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	if kind == notify.BlobKind {
		return nil, errors.New("unreadable")
	}
	return s.All.GetBlob(ctx, partition, kind, name)
}

// That nobody can be told of the only partition makes no replica unready: it is served.
func TestWhoTellsNobodyIsReady(t *testing.T) {
	p := newProduction()
	policy := filepath.Join(t.TempDir(), "notifications.yaml")
	if err := os.WriteFile(policy, []byte("notifications: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	running, _ := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "good")}, func(o *app.Options) {
		o.Store, o.Listen, o.Notifications = filepath.Join(t.TempDir(), "lehr.db"), "127.0.0.1:0", policy
		o.Parts.Store = speechless{o.Parts.Store}
	})
	eventually(t, "the partition is served", func() bool { return p.has("good") })
	becomes(t, running.Address().URL+"/readyz", 200, "ready\n- notifications of 1 of 1 partitions are not sent")
}

// metric returns a sample of what the app shows, or 0 when there is none.
func metric(t *testing.T, running *app.App, sample string) float64 {
	t.Helper()
	_, text := get(t, "http://"+running.Monitoring()+"/metrics", "", "")
	return sampleOf(t, text, sample)
}
