package server

import (
	"context"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

func (s *Server) ListPushes(ctx context.Context, request *apipb.ListPushesRequest) (*apipb.ListPushesResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	pushes, err := s.store.Pushes(ctx, partition.ID, intent.AssetID(request.Asset), page(request.Limit, usualPage, mostPage))
	return &apipb.ListPushesResponse{Pushes: each(pushes, toPush)}, err
}

func (s *Server) ListAudit(ctx context.Context, request *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error) {
	partition, err := auditScope(request.Partition)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	records, err := s.store.AuditRecords(ctx, partition, request.After, limit)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListAuditResponse{Records: each(records, toAuditRecord)}
	if len(records) == limit {
		response.Next = records[limit-1].Number
	}
	return response, nil
}

// VerifyAudit answers that the chain is broken rather than failing.
func (s *Server) VerifyAudit(ctx context.Context, request *apipb.VerifyAuditRequest) (*apipb.VerifyAuditResponse, error) {
	partition, err := auditScope(request.Partition)
	if err != nil {
		return nil, err
	}
	err = s.store.VerifyAudit(ctx, partition)
	if fault.Is(err, fault.Internal) && ctx.Err() == nil {
		return &apipb.VerifyAuditResponse{Problem: err.Error()}, nil
	}
	return &apipb.VerifyAuditResponse{Intact: err == nil}, err
}

// auditScope also finds the record of a partition that was removed; empty is
// that of all partitions together.
func auditScope(partition string) (intent.PartitionID, error) {
	if partition == "" {
		return "", nil
	}
	return intent.ParsePartitionID(partition)
}

func (s *Server) GetServer(ctx context.Context, _ *apipb.GetServerRequest) (*apipb.GetServerResponse, error) {
	visible, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	stops, err := s.visibleStops(ctx, visible)
	if err != nil {
		return nil, err
	}
	response := &apipb.GetServerResponse{Version: s.version, Started: toTime(s.started), Stops: stops}
	if visible("") {
		response.Store = s.location
	}
	for _, h := range s.health() {
		if !visible(h.Partition) {
			continue
		}
		response.Partitions = append(response.Partitions, &apipb.PartitionHealth{
			Partition: string(h.Partition), Acting: h.Acting, Problem: h.Problem,
		})
	}
	return response, nil
}
