package server

import (
	"context"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// GetBlob sends a blob that assets of a partition name. It is one piece in the
// store, and sent in parts that clients take.
func (s *Server) GetBlob(ctx context.Context, request *apipb.GetBlobRequest, stream *connect.ServerStream[apipb.GetBlobResponse]) error {
	digest, ok := intent.BlobDigest("blob:sha256:" + request.Sha256)
	if !ok {
		return fault.New(fault.Invalid, "%.80q is no digest", request.Sha256).WithHint("write 64 digits of hex, in lower case, as after blob:sha256:")
	}
	content, err := s.store.GetBlob(ctx, intent.PartitionID(request.Partition), store.SpillBlobs, digest.String())
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "partition %.80q keeps no blob %s", request.Partition, digest).
			WithHint("no retained incarnation names it: was the last one that did collected?")
	}
	if err != nil {
		return err
	}
	return inParts(content, func(part []byte, size int64) error {
		return stream.Send(&apipb.GetBlobResponse{Content: part, Size: size})
	})
}

// GetJudgement sends the record of a validation as it is kept.
func (s *Server) GetJudgement(ctx context.Context, request *apipb.GetJudgementRequest, stream *connect.ServerStream[apipb.GetJudgementResponse]) error {
	content, err := s.store.GetBlob(ctx, intent.PartitionID(request.Partition), store.JudgementBlobs, request.Record)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "partition %.80q keeps no record %.200q", request.Partition, request.Record).
			WithHint("lehr rollout status NAME names the records of its verdicts; old ones are collected")
	}
	if err != nil {
		return err
	}
	return inParts(content, func(part []byte, size int64) error {
		return stream.Send(&apipb.GetJudgementResponse{Content: part, Size: size})
	})
}

// inParts sends content in parts that clients take, of none an empty one.
func inParts(content []byte, send func(part []byte, size int64) error) error {
	for rest := content; ; {
		part := rest[:min(len(rest), partBytes)]
		if err := send(part, int64(len(content))); err != nil {
			return err
		}
		if rest = rest[len(part):]; len(rest) == 0 {
			return nil
		}
	}
}
