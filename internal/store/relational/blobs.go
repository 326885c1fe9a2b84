package relational

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// blobDigest covers the key of a blob as well as its bytes: a damaged index leads to the row of
// another blob, which is whole.
func blobDigest(partition intent.PartitionID, kind, name string, bytes []byte) intent.Digest {
	return intent.Sum("lehr.blob.v2", []byte(partition), []byte(kind), []byte(name), bytes)
}

// isBlobDigest reports whether a row's digest is that of its key and bytes. Stores of older
// versions have rows whose digest covers the bytes alone.
func isBlobDigest(digest intent.Digest, partition intent.PartitionID, kind, name string, bytes []byte) bool {
	return digest == blobDigest(partition, kind, name, bytes) || digest == intent.Sum("lehr.blob.v1", bytes)
}

const restoreHint = "the store is damaged: restore it from a backup"

// PutBlobs stores all or none, in one transaction. A nil value deletes.
func (s *Store) PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error {
	digests := make(map[string]intent.Digest, len(blobs))
	for name, bytes := range blobs {
		digests[name] = blobDigest(lease.Partition, kind, name, bytes)
	}
	attempt := fmt.Sprintf("storing %d blobs of kind %q for %q", len(blobs), kind, lease.Partition)
	if err := checkSpilled(attempt, kind, blobs); err != nil {
		return err
	}
	return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		for _, name := range slices.Sorted(maps.Keys(blobs)) {
			var err error
			if bytes := blobs[name]; bytes == nil {
				_, err = t.exec("DELETE FROM blob WHERE partition = $1 AND kind = $2 AND name = $3", string(lease.Partition), kind, name)
			} else {
				digest := digests[name]
				_, err = t.exec(`INSERT INTO blob (partition, kind, name, digest, bytes) VALUES ($1, $2, $3, $4, $5)
					ON CONFLICT (partition, kind, name) DO UPDATE SET digest = excluded.digest, bytes = excluded.bytes
					WHERE blob.digest <> excluded.digest`, string(lease.Partition), kind, name, digest[:], bytes)
			}
			if err != nil {
				return err
			}
		}
		return s.boundSpilled(t, attempt, lease.Partition, kind)
	})
}

// GetBlob returns verified bytes.
func (s *Store) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	attempt := fmt.Sprintf("reading blob %q of kind %q of %q", name, kind, partition)
	var bytes []byte
	err := s.read(ctx, attempt, func(q querier) error {
		var digest intent.Digest
		ok, err := q.one("SELECT digest, bytes FROM blob WHERE partition = $1 AND kind = $2 AND name = $3",
			[]any{string(partition), kind, name}, digestColumn{&digest}, &bytes)
		switch {
		case err != nil:
			return err
		case kind == store.SpillBlobs && (!ok || intent.BlobSum(bytes).String() != name):
			return lostSpilled(q, attempt, partition, name, ok)
		case !ok:
			return fault.New(fault.NotFound, "%s: there is none", attempt)
		case !isBlobDigest(digest, partition, kind, name, bytes):
			return fault.New(fault.Internal, "%s: its bytes are not those of digest %s", attempt, digest.Short()).WithHint(restoreHint)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if bytes == nil {
		bytes = []byte{}
	}
	return bytes, nil
}
