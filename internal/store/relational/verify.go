package relational

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Verify recomputes every digest that the store keeps, all as of one moment
// (S7). What no digest covers is not told: see docs/operate/operating.md.
func (s *Store) Verify(ctx context.Context) (verified store.Verified, err error) {
	err = s.read(ctx, "verifying the store", func(q querier) error {
		v := verifier{querier: q, bodies: map[intent.Digest]bool{}}
		for _, step := range []func() error{v.verifyBodies, v.verifyBlobs, v.verifySpilled, v.verifyPartitions, v.verifyCandidates, v.verifyDocuments, v.verifyAudits} {
			if err := step(); err != nil {
				return err
			}
		}
		verified = v.Verified
		return nil
	})
	return verified, err
}

type verifier struct {
	querier
	store.Verified
	// bodies that are there.
	bodies map[intent.Digest]bool
}

func damaged(format string, arguments ...any) error {
	return fault.New(fault.Internal, "verifying the store: %s", fmt.Sprintf(format, arguments...)).
		WithHint("its disk is failing, or somebody changed it: stop, and restore a backup")
}

func (v *verifier) verifyBodies() error {
	return v.queryEach("SELECT digest, bytes FROM body", nil, func(row scanner) error {
		var digest intent.Digest
		var bytes []byte
		if err := row.Scan(digestColumn{&digest}, &bytes); err != nil {
			return err
		}
		if intent.BodyDigest(bytes) != digest {
			return damaged("the body %s is not as it was written", digest.Short())
		}
		v.Bodies++
		v.bodies[digest] = true
		return nil
	})
}

func (v *verifier) verifyBlobs() error {
	return v.queryEach("SELECT partition, kind, name, digest, bytes FROM blob", nil, func(row scanner) error {
		var partition, kind, name string
		var digest intent.Digest
		var bytes []byte
		if err := row.Scan(&partition, &kind, &name, digestColumn{&digest}, &bytes); err != nil {
			return err
		}
		if !isBlobDigest(digest, intent.PartitionID(partition), kind, name, bytes) || kind == store.SpillBlobs && intent.BlobSum(bytes).String() != name {
			return damaged("blob %q of kind %q of partition %q is not as it was written", name, kind, partition)
		}
		v.Blobs++
		return nil
	})
}

// verifySpilled finds what assets name that is not there.
func (v *verifier) verifySpilled() error {
	return v.queryEach(`SELECT s.partition, s.name FROM spilled s WHERE NOT EXISTS (
		SELECT 1 FROM blob b WHERE b.partition = s.partition AND b.kind = $1 AND b.name = s.name)`, []any{store.SpillBlobs}, func(row scanner) error {
		var partition, name string
		if err := row.Scan(&partition, &name); err != nil {
			return err
		}
		return damaged("an asset of partition %q names the blob %q, which is not there", partition, name)
	})
}

func (v *verifier) verifyPartitions() error {
	heads := map[intent.PartitionID]intent.Sequence{}
	err := v.queryEach("SELECT id, head FROM partitions", nil, func(row scanner) error {
		var id intent.PartitionID
		var head intent.Sequence
		err := row.Scan(&id, &head)
		heads[id] = head
		return err
	})
	if err != nil {
		return err
	}
	for id, head := range heads {
		if err := v.verifyMembership(id, head); err != nil {
			return err
		}
		v.Partitions++
	}
	return nil
}

// span is a row that holds from one incarnation until before another.
type span struct{ fromSeq, toSeq intent.Sequence }

func (s span) covers(at intent.Sequence) bool { return s.fromSeq <= at && at < s.toSeq }

type memberSpan struct {
	span
	intent.MemberDigest
}

type bucketSpan struct {
	span
	bucket int
	digest intent.Digest
}

// verifyMembership computes each bucket from its members, and each
// incarnation's digest from its buckets.
func (v *verifier) verifyMembership(partition intent.PartitionID, head intent.Sequence) error {
	members := map[int][]memberSpan{}
	err := v.queryEach("SELECT bucket, from_seq, to_seq, asset, digest FROM member WHERE partition = $1 ORDER BY asset", []any{string(partition)}, func(row scanner) error {
		var m memberSpan
		var bucket int
		if err := row.Scan(&bucket, &m.fromSeq, &m.toSeq, &m.Asset, digestColumn{&m.Digest}); err != nil {
			return err
		}
		if !v.bodies[m.Digest] {
			return damaged("the body %s of %q in partition %q is missing", m.Digest.Short(), m.Asset, partition)
		}
		members[bucket] = append(members[bucket], m)
		return nil
	})
	if err != nil {
		return err
	}
	var buckets []bucketSpan
	err = v.queryEach("SELECT bucket, from_seq, to_seq, digest FROM bucket WHERE partition = $1", []any{string(partition)}, func(row scanner) error {
		var b bucketSpan
		err := row.Scan(&b.bucket, &b.fromSeq, &b.toSeq, digestColumn{&b.digest})
		buckets = append(buckets, b)
		return err
	})
	if err != nil {
		return err
	}
	return v.queryEach("SELECT seq, record FROM incarnation WHERE partition = $1 AND seq <= $2", []any{string(partition), int64(head)}, func(row scanner) error {
		var seq intent.Sequence
		var record string
		if err := row.Scan(&seq, &record); err != nil {
			return err
		}
		var i intent.Incarnation
		if err := decode("incarnation", record, &i); err != nil {
			return err
		}
		v.Incarnations++
		return verifyIncarnation(i, intent.IncarnationID{Partition: partition, Sequence: seq}, members, buckets)
	})
}

func verifyIncarnation(i intent.Incarnation, id intent.IncarnationID, members map[int][]memberSpan, buckets []bucketSpan) error {
	var digests [intent.Buckets]intent.Digest
	for _, b := range buckets {
		if !b.covers(id.Sequence) {
			continue
		}
		if b.bucket < 0 || b.bucket >= intent.Buckets {
			return damaged("%s has a bucket %d", id, b.bucket)
		}
		digests[b.bucket] = b.digest
	}
	for bucket := range digests {
		var present []intent.MemberDigest
		for _, m := range members[bucket] {
			if m.covers(id.Sequence) {
				present = append(present, m.MemberDigest)
			}
		}
		slices.SortFunc(present, func(a, b intent.MemberDigest) int { return cmp.Compare(a.Asset, b.Asset) })
		if digest := intent.BucketDigest(present); digest != digests[bucket] && (len(present) > 0 || !digests[bucket].IsZero()) {
			return damaged("the members of %s are not those that were published", id)
		}
	}
	if i.ID != id || intent.MembershipDigest(&digests) != i.Digest {
		return damaged("the membership of %s is not the one that was published", id)
	}
	return nil
}

func (v *verifier) verifyCandidates() error {
	var ids []intent.CandidateID
	err := v.queryEach("SELECT partition, digest FROM candidate WHERE state <> 'saving'", nil, func(row scanner) error {
		var id intent.CandidateID
		var digest string
		err := row.Scan(&id.Partition, &digest)
		if err == nil {
			id.Digest, err = intent.ParseDigest(digest)
		}
		ids = append(ids, id)
		return err
	})
	for _, id := range ids {
		if err == nil {
			_, err = candidateDelta(v, "verifying candidate "+id.String(), id)
		}
		v.Candidates++
	}
	return err
}

// verifyAudits follows every chain. One that was taken out as a whole is told by
// what remains: a partition was registered, which its own chain records, and
// admissions name how many records of all partitions they saw.
func (v *verifier) verifyAudits() error {
	var partitions []intent.PartitionID
	err := v.queryEach("SELECT id FROM partitions UNION SELECT partition FROM audit_head UNION SELECT partition FROM audit", nil, func(row scanner) error {
		var id intent.PartitionID
		err := row.Scan(&id)
		partitions = append(partitions, id)
		return err
	})
	if err != nil {
		return err
	}
	var maxGlobal, ofAll uint64
	for _, partition := range partitions {
		records, err := walkChain(v, partition, func(r intent.AuditRecord) error {
			if admitted, well := audit.ParseAdmitted(r.Detail); r.Verb == "admit" && well {
				maxGlobal = max(maxGlobal, admitted.Global)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if partition == "" {
			ofAll = records
		} else if records == 0 {
			return damaged("the audit of partition %q is gone: the partition was registered, and no record says so", partition)
		}
		v.AuditRecords += int(records)
	}
	if maxGlobal > ofAll {
		return damaged("the audit of all partitions together has %d records, and an admission saw %d", ofAll, maxGlobal)
	}
	return nil
}
