package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// blobKey is a part of a blob that is asked for.
type blobKey struct {
	incarnation string
	asset       AssetID
	sha256      string
	offset      int64
}

// Blob returns the content of a reference of the asset whose URI is
// blob:sha256:…, verified, while the call is open that the asset came with. What
// lies elsewhere is the plugin's to read, and to verify.
func (i Intent) Blob(ctx context.Context, ref *intentpb.ExternalRef) ([]byte, error) {
	if i.asker == nil {
		return nil, fmt.Errorf("%s came with no call of Lehr's: there is nobody to ask for %s", i.ID, ref.GetUri())
	}
	return i.asker.blob(ctx, i.Incarnation, i.ID, ref)
}

// Blob is that of Intent.
func (a Asset[T]) Blob(ctx context.Context, ref *intentpb.ExternalRef) ([]byte, error) {
	return Intent{Asset: intent.Asset{ID: a.ID}, Incarnation: a.Incarnation, asker: a.asker}.Blob(ctx, ref)
}

func (a *asker) blob(ctx context.Context, incarnation IncarnationID, asset AssetID, ref *intentpb.ExternalRef) ([]byte, error) {
	digest, ok := intent.BlobDigest(ref.GetUri())
	if !ok || string(digest[:]) != string(ref.GetSha256()) {
		return nil, fmt.Errorf("%s with the digest %x is no blob of Lehr's", ref.GetUri(), ref.GetSha256())
	}
	var content []byte
	for {
		part, err := a.blobPart(ctx, incarnation, asset, digest, int64(len(content)))
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", ref.GetUri(), err)
		}
		content = append(content, part.Content...)
		if int64(len(content)) >= part.Size {
			break
		}
		if len(part.Content) == 0 || part.Size > intent.MaxBlobBytes {
			return nil, fmt.Errorf("asking for %s: Lehr sent %d of %d bytes", ref.GetUri(), len(content), part.Size)
		}
	}
	if sha256.Sum256(content) != digest {
		return nil, fmt.Errorf("the %d bytes of %s have another digest", len(content), ref.GetUri())
	}
	return content, nil
}

func (a *asker) blobPart(ctx context.Context, incarnation IncarnationID, asset AssetID, digest Digest, offset int64) (*pluginpb.BlobContent, error) {
	key := blobKey{incarnation.String(), asset, string(digest[:]), offset}
	answer := make(chan *pluginpb.BlobContent, 1)
	a.mutex.Lock()
	a.blobs[key] = append(a.blobs[key], answer)
	a.mutex.Unlock()
	defer func() {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.blobs[key] = slices.DeleteFunc(a.blobs[key], func(waiter chan *pluginpb.BlobContent) bool { return waiter == answer })
		if len(a.blobs[key]) == 0 {
			delete(a.blobs, key)
		}
	}()
	need := &pluginpb.Need{Partition: string(incarnation.Partition), Incarnation: key.incarnation, Blobs: []*pluginpb.NeedBlob{{Asset: string(asset), Sha256: digest[:], Offset: offset}}}
	if err := a.send(need); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case part := <-answer:
		if part.Refused != "" {
			return nil, fmt.Errorf("%w: %s", errNoContent, part.Refused)
		}
		return part, nil
	}
}

// deliverBlobs takes parts of blobs that Lehr sends.
func (a *asker) deliverBlobs(content *pluginpb.Content) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, part := range content.Blobs {
		key := blobKey{content.Incarnation, AssetID(part.Asset), string(part.Sha256), part.Offset}
		for _, waits := range a.blobs[key] {
			waits <- part
		}
		delete(a.blobs, key)
	}
}
