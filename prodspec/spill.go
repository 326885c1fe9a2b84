package prodspec

import (
	"context"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// spill stores the blobs that a delta's assets name, before it is staged or saved:
// whoever can read an asset can read what it names. One at a time, for they are
// large.
func (p *Pipeline) spill(ctx context.Context, delta change) error {
	put := map[intent.Digest]bool{}
	for i := range delta.entries {
		for _, digest := range delta.entries[i].Blobs {
			if put[digest] {
				continue
			}
			put[digest] = true
			content, err := p.builder.graph.Blob(ctx, digest)
			if err != nil {
				return err
			}
			p.options.Runtime.Point("spill")
			if err := p.options.Store.PutBlobs(ctx, p.lease, store.SpillBlobs, map[string][]byte{digest.String(): content}); err != nil {
				return err
			}
		}
	}
	return nil
}
