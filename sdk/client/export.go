package client

import (
	"context"
	"io"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/export"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Export writes an incarnation to a file or stream, and verifies it by its
// digest (see package export). With an error, what was written is of no use. What
// is in memory does not grow with the incarnation.
func (c *Client) Export(ctx context.Context, request *apipb.ExportIncarnationRequest, format export.Format, w io.Writer) (export.Exported, error) {
	var exported export.Exported
	// The stream ends with the call.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Incarnations.ExportIncarnation(ctx, request)
	if err != nil {
		return exported, Fault(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		return exported, cut(request, stream.Err())
	}
	first := stream.Msg()
	if exported, err = describe(first.GetIncarnation(), request.Filter); err != nil {
		return exported, err
	}
	writer, err := export.NewWriter(w, format, exported, first.Schema)
	if err != nil {
		return exported, err
	}
	defer writer.Close()
	for stream.Receive() {
		for _, asset := range stream.Msg().Assets {
			if err := add(writer, asset); err != nil {
				return exported, err
			}
		}
		if stream.Msg().Complete {
			for _, digest := range writer.Blobs() {
				content, err := c.Blob(ctx, request.Partition, digest)
				if err != nil {
					return exported, Fault(err)
				}
				if err := writer.Blob(content); err != nil {
					return exported, err
				}
			}
			return writer.End()
		}
	}
	return exported, cut(request, stream.Err())
}

func add(writer *export.Writer, asset *apipb.ExportedAsset) error {
	if asset.Digest == "" {
		return writer.Add(asset.Body, intent.Digest{})
	}
	digest, err := intent.ParseDigest(asset.Digest)
	if err != nil {
		return err
	}
	return writer.Add(asset.Body, digest)
}

func describe(i *apipb.Incarnation, filter string) (exported export.Exported, err error) {
	exported = export.Exported{Incarnation: i.GetId(), Filter: filter}
	if exported.Of, err = intent.ParseDigest(i.GetDigest()); err == nil {
		exported.Schema, err = intent.ParseDigest(i.GetSchema())
	}
	return exported, err
}

// cut is why an export did not come to its end.
func cut(request *apipb.ExportIncarnationRequest, err error) error {
	if err == nil {
		err = fault.New(fault.Unavailable, "exporting %s: the server ended the export before it was complete", request.Partition)
	}
	return Fault(err)
}
