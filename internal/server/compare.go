package server

import (
	"context"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store/preview"
)

// CompareIncarnations lists what differs between any two incarnations of a
// partition, in either direction.
func (s *Server) CompareIncarnations(ctx context.Context, request *apipb.CompareIncarnationsRequest) (*apipb.CompareIncarnationsResponse, error) {
	if one, other := partitionIn(request.From), partitionIn(request.To); request.From != "" && one != other {
		return nil, fault.New(fault.Invalid, "%.200s and %.200s are of two partitions, which have no asset in common", request.From, request.To)
	}
	target, err := s.side(ctx, request.To, preview.First+1)
	if err != nil {
		return nil, err
	}
	var base reading
	if request.From != "" {
		if base, err = s.side(ctx, request.From, preview.First); err != nil {
			return nil, err
		}
	}
	limit := page(request.Limit, usualPage, mostPage)
	comparisons, next, err := s.comparing(base, target).queries.Compare(ctx, base.id, target.id, intent.AssetID(request.After), limit)
	if err != nil {
		return nil, err
	}
	response := &apipb.CompareIncarnationsResponse{Next: string(next)}
	for _, comparison := range comparisons {
		response.Comparisons = append(response.Comparisons, toComparison(base, target, comparison))
	}
	return response, nil
}

// partitionIn the name of an incarnation or candidate.
func partitionIn(name string) string {
	partition, _, _ := strings.Cut(name, "@")
	return partition
}

// side of a comparison: an incarnation, or a candidate that is shown with a sequence.
func (s *Server) side(ctx context.Context, name string, sequence intent.Sequence) (reading, error) {
	partition, _, isCandidate := strings.Cut(name, "@~")
	if !isCandidate {
		id, err := intent.ParseIncarnationID(name)
		if err != nil {
			return reading{}, err
		}
		_, err = s.store.Partition(ctx, id.Partition)
		return s.stored(id), err
	}
	registered, err := s.registered(ctx, partition)
	if err != nil {
		return reading{}, err
	}
	return s.readCandidate(ctx, registered.ID, name, sequence)
}

func toComparison(base, target reading, c query.Comparison) *apipb.Comparison {
	side := func(r reading, m *intent.Member) *apipb.Asset {
		if m == nil {
			return nil
		}
		return r.toAsset(*m, nil)
	}
	return &apipb.Comparison{Change: toChange(c.Change), Before: side(base, c.Before), After: side(target, c.After), Fields: convertEach(c.Fields, toFieldChange)}
}

// LabelIncarnation gives an incarnation a name that people know it by.
func (s *Server) LabelIncarnation(ctx context.Context, request *apipb.LabelIncarnationRequest) (*apipb.LabelIncarnationResponse, error) {
	id, err := intent.ParseIncarnationID(request.Id)
	if err != nil {
		return nil, err
	}
	if err := s.store.SetLabel(ctx, id, request.Key, request.Value, because(request.Reason), actorOf(ctx)); err != nil {
		return nil, err
	}
	labelled, err := s.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	return &apipb.LabelIncarnationResponse{Incarnation: toIncarnation(labelled)}, nil
}
