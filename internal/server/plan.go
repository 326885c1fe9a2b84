package server

import (
	"context"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Plan is what something would change in production, and what would be in the
// way.
type Plan struct {
	// Base is what it changes; zero: nothing was there.
	Base intent.IncarnationID
	// Reports of assets, as they would be, in the order of their ids.
	Reports []intent.Report
	// Removed would leave intent.
	Removed []intent.AssetID
	// Loosened says what the policy would ask for no longer, or less of.
	Loosened []string
}

// Message is the answer that says so.
func (p Plan) Message(head intent.IncarnationID) *apipb.PlanCandidateResponse {
	const most = 10_000
	response := &apipb.PlanCandidateResponse{Base: name(p.Base), Head: name(head), Loosened: p.Loosened}
	for _, report := range p.Reports[:min(most, len(p.Reports))] {
		response.Reports = append(response.Reports, toReport(report))
	}
	response.More = int32(len(p.Reports) - len(response.Reports))
	for _, asset := range p.Removed[:min(most, len(p.Removed))] {
		response.Removed = append(response.Removed, string(asset))
	}
	return response
}

func name(id intent.IncarnationID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// PlanCandidate has one planned at a time: each looks at a whole partition. One that
// takes long delays no other partition's (S12).
func (s *Server) PlanCandidate(ctx context.Context, request *apipb.PlanCandidateRequest) (*apipb.PlanCandidateResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	candidate, err := s.candidate(ctx, partition.ID, request.Candidate)
	if err != nil {
		return nil, err
	}
	if s.plan == nil {
		return nil, fault.New(fault.Unavailable, "no server runs here that has plugins to look with").WithHint("start one with: lehr serve")
	}
	entry, _ := s.planning.LoadOrStore(partition.ID, make(chan struct{}, 1))
	slot := entry.(chan struct{})
	select {
	case slot <- struct{}{}:
		defer func() { <-slot }()
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "another plan of %s is under way: %w", partition.ID, ctx.Err())
	}
	plan, err := s.plan(ctx, candidate)
	if err != nil {
		return nil, err
	}
	response := plan.Message(partition.Head)
	response.State = string(candidate.State)
	return response, nil
}
