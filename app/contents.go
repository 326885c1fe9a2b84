package app

import (
	"context"
	"sync"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec"
	"lehr.dev/schema"
	"lehr.dev/store"
)

// contents answers what plugins ask, from the store.
type contents struct{ store store.Snapshots }

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

// schemas finds the sets with which incarnations were published, and keeps
// them: there are few.
type schemas struct {
	store store.Blobs
	mutex sync.Mutex
	known map[intent.Digest]*schema.Set
}

func newSchemas(blobs store.Blobs) *schemas {
	builtin := schema.Builtin()
	return &schemas{store: blobs, known: map[intent.Digest]*schema.Set{builtin.Digest(): builtin}}
}

// Schema implements server.Schemas.
func (s *schemas) Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if set := s.known[digest]; set != nil {
		return set, nil
	}
	files, err := s.store.GetBlob(ctx, partition, prodspec.SchemaBlobs, digest.String())
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Internal, "the schema set %s of partition %s is not in the store", digest.Short(), partition)
	}
	if err != nil {
		return nil, err
	}
	set, err := schema.FromFiles(files)
	if err != nil {
		return nil, err
	}
	s.known[digest] = set
	return set, nil
}
