package client

import (
	"context"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Blob returns a blob that assets of a partition name, verified.
func (c *Client) Blob(ctx context.Context, partition string, digest intent.Digest) ([]byte, error) {
	stream, err := c.Incarnations.GetBlob(ctx, &apipb.GetBlobRequest{Partition: partition, Sha256: digest.String()})
	if err != nil {
		return nil, Fault(err)
	}
	defer stream.Close()
	var content []byte
	for stream.Receive() {
		if content = append(content, stream.Msg().Content...); len(content) > intent.MaxBlobBytes {
			return nil, fault.New(fault.Internal, "the server sent more than %d bytes of the blob %s", intent.MaxBlobBytes, digest)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, Fault(err)
	}
	if intent.BlobSum(content) != digest {
		return nil, fault.New(fault.Unavailable, "the server sent %d bytes that are not the blob %s", len(content), digest).WithHint("try again; if it lasts, look at the server's log")
	}
	return content, nil
}

// Judgement returns the record of a validation, packed as the store keeps it.
func (c *Client) Judgement(ctx context.Context, partition, record string) ([]byte, error) {
	stream, err := c.Rollouts.GetJudgement(ctx, &apipb.GetJudgementRequest{Partition: partition, Record: record})
	if err != nil {
		return nil, Fault(err)
	}
	defer stream.Close()
	var content []byte
	for stream.Receive() {
		content = append(content, stream.Msg().Content...)
		if size := stream.Msg().Size; int64(len(content)) > size || size > intent.MaxBlobBytes {
			return nil, fault.New(fault.Internal, "the server sent more of the record %.200q than it has", record)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, Fault(err)
	}
	return content, nil
}
