package server

import (
	"context"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/preview"
)

const (
	usualPage = 100
	mostPage  = 1000
)

func (s *Server) ListIncarnations(ctx context.Context, request *apipb.ListIncarnationsRequest) (*apipb.ListIncarnationsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	incarnations, err := s.store.Incarnations(ctx, partition.ID, intent.Sequence(request.Before), limit)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListIncarnationsResponse{}
	for _, i := range incarnations {
		described, err := s.describeIncarnation(ctx, partition.Head, i)
		if err != nil {
			return nil, err
		}
		response.Incarnations = append(response.Incarnations, described)
	}
	if len(incarnations) == limit {
		response.Next = uint64(incarnations[limit-1].ID.Sequence)
	}
	return response, nil
}

func (s *Server) GetIncarnation(ctx context.Context, request *apipb.GetIncarnationRequest) (*apipb.GetIncarnationResponse, error) {
	if strings.Contains(request.Id, "@~") && request.At == nil && request.Label == "" {
		return s.candidateAsIncarnation(ctx, request)
	}
	incarnation, err := s.incarnation(ctx, request)
	if err != nil {
		return nil, err
	}
	id := incarnation.ID
	limit := page(request.Changes, usualPage, mostPage)
	changes, err := s.store.Changes(ctx, incarnation.Parent, id, "", limit+1)
	if fault.Is(err, fault.NotFound) {
		changes, err = nil, nil // The parent was collected.
	}
	if err != nil {
		return nil, err
	}
	partition, err := s.store.Partition(ctx, id.Partition)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	response := &apipb.GetIncarnationResponse{}
	if response.Incarnation, err = s.describeIncarnation(ctx, partition.Head, incarnation); err != nil {
		return nil, err
	}
	response.Incarnation.Trace = s.traced(id.String(), incarnation.Created)
	response.MoreChanges = len(changes) > limit
	response.Changes = convertEach(changes[:min(limit, len(changes))], toChange)
	return response, nil
}

// candidateAsIncarnation says what a candidate would be, and what it would change.
func (s *Server) candidateAsIncarnation(ctx context.Context, request *apipb.GetIncarnationRequest) (*apipb.GetIncarnationResponse, error) {
	source, err := s.side(ctx, request.Id, preview.First)
	if err != nil {
		return nil, err
	}
	response := &apipb.GetIncarnationResponse{}
	if response.Incarnation, err = s.described(ctx, source); err != nil {
		return nil, err
	}
	limit := page(request.Changes, usualPage, mostPage)
	changes, err := source.store.Changes(ctx, source.candidate.Base, source.id, "", limit+1)
	if err != nil {
		return nil, err
	}
	response.MoreChanges = len(changes) > limit
	response.Changes = convertEach(changes[:min(limit, len(changes))], toChange)
	return response, nil
}

// describeIncarnation says in which state it is.
func (s *Server) describeIncarnation(ctx context.Context, head intent.IncarnationID, i intent.Incarnation) (*apipb.Incarnation, error) {
	described := toIncarnation(i)
	described.State = "superseded"
	if i.ID != head {
		return described, nil
	}
	described.State = "head"
	enforced, err := s.enforced(ctx, i)
	if enforced {
		described.State = "enforced"
	}
	return described, err
}

// enforced reports whether production is as head says: every asset is in sync,
// and those that head changed were looked at since.
func (s *Server) enforced(ctx context.Context, head intent.Incarnation) (bool, error) {
	counts, err := s.store.CountReports(ctx, head.ID.Partition)
	if err != nil || counts[intent.StateInSync] == 0 || counts[intent.StateWaiting]+counts[intent.StatePushing]+counts[intent.StateOff] > 0 {
		return false, err
	}
	policy, err := s.policy(ctx, head.ID)
	if err != nil {
		return false, err
	}
	served := map[intent.TypeName]bool{}
	for _, binding := range policy.GetPlugins() {
		served[intent.TypeName(binding.GetType())] = true
	}
	changes, err := s.store.Changes(ctx, head.Parent, head.ID, "", mostPage)
	if fault.Is(err, fault.NotFound) {
		return true, nil // The parent was collected, long ago.
	}
	if err != nil {
		return false, err
	}
	for _, change := range changes {
		if change.After == nil || !served[change.After.Type] {
			continue
		}
		report, err := s.store.Report(ctx, head.ID.Partition, change.Asset)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return false, err
		}
		if err != nil || report.Target.Sequence < head.ID.Sequence {
			return false, nil
		}
	}
	return true, nil
}

// incarnation is the one that a request names: by its id, or of a partition, by
// time or label, else head.
func (s *Server) incarnation(ctx context.Context, request *apipb.GetIncarnationRequest) (intent.Incarnation, error) {
	if id, err := intent.ParseIncarnationID(request.Id); err == nil || strings.Contains(request.Id, "@") {
		if err == nil && (request.At != nil || request.Label != "") {
			err = fault.New(fault.Invalid, "%s names one incarnation, and a time or a label another", id).
				WithHint("with a time or a label, name only the partition: %s", id.Partition)
		}
		if err != nil {
			return intent.Incarnation{}, err
		}
		return s.store.Incarnation(ctx, id)
	}
	id, err := s.snapshot(ctx, request.Id, moment{at: request.At, label: request.Label})
	if err != nil {
		return intent.Incarnation{}, err
	}
	return s.store.Incarnation(ctx, id)
}

func toChange(c store.Change) *apipb.Change {
	switch {
	case c.Before == nil:
		return &apipb.Change{Asset: string(c.Asset), What: "added", Type: string(c.After.Type)}
	case c.After == nil:
		return &apipb.Change{Asset: string(c.Asset), What: "removed", Type: string(c.Before.Type)}
	default:
		return &apipb.Change{Asset: string(c.Asset), What: "changed", Type: string(c.After.Type)}
	}
}

func (s *Server) ListCandidates(ctx context.Context, request *apipb.ListCandidatesRequest) (*apipb.ListCandidatesResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	candidates, err := s.store.ListCandidates(ctx, partition.ID, page(request.Limit, usualPage, mostPage))
	if err != nil {
		return nil, err
	}
	return &apipb.ListCandidatesResponse{Candidates: convertEach(candidates, toCandidate)}, nil
}

func (s *Server) GetCandidate(ctx context.Context, request *apipb.GetCandidateRequest) (*apipb.GetCandidateResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	candidate, err := s.candidate(ctx, partition.ID, request.Digest)
	if err != nil {
		return nil, err
	}
	response := &apipb.GetCandidateResponse{}
	if response.Candidate, err = s.describeCandidate(ctx, candidate); err != nil {
		return nil, err
	}
	delta, err := s.store.CandidateDelta(ctx, candidate.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	limit := page(request.Changes, usualPage, mostPage)
	response.MoreChanges = len(delta) > limit
	for _, entry := range delta[:min(limit, len(delta))] {
		change := &apipb.Change{Asset: string(entry.Asset), What: "changed", Type: string(entry.Member.Type)}
		if change.What, err = s.whatChanges(ctx, candidate.Base, entry); err != nil {
			return nil, err
		}
		response.Changes = append(response.Changes, change)
	}
	return response, nil
}

// whatChanges tells an added asset of a delta from a changed one.
func (s *Server) whatChanges(ctx context.Context, base intent.IncarnationID, entry store.Entry) (string, error) {
	if entry.Removed {
		return "removed", nil
	}
	if base.IsZero() {
		return "added", nil
	}
	_, err := s.store.Member(ctx, base, entry.Asset)
	if fault.Is(err, fault.NotFound) {
		return "added", nil
	}
	return "changed", err
}

// candidate finds by digest; an empty one names the newest.
func (s *Server) candidate(ctx context.Context, partition intent.PartitionID, digest string) (intent.Candidate, error) {
	if digest != "" {
		return s.store.Candidate(ctx, partition, digest)
	}
	newest, err := s.store.ListCandidates(ctx, partition, 1)
	if err != nil {
		return intent.Candidate{}, err
	}
	if len(newest) == 0 {
		return intent.Candidate{}, fault.New(fault.NotFound, "partition %s has no candidate", partition)
	}
	return newest[0], nil
}

func (s *Server) describeCandidate(ctx context.Context, c intent.Candidate) (*apipb.Candidate, error) {
	described := toCandidate(c)
	_, acknowledged, err := s.store.Acknowledged(ctx, c.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	described.Acknowledged = acknowledged
	return described, nil
}

func (s *Server) AcknowledgeCandidate(ctx context.Context, request *apipb.AcknowledgeCandidateRequest) (*apipb.AcknowledgeCandidateResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if request.Digest == "" {
		return nil, fault.New(fault.Invalid, "no candidate was named").WithHint("lehr get candidates lists them")
	}
	candidate, err := s.store.Candidate(ctx, partition.ID, request.Digest)
	if err != nil {
		return nil, err
	}
	if candidate.State != intent.CandidateHeld {
		return nil, fault.New(fault.Conflict, "candidate %s is %s; only a held one can be let through", candidate.ID, candidate.State).
			WithHint("lehr describe candidate %s shows its findings", candidate.ID.Digest.Short())
	}
	reason, err := loosened("acknowledging candidate "+candidate.ID.String(), request.Reason)
	if err != nil {
		return nil, err
	}
	if err := s.store.Acknowledge(ctx, candidate.ID, reason, actorOf(ctx)); err != nil {
		return nil, err
	}
	described, err := s.describeCandidate(ctx, candidate)
	return &apipb.AcknowledgeCandidateResponse{Candidate: described}, err
}
