package app

import (
	"context"
	"maps"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// contents answers what plugins ask, from the store.
type contents struct{ store contentStore }

// contentStore is what plugins' questions are answered from.
type contentStore interface {
	snapshots
	schemaStore
}

// snapshots are of incarnations.
type snapshots interface {
	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error)
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error)
}

// cachedStore is a store that has the content ready which was asked for last: a plugin asks
// for what it is to compare, and once it answered the enforcer reads the same.
// Incarnations never change, so what was found once is so for ever.
type cachedStore struct {
	store.All
	contents *recent.Map[contentAt, contentFound]
}

// contentAt says which content.
type contentAt struct {
	incarnation intent.IncarnationID
	asset       intent.AssetID
}

type contentFound struct {
	member intent.Member
	body   []byte
}

const (
	// keptBytes bounds the content that is kept ready.
	keptBytes = 8 << 20
	// keptWeight is about what one weighs beside its bytes.
	keptWeight = 500
)

func newKept(s store.All) cachedStore {
	return cachedStore{s, recent.New[contentAt, contentFound](keptBytes)}
}

// Content implements store.All. Nobody may write into the body.
func (k cachedStore) Content(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	at := contentAt{incarnation, asset}
	if cached, ok := k.contents.Get(at); ok {
		return cached.member, cached.body, nil
	}
	member, body, err := k.All.Content(ctx, incarnation, asset)
	if err != nil {
		return intent.Member{}, nil, err
	}
	k.contents.Put(at, contentFound{member, body}, len(body)+keptWeight)
	return member, body, nil
}

// Contents implements store.All. Nobody may write into the bodies.
func (k cachedStore) Contents(ctx context.Context, incarnation intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	bodies := make(map[intent.AssetID][]byte, len(assets))
	var missing []intent.AssetID
	for _, asset := range assets {
		if cached, ok := k.contents.Get(contentAt{incarnation, asset}); ok {
			bodies[asset] = cached.body
		} else {
			missing = append(missing, asset)
		}
	}
	if len(missing) == 0 {
		return bodies, nil
	}
	stored, err := k.All.Contents(ctx, incarnation, missing)
	maps.Copy(bodies, stored)
	return bodies, err
}

// schemaStore keeps descriptor sets.
type schemaStore interface {
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}

// Blob implements plugin.BlobContents.
func (c contents) Blob(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID, digest intent.Digest) ([]byte, error) {
	published, err := c.store.Incarnation(ctx, incarnation)
	if err != nil {
		return nil, err
	}
	schemaSet, err := newSchemas(c.store).Schema(ctx, incarnation.Partition, published.Schema)
	if err != nil {
		return nil, err
	}
	_, body, err := c.store.Content(ctx, incarnation, asset)
	if err != nil {
		return nil, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	externals, err := schemaSet.Externals(content)
	if err != nil {
		return nil, err
	}
	for _, external := range externals {
		if named, ok := intent.BlobDigest(external.URI); ok && named == digest {
			return c.store.GetBlob(ctx, incarnation.Partition, store.SpillBlobs, digest.String())
		}
	}
	return nil, fault.New(fault.NotFound, "%s as of %s does not name the blob %s", asset, incarnation, digest)
}

func (c contents) Content(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	member, body, err := c.store.Content(ctx, incarnation, asset)
	return body, member.Digest, err
}

func (c contents) Reads(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]intent.AssetID, error) {
	edges, err := c.store.EdgesFrom(ctx, incarnation, asset)
	var reads []intent.AssetID
	for _, edge := range edges {
		if edge.Read {
			reads = append(reads, edge.To)
		}
	}
	return reads, err
}

// changesPage is how many changes are read at once.
const changesPage = 5000

// Identity implements plugin.ChangedContents.
func (c contents) Identity(ctx context.Context, incarnation intent.IncarnationID) (intent.Digest, error) {
	published, err := c.store.Incarnation(ctx, incarnation)
	return published.Digest, err
}

// Changed implements plugin.ChangedContents.
func (c contents) Changed(ctx context.Context, older, newer intent.IncarnationID, most int) (changed []intent.AssetID, err error) {
	read := 0
	for cursor := (intent.AssetID)(""); ; {
		page, err := c.store.Changes(ctx, older, newer, cursor, changesPage)
		if err != nil {
			return nil, err
		}
		for _, change := range page {
			cursor = change.Asset
			if change.Before == nil || change.After == nil || change.Before.Digest != change.After.Digest {
				changed = append(changed, change.Asset)
			}
		}
		if read += len(page); read > most {
			return nil, fault.New(fault.Invalid, "more than %d assets changed from %s to %s", most, older, newer)
		}
		if len(page) < changesPage {
			return changed, nil
		}
	}
}

// mostSchemas bounds the sets that are kept, by the bytes of their
// descriptors: how often types change is for tenants to choose.
const mostSchemas = 4 << 20

// knownSchemas are the sets that were asked for last, by digest, so it does not matter
// in which store they are.
var knownSchemas = recent.New[intent.Digest, *schema.Set](mostSchemas)

// schemas finds the sets with which incarnations were published.
type schemas struct{ store schemaStore }

func newSchemas(blobs schemaStore) *schemas { return &schemas{blobs} }

// Schema implements server.Schemas.
func (s *schemas) Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error) {
	if builtin := schema.Builtin(); digest == builtin.Digest() {
		return builtin, nil
	}
	if schemaSet, ok := knownSchemas.Get(digest); ok {
		return schemaSet, nil
	}
	files, err := s.store.GetBlob(ctx, partition, prodspec.SchemaBlobs, digest.String())
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Internal, "the schema set %s of partition %s is not in the store", digest.Short(), partition)
	}
	if err != nil {
		return nil, err
	}
	schemaSet, err := schema.FromFiles(files)
	if err != nil {
		return nil, err
	}
	knownSchemas.Put(digest, schemaSet, len(files))
	return schemaSet, nil
}

// Contents answers what plugins ask, from a store.
func Contents(s store.All) plugin.Contents { return contents{s} }

// Types returns what finds the types that an incarnation was published with.
func Types(s store.All) func(context.Context, intent.IncarnationID) (*schema.Set, error) {
	resolver := newSchemas(s)
	return func(ctx context.Context, id intent.IncarnationID) (*schema.Set, error) {
		incarnation, err := s.Incarnation(ctx, id)
		if err != nil {
			return nil, err
		}
		return resolver.Schema(ctx, id.Partition, incarnation.Schema)
	}
}
