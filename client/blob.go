package client

import (
	"context"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
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
