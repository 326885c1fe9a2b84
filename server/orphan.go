package server

import (
	"context"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
)

func (s *Server) ListOrphans(context.Context, *apipb.ListOrphansRequest) (*apipb.ListOrphansResponse, error) {
	return nil, fault.New(fault.Unavailable, "orphans are not built yet")
}

func (s *Server) DisownOrphan(context.Context, *apipb.DisownOrphanRequest) (*apipb.DisownOrphanResponse, error) {
	return nil, fault.New(fault.Unavailable, "orphans are not built yet")
}
