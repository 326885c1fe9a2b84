package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/storetest"
)

// TestAPlanDelaysNoOtherPartition: plans of one partition are made one by one (S12).
func TestAPlanDelaysNoOtherPartition(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.AddPartition(t.Context(), "bank", "/bank/lehr.yaml", "a try", ann))
	bank, err := w.store.Acquire(t.Context(), "bank", "test")
	w.must(err)
	for _, lease := range []store.Lease{w.lease, bank} {
		w.must(w.store.SaveCandidate(t.Context(), lease, intent.Candidate{ID: intent.CandidateID{Partition: lease.Partition, Digest: intent.Sum("c")}, State: intent.CandidateHeld}, []store.Entry{storetest.Text("a", "1")}))
	}
	began, over := make(chan struct{}), make(chan struct{})
	api := server.New(server.Options{
		Store: w.store, Schemas: builtin{}, Runtime: loop.Real(), Identify: access.CallerOf, Location: "memory", Version: "test",
		Plan: func(ctx context.Context, candidate intent.Candidate) (server.Plan, error) {
			if candidate.ID.Partition == "shop" {
				began <- struct{}{}
				<-over
			}
			return server.Plan{}, nil
		},
	})
	plan := func(ctx context.Context, partition string) error {
		_, err := api.PlanCandidate(ctx, &apipb.PlanCandidateRequest{Partition: partition})
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- plan(t.Context(), "shop") }()
	<-began
	w.must(plan(t.Context(), "bank"))
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := plan(impatient, "shop"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "another plan of shop is under way") {
		t.Errorf("two plans of one partition: %v", err)
	}
	close(over)
	w.must(<-ended)
}
