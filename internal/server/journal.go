package server

import (
	"context"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/store"
)

func (s *Server) ListPushes(ctx context.Context, request *apipb.ListPushesRequest) (*apipb.ListPushesResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	pushes, err := s.store.Pushes(ctx, partition.ID, intent.AssetID(request.Asset), page(request.Limit, usualPage, mostPage))
	return &apipb.ListPushesResponse{Pushes: convertEach(pushes, func(p store.PushRecord) *apipb.Push {
		p.PlanRecord = listedPlan(p.PlanRecord)
		return toPush(p)
	})}, err
}

// GetPush is one push, with what it was decided on.
func (s *Server) GetPush(ctx context.Context, request *apipb.GetPushRequest) (*apipb.GetPushResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	push, err := s.store.Push(ctx, partition.ID, intent.PushID(request.Push))
	if err != nil {
		return nil, err
	}
	answer := toPush(push)
	answer.Trace = s.traced(string(push.Push), push.Admitted)
	if push.Ended.IsZero() && s.pushLog != nil {
		if log, ok := s.pushLog(partition.ID, push.Push); ok {
			answer.Progress = toPushProgress(log)
		}
	}
	return &apipb.GetPushResponse{Push: answer}, nil
}

func toPushProgress(log pushlog.Log) *apipb.PushProgress {
	return &apipb.PushProgress{Dropped: log.Dropped, Lines: convertEach(log.Lines, func(line pushlog.Line) *apipb.ProgressLine {
		return &apipb.ProgressLine{At: toTime(line.At), Text: line.Text}
	})}
}

// traced is the id of the trace of what has that name; empty: nobody is told of it.
func (s *Server) traced(name string, createdAt time.Time) string {
	id := trace.Of(name, createdAt)
	if s.trace == nil || !s.trace.Sampled(id) {
		return ""
	}
	return id.String()
}

func (s *Server) ListAudit(ctx context.Context, request *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error) {
	partition, err := auditScope(request.Partition)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	if request.NewestFirst {
		return s.listNewestAudit(ctx, partition, request, limit)
	}
	if request.Before != 0 {
		return nil, fault.New(fault.Invalid, "before is for newest_first").WithHint("set newest_first, or give after")
	}
	response := &apipb.ListAuditResponse{}
	cursor, size := request.After, limit
	if request.Subject != "" || request.Actor != "" || request.Verb != "" || request.Since != nil {
		size = mostPage
	}
	for range mostAuditPages {
		records, err := s.store.AuditRecords(ctx, partition, cursor, size)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if cursor = r.Number; chosen(request, r) {
				response.Records = append(response.Records, toAuditRecord(r))
			}
			if len(response.Records) == limit {
				response.Next = cursor
				return response, nil
			}
		}
		if len(records) < size {
			return response, nil
		}
	}
	response.Next = cursor
	return response, nil
}

// mostAuditPages bounds what one call looks through for records that are
// chosen.
const mostAuditPages = 10

// listNewestAudit lists records from the end of the chain, or from before one of them, backwards.
func (s *Server) listNewestAudit(ctx context.Context, partition intent.PartitionID, request *apipb.ListAuditRequest, limit int) (*apipb.ListAuditResponse, error) {
	if request.After != 0 {
		return nil, fault.New(fault.Invalid, "after is for the oldest first").WithHint("give before, or leave newest_first out")
	}
	end, err := s.auditEnd(ctx, partition)
	if err != nil {
		return nil, err
	}
	if request.Before != 0 {
		end = min(end, request.Before-1)
	}
	response := &apipb.ListAuditResponse{}
	size := uint64(mostPage)
	if request.Subject == "" && request.Actor == "" && request.Verb == "" {
		size = uint64(limit)
	}
	for range mostAuditPages {
		if end == 0 {
			return response, nil
		}
		begin := end - min(end, size)
		records, err := s.store.AuditRecords(ctx, partition, begin, int(end-begin))
		if err != nil {
			return nil, err
		}
		for _, r := range slices.Backward(records) {
			if request.Since != nil && r.At.Before(request.Since.AsTime()) {
				return response, nil
			}
			if len(response.Records) == limit {
				response.Next = r.Number + 1
				return response, nil
			}
			if chosen(request, r) {
				response.Records = append(response.Records, toAuditRecord(r))
			}
		}
		end = begin
	}
	if end > 0 {
		response.Next = end + 1
	}
	return response, nil
}

// auditEnd is the number of a chain's last record; 0: it has none.
func (s *Server) auditEnd(ctx context.Context, partition intent.PartitionID) (uint64, error) {
	ends, err := s.store.AuditEnds(ctx)
	for _, end := range ends {
		if end.Partition == partition {
			return end.Number, err
		}
	}
	return 0, err
}

func chosen(request *apipb.ListAuditRequest, r intent.AuditRecord) bool {
	return (request.Verb == "" || request.Verb == r.Verb) && (request.Subject == "" || request.Subject == r.Subject) && (request.Actor == "" || request.Actor == r.By.Name) &&
		(request.Since == nil || !r.At.Before(request.Since.AsTime()))
}

// ListCheckpoints says how far each chain goes now.
func (s *Server) ListCheckpoints(ctx context.Context, _ *apipb.ListCheckpointsRequest) (*apipb.ListCheckpointsResponse, error) {
	identity, err := s.store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	ends, err := s.store.AuditEnds(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.ListCheckpointsResponse{Checkpoints: convertEach(audit.Checkpoints(identity, ends, s.runtime.Now()), toCheckpoint)}, nil
}

func toCheckpoint(c audit.Checkpoint) *apipb.Checkpoint {
	return &apipb.Checkpoint{Store: c.Store, Partition: string(c.Partition), Number: c.Number, Link: c.Link.String(), At: toTime(c.At)}
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
		response.Problems = s.problems()
		response.Store = s.location
	}
	registered, err := s.store.ListPartitions(ctx)
	if err != nil {
		return nil, err
	}
	partitions := map[intent.PartitionID]store.Partition{}
	for _, p := range registered {
		partitions[p.ID] = p
	}
	for _, h := range s.health() {
		if !visible(h.Partition) {
			continue
		}
		response.Partitions = append(response.Partitions, &apipb.PartitionHealth{
			Partition: string(h.Partition), Acting: h.Acting, Problem: h.problem(partitions[h.Partition]), Waiting: h.Waiting,
		})
	}
	return response, nil
}
