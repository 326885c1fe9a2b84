package prodspec

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// spill stores the blobs that a delta's assets name, before it is judged, staged or
// saved: whoever can read an asset can read what it names. One at a time, for they are
// large. A finding says which are too many to keep.
func (p *Pipeline) spill(ctx context.Context, delta change) ([]intent.Finding, error) {
	stored := map[intent.Digest]bool{}
	for i := range delta.entries {
		entry := &delta.entries[i]
		for _, digest := range entry.Blobs {
			if stored[digest] {
				continue
			}
			stored[digest] = true
			if !p.builder.graph.HasBlob(digest) {
				finding, err := p.keptBlob(ctx, entry.Asset, digest)
				if finding != nil || err != nil {
					return finding, err
				}
				continue
			}
			content, err := p.builder.graph.Blob(ctx, digest)
			if err != nil {
				return nil, err
			}
			p.options.Runtime.Point("spill")
			err = p.options.Store.PutBlobs(ctx, p.lease, store.SpillBlobs, map[string][]byte{digest.String(): content})
			if fault.Is(err, fault.Invalid) {
				origin := p.builder.origin(entry.Asset)
				return []intent.Finding{{
					Rule: "external", Severity: intent.Error, Asset: entry.Asset, File: origin.File, Line: max(origin.Line, 1),
					Message: fmt.Sprintf("asset %s names a blob of %d bytes, which cannot be kept: %s", entry.Asset, len(content), message(err)), Hint: hint(err),
				}}, nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// keptBlob finds out whether a blob is kept that an asset names which was brought back to be
// turned down: no run gives it any more.
func (p *Pipeline) keptBlob(ctx context.Context, asset intent.AssetID, digest intent.Digest) ([]intent.Finding, error) {
	_, err := p.options.Store.GetBlob(ctx, p.lease.Partition, store.SpillBlobs, digest.String())
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	origin := p.builder.origin(asset)
	return []intent.Finding{{
		Rule: "turndown", Severity: intent.Error, Asset: asset, File: origin.File, Line: max(origin.Line, 1),
		Message: fmt.Sprintf("asset %s cannot be brought back to be turned down: the blob %s, in which its content lies, is not kept any more", asset, digest),
		Hint:    "bring it back into the sources, then turn it down; or lehr turndown --undo " + string(asset),
	}}, nil
}
