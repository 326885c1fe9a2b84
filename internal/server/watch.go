package server

import (
	"context"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/query"
)

// WatchAssets sends all, then what each new head changes. The states of reports
// are left out: they change without a new incarnation, and WatchReports tells
// of them.
func (s *Server) WatchAssets(ctx context.Context, request *apipb.WatchAssetsRequest, stream *connect.ServerStream[apipb.WatchAssetsResponse]) error {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return err
	}
	wanted := query.Watching{Partition: partition.ID, Filter: request.Filter}
	if request.After != "" {
		if wanted.After, err = intent.ParseIncarnationID(request.After); err != nil {
			return err
		}
		if wanted.After.Partition != partition.ID {
			return fault.New(fault.Invalid, "incarnation %s is not of partition %s", wanted.After, partition.ID)
		}
	}
	// The answer begins now, though there may be no incarnation yet.
	if err := stream.Send(nil); err != nil {
		return err
	}
	return s.queries.Watch(ctx, wanted, func(event query.Event) error {
		response := &apipb.WatchAssetsResponse{
			Incarnation: event.Incarnation.String(), Complete: event.Complete, Reset_: event.Reset,
			Assets:  make([]*apipb.Asset, len(event.Members)),
			Removed: convertEach(event.Removed, func(id intent.AssetID) string { return string(id) }),
		}
		for i, member := range event.Members {
			response.Assets[i] = toAsset(partition.ID, member, nil)
		}
		return stream.Send(response)
	})
}
