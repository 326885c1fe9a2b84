package server

import (
	"context"
	"path/filepath"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
)

// AddPartition registers a definition by its absolute path or its place in a
// repository; the app's
// follower sees the commit and begins to act.
func (s *Server) AddPartition(ctx context.Context, request *apipb.AddPartitionRequest) (*apipb.AddPartitionResponse, error) {
	id, err := intent.ParsePartitionID(request.Id)
	if err != nil {
		return nil, err
	}
	place, err := source.ParseDefinition(request.Definition)
	if err != nil {
		return nil, err
	}
	definition := request.Definition
	if place.Git == nil {
		definition = filepath.Clean(definition)
	}
	if err := s.store.AddPartition(ctx, id, definition, because(request.Reason), actorOf(ctx)); err != nil {
		return nil, err
	}
	response, err := s.GetPartition(ctx, &apipb.GetPartitionRequest{Id: request.Id})
	if err != nil {
		return nil, err
	}
	return &apipb.AddPartitionResponse{Partition: response.Partition}, nil
}

func (s *Server) RemovePartition(ctx context.Context, request *apipb.RemovePartitionRequest) (*apipb.RemovePartitionResponse, error) {
	partition, err := s.registered(ctx, request.Id)
	if err != nil {
		return nil, err
	}
	return &apipb.RemovePartitionResponse{}, s.store.RemovePartition(ctx, partition.ID, because(request.Reason), actorOf(ctx))
}

func (s *Server) ListPartitions(ctx context.Context, _ *apipb.ListPartitionsRequest) (*apipb.ListPartitionsResponse, error) {
	standings, err := s.visibleStandings(ctx)
	if err != nil {
		return nil, err
	}
	policies, err := s.headPolicies(ctx, standings)
	if err != nil {
		return nil, err
	}
	stops, err := s.store.Stops(ctx)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListPartitionsResponse{}
	for _, p := range standings {
		response.Partitions = append(response.Partitions, describeStanding(p, inForce(stops, p.ID), policies[p.ID]))
	}
	return response, nil
}

func (s *Server) GetPartition(ctx context.Context, request *apipb.GetPartitionRequest) (*apipb.GetPartitionResponse, error) {
	partition, err := s.registered(ctx, request.Id)
	if err != nil {
		return nil, err
	}
	described, err := s.describe(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, h := range s.health() {
		if h.Partition == partition.ID && !h.Building.IsZero() {
			described.Building = toTime(h.Building)
		}
	}
	return &apipb.GetPartitionResponse{Partition: described}, nil
}

// describe gathers how a partition is.
func (s *Server) describe(ctx context.Context, p store.Partition) (*apipb.Partition, error) {
	standing := store.Standing{Partition: p}
	stop, err := s.stopOf(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	if standing.Reports, err = s.store.CountReports(ctx, p.ID); err != nil {
		return nil, err
	}
	if standing.Orphans, err = s.store.OrphanCount(ctx, p.ID); err != nil {
		return nil, err
	}
	if standing.Blocked, err = s.blocked(ctx, p.ID); err != nil {
		return nil, err
	}
	if p.Head.IsZero() {
		return describeStanding(standing, stop, nil), nil
	}
	incarnation, err := s.store.Incarnation(ctx, p.Head)
	if err != nil {
		return nil, err
	}
	standing.Count = incarnation.Count
	policy, err := s.policy(ctx, p.Head)
	return describeStanding(standing, stop, policy), err
}

// describeStanding says how a partition is, under the stop in force (nil: none) and the policy of its head.
func describeStanding(p store.Standing, stop *intent.Stop, policy *intentpb.Policy) *apipb.Partition {
	described := &apipb.Partition{
		Id: string(p.ID), Definition: p.Definition, Head: toIncarnationID(p.Head), Covered: convertEach(p.Covered, toSource),
		Revision: p.Revision, Created: toTime(p.Created), States: map[string]int64{}, Replica: p.Replica, Epoch: p.Epoch,
		Orphans: int64(p.Orphans), Assets: int64(p.Count),
		Mode: modes[policy.GetMode()], Owner: policy.GetOwner(),
	}
	if stop != nil {
		described.Stop = toStop(*stop)
	}
	for state, count := range p.Reports {
		described.States[string(state)] = int64(count)
	}
	if p.Blocked != nil {
		described.BlockedBy = toCandidate(*p.Blocked)
	}
	return described
}

// policy of an incarnation; nil when it has none.
func (s *Server) policy(ctx context.Context, id intent.IncarnationID) (*intentpb.Policy, error) {
	if id.IsZero() {
		return nil, nil
	}
	_, body, err := s.store.Content(ctx, id, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	policy := &intentpb.Policy{}
	return policy, schema.Payload(asset, policy)
}

var modes = map[intentpb.EnforcementMode]string{
	intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE: "enforce",
	intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE: "observe",
	intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF:     "off",
}

// stopOf is the stop in force for a partition: that of all, else its own.
func (s *Server) stopOf(ctx context.Context, partition intent.PartitionID) (*intent.Stop, error) {
	stops, err := s.store.Stops(ctx)
	return inForce(stops, partition), err
}

// inForce is the one of stops that is in force for a partition; nil: none is.
func inForce(stops []intent.Stop, partition intent.PartitionID) (found *intent.Stop) {
	for i, stop := range stops {
		if stop.Partition == "" || stop.Partition == partition && found == nil {
			found = &stops[i]
		}
	}
	return found
}

// blocked is the newest candidate when it is held or rejected, which means
// that the newest sources are not served.
func (s *Server) blocked(ctx context.Context, partition intent.PartitionID) (*intent.Candidate, error) {
	newest, err := s.store.ListCandidates(ctx, partition, 1)
	if err != nil || len(newest) == 0 {
		return nil, err
	}
	switch newest[0].State {
	case intent.CandidateHeld, intent.CandidateRejected:
		return &newest[0], nil
	}
	return nil, nil
}
