package server

import (
	"context"
	"fmt"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func (s *Server) ListOrphans(ctx context.Context, request *apipb.ListOrphansRequest) (*apipb.ListOrphansResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	orphans, err := s.store.Orphans(ctx, partition.ID, intent.AssetID(request.After), limit+1)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListOrphansResponse{}
	if len(orphans) > limit {
		orphans = orphans[:limit]
		response.Next = string(orphans[limit-1].Asset)
	}
	response.Orphans = convertEach(orphans, toOrphan)
	return response, nil
}

func toOrphan(e store.Enforced) *apipb.Orphan {
	return &apipb.Orphan{
		Partition: string(e.Incarnation.Partition), Asset: string(e.Asset), Type: string(e.Type),
		ResourceKey: string(e.ResourceKey), Incarnation: toIncarnationID(e.Incarnation), Seen: toTime(e.At),
	}
}

// DisownOrphan needs a reason: whoever finds the real thing later will ask who
// let it go.
func (s *Server) DisownOrphan(ctx context.Context, request *apipb.DisownOrphanRequest) (*apipb.DisownOrphanResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("disowning %s of partition %s", asset, partition.ID), request.Reason)
	if err != nil {
		return nil, err
	}
	if err := s.store.Disown(ctx, partition.ID, asset, reason, actorOf(ctx)); err != nil {
		return nil, err
	}
	return &apipb.DisownOrphanResponse{}, nil
}
