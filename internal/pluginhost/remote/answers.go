package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// contentBytes is about the size of one message of content.
	contentBytes = 1 << 20
	// needsAtOnce bounds the requests for content that are answered at once.
	needsAtOnce = 16
	// entryWeight is about what an entry weighs beside its content.
	entryWeight = 300
	// readsBytes bounds what is known of which assets read which: as many as calls
	// may name at once are looked through for each that a plugin asks for beside them.
	readsBytes = 8 << 20
)

// answers gives a child the intent that it asks for.
type answers struct {
	contents plugin.Contents
	reads    *recent.Map[scoped, []intent.AssetID]
	blobs    *recent.Map[blobKey, []byte]
}

// blobKey is a blob that an asset names.
type blobKey struct {
	scoped
	digest intent.Digest
}

func newAnswers(contents plugin.Contents) *answers {
	return &answers{
		contents: contents,
		reads:    recent.New[scoped, []intent.AssetID](readsBytes),
		blobs:    recent.New[blobKey, []byte](2 * intent.MaxBlobBytes),
	}
}

func (a *answers) readsOf(ctx context.Context, key scoped) ([]intent.AssetID, error) {
	if assets, ok := a.reads.Get(key); ok {
		return assets, nil
	}
	assets, err := a.contents.Reads(ctx, key.incarnation, key.asset)
	if err != nil {
		return nil, err
	}
	a.reads.Put(key, assets, entryWeight*(len(assets)+1))
	return assets, nil
}

// scope is what the open calls of one stream allow the plugin to see.
type scope struct {
	*answers
	busy chan struct{}

	mutex  sync.Mutex
	assets map[scoped]int
}

func (a *answers) newScope() *scope {
	return &scope{answers: a, busy: make(chan struct{}, needsAtOnce), assets: map[scoped]int{}}
}

func (s *scope) open(incarnation intent.IncarnationID, assets ...intent.AssetID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, asset := range assets {
		s.assets[scoped{incarnation, asset}]++
	}
}

func (s *scope) close(incarnation intent.IncarnationID, assets ...intent.AssetID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, asset := range assets {
		key := scoped{incarnation, asset}
		if s.assets[key]--; s.assets[key] <= 0 {
			delete(s.assets, key)
		}
	}
}

func (s *scope) named(key scoped) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.assets[key] > 0
}

// read reports whether an asset of an open call reads the asset.
func (s *scope) read(ctx context.Context, key scoped) (bool, error) {
	s.mutex.Lock()
	var open []scoped
	for reader := range s.assets {
		if reader.incarnation == key.incarnation {
			open = append(open, reader)
		}
	}
	s.mutex.Unlock()
	for _, reader := range open {
		reads, err := s.readsOf(ctx, reader)
		if err != nil {
			return false, err
		}
		if slices.Contains(reads, key.asset) {
			return true, nil
		}
	}
	return false, nil
}

// answer sends what a plugin asks for, in messages of bounded size. It does
// not wait for the content, unless too much is asked for at once.
func (s *scope) answer(ctx context.Context, need *pluginpb.Need, send func(*pluginpb.Content)) {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return
	}
	go func() {
		defer func() { <-s.busy }()
		reply := func() *pluginpb.Content {
			return &pluginpb.Content{Partition: need.Partition, Incarnation: need.Incarnation}
		}
		message, size := reply(), 0
		for _, asset := range need.Assets {
			one := s.lookUp(ctx, need, asset)
			length := len(one.Content) + len(one.Asset) + len(one.Refused) + entryWeight
			if size += length; size > contentBytes {
				send(message)
				message, size = reply(), length
			}
			message.Assets = append(message.Assets, one)
		}
		if len(message.Assets) > 0 || len(need.Blobs) == 0 {
			send(message)
		}
		for _, blob := range need.Blobs {
			message := reply()
			message.Blobs = []*pluginpb.BlobContent{s.lookUpBlob(ctx, need, blob)}
			send(message)
		}
	}()
}

// blob returns what an asset names. A plugin asks for it part by part.
func (a *answers) blob(ctx context.Context, key blobKey) ([]byte, error) {
	if content, ok := a.blobs.Get(key); ok {
		return content, nil
	}
	blobs, hasBlobs := a.contents.(plugin.BlobContents)
	if !hasBlobs {
		return nil, fault.New(fault.NotFound, "there are no blobs here")
	}
	content, err := blobs.Blob(ctx, key.incarnation, key.asset, key.digest)
	if err == nil {
		a.blobs.Put(key, content, len(content)+entryWeight)
	}
	return content, err
}

func (s *scope) lookUpBlob(ctx context.Context, need *pluginpb.Need, blob *pluginpb.NeedBlob) *pluginpb.BlobContent {
	reply := &pluginpb.BlobContent{Asset: blob.Asset, Sha256: blob.Sha256, Offset: blob.Offset}
	key, err := s.allowed(ctx, need, blob.Asset)
	if err == nil && len(blob.Sha256) != len(intent.Digest{}) {
		err = fault.New(fault.Invalid, "a digest has %d bytes, not %d", len(intent.Digest{}), len(blob.Sha256))
	}
	var content []byte
	if err == nil {
		content, err = s.blob(ctx, blobKey{key, intent.Digest(blob.Sha256)})
	}
	if err == nil && (blob.Offset < 0 || blob.Offset > int64(len(content))) {
		err = fault.New(fault.Invalid, "the blob has %d bytes, and none from %d on", len(content), blob.Offset)
	}
	if err != nil {
		reply.Refused = printable(err.Error(), maxReason)
		return reply
	}
	rest := content[blob.Offset:]
	reply.Size, reply.Content = int64(len(content)), rest[:min(len(rest), contentBytes)]
	return reply
}

// allowed is the asset that a plugin asks about, if an open call names it, or
// reads it.
func (s *scope) allowed(ctx context.Context, need *pluginpb.Need, asset string) (scoped, error) {
	incarnation, err := intent.ParseIncarnationID(need.Incarnation)
	key := scoped{incarnation, intent.AssetID(asset)}
	if err == nil && !s.named(key) {
		var read bool
		if read, err = s.read(ctx, key); err == nil && !read {
			err = fault.New(fault.Denied, "no open call names %s as of %s, nor reads it", printable(asset, maxName), incarnation)
		}
	}
	return key, err
}

func (s *scope) lookUp(ctx context.Context, need *pluginpb.Need, asset *pluginpb.NeedAsset) *pluginpb.AssetContent {
	reply := &pluginpb.AssetContent{Asset: asset.Asset}
	key, err := s.allowed(ctx, need, asset.Asset)
	var content []byte
	var digest intent.Digest
	if err == nil {
		content, digest, err = s.contents.Content(ctx, key.incarnation, key.asset)
	}
	if err == nil && len(content) > maxMessage/2 {
		err = fmt.Errorf("its %d bytes are more than a message carries", len(content))
	}
	if err != nil {
		reply.Refused = printable(err.Error(), maxReason)
		return reply
	}
	reply.Digest = digest[:]
	if reply.Unchanged = slices.Equal(asset.Known, digest[:]); !reply.Unchanged {
		reply.Content = content
	}
	return reply
}
