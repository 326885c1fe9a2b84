package server

import (
	"context"

	"connectrpc.com/connect"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
)

func (s *Server) CompareIncarnations(context.Context, *apipb.CompareIncarnationsRequest) (*apipb.CompareIncarnationsResponse, error) {
	return nil, fault.New(fault.Unavailable, "comparisons are not built yet")
}

func (s *Server) LabelIncarnation(context.Context, *apipb.LabelIncarnationRequest) (*apipb.LabelIncarnationResponse, error) {
	return nil, fault.New(fault.Unavailable, "labels are not built yet")
}

func (s *Server) WatchAssets(context.Context, *apipb.WatchAssetsRequest, *connect.ServerStream[apipb.WatchAssetsResponse]) error {
	return fault.New(fault.Unavailable, "watches are not built yet")
}
