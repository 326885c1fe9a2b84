package server

import (
	"context"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/prodspec/query"
)

// CompareIncarnations lists what differs between any two incarnations of a
// partition, in either direction.
func (s *Server) CompareIncarnations(ctx context.Context, request *apipb.CompareIncarnationsRequest) (*apipb.CompareIncarnationsResponse, error) {
	to, err := intent.ParseIncarnationID(request.To)
	if err != nil {
		return nil, err
	}
	var from intent.IncarnationID
	if request.From != "" {
		if from, err = intent.ParseIncarnationID(request.From); err != nil {
			return nil, err
		}
		if from.Partition != to.Partition {
			return nil, fault.New(fault.Invalid, "%s and %s are of two partitions, which have no asset in common", from, to)
		}
	}
	if _, err := s.store.Partition(ctx, to.Partition); err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	found, next, err := s.queries.Compare(ctx, from, to, intent.AssetID(request.After), limit)
	if err != nil {
		return nil, err
	}
	return &apipb.CompareIncarnationsResponse{Comparisons: each(found, toComparison(to.Partition)), Next: string(next)}, nil
}

func toComparison(partition intent.PartitionID) func(query.Comparison) *apipb.Comparison {
	side := func(m *intent.Member) *apipb.Asset {
		if m == nil {
			return nil
		}
		return toAsset(partition, *m, nil)
	}
	return func(c query.Comparison) *apipb.Comparison {
		return &apipb.Comparison{Change: toChange(c.Change), Before: side(c.Before), After: side(c.After), Fields: each(c.Fields, toFieldChange)}
	}
}

// LabelIncarnation gives an incarnation a name that people know it by.
func (s *Server) LabelIncarnation(ctx context.Context, request *apipb.LabelIncarnationRequest) (*apipb.LabelIncarnationResponse, error) {
	id, err := intent.ParseIncarnationID(request.Id)
	if err != nil {
		return nil, err
	}
	if err := s.store.SetLabel(ctx, id, request.Key, request.Value, by(ctx)); err != nil {
		return nil, err
	}
	labelled, err := s.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	return &apipb.LabelIncarnationResponse{Incarnation: toIncarnation(labelled)}, nil
}
