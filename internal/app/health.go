package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/loop"
)

const (
	// stuckAfter is how long an enforcer may be at one step before the process
	// counts as no longer alive. A step waits for nothing but the store.
	stuckAfter = 2 * time.Minute
	// heldUpAfter is how long a commit may take before the store counts as away.
	heldUpAfter = 15 * time.Second
	// storePatience is how long the store may take to answer whether it is there.
	storePatience = 2 * time.Second
	// notifier is the actor without which a partition is served all the same.
	notifier = "notifier"
	// askStoreAgain bounds how often whoever asks makes it be asked.
	askStoreAgain = time.Second
)

// heartbeat is what was found of the store last, for those who ask whether the
// process is well. Many who ask make one question.
type heartbeat struct {
	mutex   sync.Mutex
	askedAt time.Time
	err     error
	// failed is when it last did.
	failed time.Time
}

// beat reports whether the store answers, and when it last did not.
func (a *App) beat(ctx context.Context) (err error, failed time.Time) {
	h := &a.heartbeat
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if now := a.runtime.Now(); h.askedAt.IsZero() || now.Sub(h.askedAt) >= askStoreAgain {
		// Not by the caller's context: others get its answer too.
		bounded, cancel := loop.WithTimeout(context.WithoutCancel(ctx), a.runtime, storePatience)
		_, h.err = a.store.Identity(bounded)
		cancel()
		h.askedAt = a.runtime.Now()
		if h.err != nil {
			h.failed = h.askedAt
		}
	}
	return h.err, h.failed
}

// dead lists what shows that the process does not work any more, and would if it
// were started again; nothing of any tenant is told. What the store is waited for
// is no reason: it would be waited for again.
func (a *App) dead(ctx context.Context) (reasons []string) {
	storeErr, failed := a.beat(ctx)
	if storeErr != nil {
		return nil
	}
	now := a.runtime.Now()
	stuck := 0
	for _, s := range a.heldStates() {
		start := s.measure.Enforcer.Step.At()
		if start.IsZero() {
			continue
		}
		if start.Before(failed) {
			start = failed
		}
		if now.Sub(start) > stuckAfter {
			stuck++
		}
	}
	if stuck > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of the partitions' enforcers have been at one step for more than %s", stuck, stuckAfter))
	}
	return reasons
}

// unready lists why the process cannot do its work now, and remarks on what it
// can not; nothing of any tenant is told. That some partitions are not served is
// a remark: what one tenant causes is no reason to turn away all (S12).
func (a *App) unready(ctx context.Context) (reasons, remarks []string) {
	if !a.followed.Load() {
		return []string{"it is starting"}, nil
	}
	if storeErr, _ := a.beat(ctx); storeErr != nil {
		reasons = append(reasons, fmt.Sprintf("the store does not answer within %s", storePatience))
	}
	if start := a.outage.lasting(); !start.IsZero() {
		reasons = append(reasons, "the database cannot be used since "+start.UTC().Format(time.RFC3339))
	}
	if commitDuration := a.measures.Store.Step.Since(a.runtime.Now()); commitDuration > heldUpAfter {
		reasons = append(reasons, fmt.Sprintf("a commit of the store takes %s already", commitDuration.Round(time.Second)))
	}
	if a.store.AuditTrouble() != "" {
		reasons = append(reasons, "the audit cannot be written, so nothing is changed; the server's log says why")
	}
	failing, all := map[string]int{}, 0
	broken, silent := 0, 0
	for _, s := range a.heldStates() {
		all++
		actors := s.failing()
		if at := slices.Index(actors, notifier); at >= 0 {
			silent, actors = silent+1, slices.Delete(actors, at, at+1)
		}
		if len(actors) > 0 {
			broken++
		}
		for _, actor := range actors {
			failing[actor]++
		}
	}
	if silent > 0 { // Balancers are not to turn away whoever looks for themselves.
		remarks = append(remarks, fmt.Sprintf("notifications of %d of %d partitions are not sent", silent, all))
	}
	if broken == 0 {
		return reasons, remarks
	}
	text := fmt.Sprintf("%d of %d partitions are not served:", broken, all)
	for _, actor := range []string{"lease", "pipeline", "enforcer", "collector"} {
		if failing[actor] > 0 {
			text += fmt.Sprintf(" %s (%d)", actor, failing[actor])
		}
	}
	if broken == all {
		return append(reasons, text), remarks
	}
	return reasons, append(remarks, text)
}

// heldStates are the states of the partitions that are for this replica to serve.
func (a *App) heldStates() (list []*state) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, s := range a.states {
		if !s.elsewhere() {
			list = append(list, s)
		}
	}
	return list
}

// probes lets whoever reaches the server ask whether it is well: orchestrators and
// balancers have no token, and ask by whatever name they know.
func (a *App) probes(routes *access.Routes) {
	routes.Handle("GET /healthz", access.NeedsNoName, http.HandlerFunc(a.serveAlive))
	routes.Handle("GET /readyz", access.NeedsNoName, http.HandlerFunc(a.serveReady))
	routes.Handle(grpcHealth, access.NeedsNoName, connect.NewUnaryHandler(grpcHealth, a.checkHealth, connect.WithReadMaxBytes(maxProbeBytes)))
}

const (
	// grpcHealth is how gRPC asks what /readyz tells.
	grpcHealth    = "/" + "grpc.health.v1.Health/Check"
	maxProbeBytes = 4 << 10
)

func (a *App) serveAlive(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, "alive", a.dead(r.Context()), nil)
}

func (a *App) serveReady(w http.ResponseWriter, r *http.Request) {
	reasons, remarks := a.unready(r.Context())
	answerProbe(w, "ready", reasons, remarks)
}

func answerProbe(w http.ResponseWriter, status string, reasons, remarks []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if len(reasons) > 0 {
		status = "not " + status
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, strings.Join(append(append([]string{status}, reasons...), remarks...), "\n- "))
}

// checkHealth knows the server as a whole only, by the empty name.
func (a *App) checkHealth(ctx context.Context, request *connect.Request[grpc_health_v1.HealthCheckRequest]) (*connect.Response[grpc_health_v1.HealthCheckResponse], error) {
	if name := request.Msg.Service; name != "" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the health of %.100q is not known apart: ask for that of \"\"", name))
	}
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if reasons, _ := a.unready(ctx); len(reasons) > 0 {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return connect.NewResponse(&grpc_health_v1.HealthCheckResponse{Status: status}), nil
}
