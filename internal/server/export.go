package server

import (
	"context"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

// partBytes is about how much one part of an export holds: what is in memory
// does not grow with the incarnation.
const partBytes = 256 << 10

// ExportIncarnation sends an incarnation as it is stored. An incarnation never
// changes; one that is collected meanwhile ends the export with an error.
func (s *Server) ExportIncarnation(ctx context.Context, request *apipb.ExportIncarnationRequest, stream *connect.ServerStream[apipb.ExportIncarnationResponse]) error {
	source, err := s.reading(ctx, request.Partition, moment{request.Incarnation, request.At, request.Label})
	if err != nil {
		return err
	}
	schemaSet, err := s.schemaOf(ctx, source)
	if err != nil {
		return err
	}
	incarnation, err := s.described(ctx, source)
	if err != nil {
		return err
	}
	if err := stream.Send(&apipb.ExportIncarnationResponse{Incarnation: incarnation, Schema: schemaSet.Files()}); err != nil {
		return err
	}
	wanted := query.Wanted{Incarnation: source.id, Filter: request.Filter, Index: store.AssetFilter{Limit: mostPage}}
	for {
		page, err := source.queries.Page(ctx, wanted)
		if err != nil {
			return err
		}
		if err := s.sendBodies(ctx, source, schemaSet, page.Members, stream); err != nil {
			return err
		}
		if wanted.Index.After = page.Next; page.Next == "" {
			return stream.Send(&apipb.ExportIncarnationResponse{Complete: true})
		}
	}
}

func (s *Server) sendBodies(ctx context.Context, source reading, schemaSet *schema.Set, members []intent.Member, stream *connect.ServerStream[apipb.ExportIncarnationResponse]) error {
	part, size := &apipb.ExportIncarnationResponse{}, 0
	for _, member := range members {
		body, err := source.store.Body(ctx, member.Digest)
		if err != nil {
			return err
		}
		asset, err := shownOf(schemaSet, member, body)
		if err != nil {
			return err
		}
		part.Assets = append(part.Assets, asset)
		if size += len(body); size < partBytes {
			continue
		}
		if err := stream.Send(part); err != nil {
			return err
		}
		part, size = &apipb.ExportIncarnationResponse{}, 0
	}
	if size == 0 {
		return nil
	}
	return stream.Send(part)
}

// shownOf is an asset without its secrets (S13).
func shownOf(schemaSet *schema.Set, member intent.Member, body []byte) (*apipb.ExportedAsset, error) {
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	if asset, err = schemaSet.Redact(asset); err != nil {
		return nil, err
	}
	redacted, digest, err := schemaSet.Encode(asset)
	exported := &apipb.ExportedAsset{Body: redacted}
	if digest != member.Digest {
		exported.Digest = member.Digest.String()
	}
	return exported, err
}
