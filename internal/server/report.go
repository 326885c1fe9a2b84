package server

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func (s *Server) ListReports(ctx context.Context, request *apipb.ListReportsRequest) (*apipb.ListReportsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	quarantined := request.State == string(intent.WaitQuarantined)
	if state := intent.State(request.State); state != "" && !quarantined && (state == intent.StateUnseen || !slices.Contains(intent.States(), state)) {
		return nil, fault.New(fault.Invalid, "%.100q is no state of a report", request.State).
			WithHint("there are: in-sync, waiting, pushing, off, gone, unserved, model; and quarantined, of those that wait")
	}
	filter := store.ReportFilter{Prefix: request.Prefix, State: intent.State(request.State), After: intent.AssetID(request.After)}
	if request.Group != "" {
		groups, err := s.groupsNamed(ctx, partition, request.Group)
		if err != nil {
			return nil, err
		}
		if len(groups) == 0 {
			return nil, noGroup(partition, request.Group)
		}
		if filter.Group = groups[0].Group; request.Group == filter.Group.Service {
			filter.Group.Instance = ""
		}
	}
	limit := page(request.Limit, usualPage, mostPage)
	filter.Limit = limit
	if quarantined {
		return s.quarantined(ctx, partition.ID, filter)
	}
	reports, err := s.store.ListReports(ctx, partition.ID, filter)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListReportsResponse{Reports: convertEach(reports, toReport)}
	if len(reports) == filter.Limit {
		response.Next = string(reports[filter.Limit-1].Asset)
	}
	return response, nil
}

// quarantined lists those of the waiting that are kept apart. A page may be short
// and not be the last.
func (s *Server) quarantined(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) (*apipb.ListReportsResponse, error) {
	filter.State = intent.StateWaiting
	response := &apipb.ListReportsResponse{}
	for len(response.Reports) == 0 {
		reports, err := s.store.ListReports(ctx, partition, filter)
		if err != nil {
			return nil, err
		}
		for _, report := range reports {
			if slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitQuarantined }) {
				response.Reports = append(response.Reports, toReport(report))
			}
		}
		if response.Next = ""; len(reports) < filter.Limit {
			break
		}
		filter.After = reports[len(reports)-1].Asset
		response.Next = string(filter.After)
	}
	return response, nil
}

func (s *Server) GetReport(ctx context.Context, request *apipb.GetReportRequest) (*apipb.GetReportResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	report, err := s.store.Report(ctx, partition.ID, asset)
	if err != nil {
		return nil, err
	}
	return &apipb.GetReportResponse{Report: toReport(report)}, nil
}

// Reports are not announced by the store, so a watch looks again after
// watchPeriod, or after twenty times what a look took, whichever is longer: a
// watch of a large partition costs at most 5 % of a core.
const (
	watchPeriod = 500 * time.Millisecond
	watchShare  = 20
)

// WatchReports sends everything once, then what changed.
func (s *Server) WatchReports(ctx context.Context, request *apipb.WatchReportsRequest, stream *connect.ServerStream[apipb.WatchReportsResponse]) error {
	watch := watch{server: s, request: request, send: stream.Send, sent: map[intent.AssetID]time.Time{}}
	for first := true; ; first = false {
		startedAt := s.runtime.Now()
		changed := s.store.Changed(intent.PartitionID(request.Partition))
		if err := watch.look(ctx, first); err != nil {
			return err
		}
		pause := max(watchPeriod, watchShare*s.runtime.Now().Sub(startedAt))
		if err := s.runtime.Wait(ctx, pause, changed); err != nil {
			return err
		}
	}
}

type watch struct {
	server    *Server
	request   *apipb.WatchReportsRequest
	send      func(*apipb.WatchReportsResponse) error
	partition *apipb.Partition
	// sent are the times of the reports sent: a report that is rewritten has
	// a later one.
	sent map[intent.AssetID]time.Time
}

// look sends what is new since the look before.
func (w *watch) look(ctx context.Context, first bool) error {
	partition, err := w.server.GetPartition(ctx, &apipb.GetPartitionRequest{Id: w.request.Partition})
	if err != nil {
		return err
	}
	if !proto.Equal(partition.Partition, w.partition) {
		w.partition = partition.Partition
		if err := w.send(&apipb.WatchReportsResponse{Partition: w.partition}); err != nil {
			return err
		}
	}
	filter := store.ReportFilter{Prefix: w.request.Prefix, Limit: mostPage}
	for {
		reports, err := w.server.store.ListReports(ctx, intent.PartitionID(w.partition.Id), filter)
		if err != nil {
			return err
		}
		response := &apipb.WatchReportsResponse{}
		for _, report := range reports {
			if at, ok := w.sent[report.Asset]; !ok || !at.Equal(report.At) {
				w.sent[report.Asset] = report.At
				response.Reports = append(response.Reports, toReport(report))
			}
		}
		last := len(reports) < filter.Limit
		response.Complete = last && first
		if len(response.Reports) > 0 || response.Complete {
			if err := w.send(response); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		filter.After = reports[len(reports)-1].Asset
	}
}
