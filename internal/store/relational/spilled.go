package relational

import (
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// checkSpilled verifies, before a transaction begins, that blobs which assets name
// are what their names say.
func checkSpilled(attempt, kind string, blobs map[string][]byte) error {
	if kind != store.SpillBlobs {
		return nil
	}
	for name, bytes := range blobs {
		if bytes == nil {
			return fault.New(fault.Invalid, "%s: what assets may name is removed by the collector only", attempt)
		}
		if digest := intent.BlobSum(bytes); digest.String() != name {
			return fault.New(fault.Invalid, "%s: the %d bytes named %.80q have the digest %x", attempt, len(bytes), name, digest)
		}
		if len(bytes) > intent.MaxBlobBytes {
			return fault.New(fault.Invalid, "%s: one has %d bytes, at most %d are allowed", attempt, len(bytes), intent.MaxBlobBytes)
		}
	}
	return nil
}

// boundSpilled refuses what makes a partition keep too much.
func (s *Store) boundSpilled(t *transaction, attempt string, partition intent.PartitionID, kind string) error {
	if kind != store.SpillBlobs {
		return nil
	}
	var storedBytes int64
	_, err := t.one("SELECT CAST(COALESCE(SUM(length(bytes)), 0) AS BIGINT) FROM blob WHERE partition = $1 AND kind = $2", []any{string(partition), kind}, &storedBytes)
	if most := s.mostSpilled; err == nil && storedBytes > most {
		return fault.New(fault.Invalid, "%s: partition %s would keep %d bytes of blobs, for all its incarnations and candidates, and at most %d are allowed", attempt, partition, storedBytes, most).
			WithHint("keep large content elsewhere, named by URI and digest, or let old incarnations be collected: what none names any more is removed within the hour")
	}
	return err
}

// putSpilled notes which blobs a body names, and makes sure that they are there:
// from here on the collector leaves them (S17).
func putSpilled(t *transaction, partition intent.PartitionID, entry store.Entry) error {
	for _, digest := range entry.Blobs {
		name := digest.String()
		var one int
		ok, err := t.one("SELECT 1 FROM blob WHERE partition = $1 AND kind = $2 AND name = $3", []any{string(partition), store.SpillBlobs, name}, &one)
		if err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.Conflict, "asset %s names the blob %s, which is not there: it was collected meanwhile", entry.Asset, name)
		}
		body := entry.Member.Digest
		if _, err := t.exec("INSERT INTO spilled (partition, body, name) VALUES ($1, $2, $3) ON CONFLICT (partition, body, name) DO NOTHING",
			string(partition), body[:], name); err != nil {
			return err
		}
	}
	return nil
}

// lostSpilled is the error of a blob that is not there, or is not what its name
// says: where a body names it, that is damage, which is told with an asset.
func lostSpilled(q querier, attempt string, partition intent.PartitionID, name string, ok bool) error {
	var asset string
	named, err := q.one(`SELECT coalesce(
		(SELECT m.asset FROM member m WHERE m.partition = s.partition AND m.digest = s.body ORDER BY m.to_seq DESC, m.asset LIMIT 1),
		(SELECT e.asset FROM candidate_entry e WHERE e.partition = s.partition AND e.digest = s.body ORDER BY e.asset LIMIT 1),
		'') FROM spilled s WHERE s.partition = $1 AND s.name = $2 ORDER BY 1 DESC LIMIT 1`, []any{string(partition), name}, &asset)
	switch {
	case err != nil:
		return err
	case !ok && !named:
		return fault.New(fault.NotFound, "%s: there is none", attempt)
	}
	reason := "its bytes have another digest"
	if !ok {
		reason = "it is not there"
	}
	if named {
		reason += fmt.Sprintf(", and asset %q names it", asset)
	}
	return fault.New(fault.Internal, "%s: it is damaged: %s", attempt, reason).WithHint(restoreHint)
}

// names takes note that bodies which are gone name nothing any more.
func (c *collection) names(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM spilled WHERE partition = $1 AND (body, name) IN (
		SELECT s.body, s.name FROM spilled s WHERE s.partition = $1
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.digest = s.body AND m.partition = $1)
		AND NOT EXISTS (SELECT 1 FROM candidate_entry e WHERE e.digest = s.body AND e.partition = $1 AND e.has_body = 1)
		LIMIT $2 + 0)`, string(c.lease.Partition), chunk)
}

// spillChunk bounds the blobs removed in one transaction: they are large.
const spillChunk = 20

// spilled removes blobs that no body names.
func (c *collection) spilled(t *transaction, _ standing) (int64, error) {
	return t.exec(`DELETE FROM blob WHERE partition = $1 AND kind = $2 AND name IN (
		SELECT b.name FROM blob b WHERE b.partition = $1 AND b.kind = $2
		AND NOT EXISTS (SELECT 1 FROM spilled s WHERE s.partition = $1 AND s.name = b.name) LIMIT $3 + 0)`,
		string(c.lease.Partition), store.SpillBlobs, spillChunk)
}
