package relational

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// bucketChunk bounds the buckets computed in one transaction.
const bucketChunk = 32

// Publish flips head from base to base + 1. The digests of the buckets that
// changed are computed before, in bounded transactions; should anything be
// staged meanwhile, the flip is refused.
func (s *Store) Publish(ctx context.Context, lease store.Lease, incarnation intent.Incarnation) (intent.Incarnation, error) {
	attempt := "publishing " + incarnation.ID.String()
	base := incarnation.Parent.Sequence
	if incarnation.ID.Partition != lease.Partition || incarnation.ID.Sequence != base+1 {
		return incarnation, fault.New(fault.Invalid, "%s on %s under the lease of %q: it must be the next of its parent, in the lease's partition",
			attempt, incarnation.Parent, lease.Partition)
	}
	if err := checkDefinitionGrants(attempt, incarnation); err != nil {
		return incarnation, err
	}
	prepared, err := s.prepare(ctx, lease, base, attempt)
	if err != nil {
		return incarnation, err
	}
	for buckets := range slices.Chunk(prepared.buckets, bucketChunk) {
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			if err := prepared.check(now); err != nil {
				return err
			}
			for _, bucket := range buckets {
				if err := updateBucket(t, lease.Partition, int64(base)+1, bucket); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return incarnation, err
		}
	}
	err = s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
		if err := prepared.check(now); err != nil {
			return err
		}
		if incarnation.Digest, err = membershipDigest(t, lease.Partition); err != nil {
			return err
		}
		return flip(t, lease, &incarnation)
	})
	incarnation.Governed = nil
	return incarnation, err
}

func flip(t *transaction, lease store.Lease, incarnation *intent.Incarnation) error {
	id := incarnation.ID
	if err := enthrone(t, incarnation); err != nil {
		return err
	}
	if err := publishLabels(t, incarnation); err != nil {
		return err
	}
	if err := publishGrants(t, incarnation); err != nil {
		return err
	}
	if err := publishGoverned(t, lease, incarnation); err != nil {
		return err
	}
	for _, person := range incarnation.People() {
		if _, err := t.exec("INSERT INTO authorship (partition, seq, person) VALUES ($1, $2, $3)",
			string(id.Partition), int64(id.Sequence), person); err != nil {
			return err
		}
	}
	if err := voidConsents(t, incarnation); err != nil {
		return err
	}
	t.audit(id.Partition, t.now, incarnation.Author, "publish", id.String(),
		fmt.Sprintf("%d assets: %d added, %d changed, %d removed; digest %s, under epoch %d",
			incarnation.Count, incarnation.Added, incarnation.Changed, incarnation.Removed, incarnation.Digest, lease.Epoch))
	return t.bump(id.Partition)
}

// enthrone makes an incarnation head.
func enthrone(t *transaction, incarnation *intent.Incarnation) error {
	id := incarnation.ID
	if incarnation.Created.IsZero() {
		incarnation.Created = t.now.UTC()
	}
	record, err := encode(incarnation)
	if err != nil {
		return err
	}
	covered, err := encode(incarnation.Sources)
	if err != nil {
		return err
	}
	if _, err := t.exec("INSERT INTO incarnation (partition, seq, created, record) VALUES ($1, $2, $3, $4)",
		string(id.Partition), int64(id.Sequence), stamp(incarnation.Created), record); err != nil {
		return err
	}
	if _, err := t.exec("UPDATE incarnation SET superseded = $3 WHERE partition = $1 AND seq = $2",
		string(id.Partition), int64(incarnation.Parent.Sequence), stamp(incarnation.Created)); err != nil {
		return err
	}
	_, err = t.exec("UPDATE partitions SET head = $2, covered = $3, stage_revision = stage_revision + 1 WHERE id = $1",
		string(id.Partition), int64(id.Sequence), covered)
	return err
}

// preparation is what a publication rests on: head, and what was staged on it.
type preparation struct {
	attempt string
	base    intent.Sequence
	stage   int64
	// buckets that what is staged changes.
	buckets []int
}

// prepare lists the buckets that change, without holding up any writer.
func (s *Store) prepare(ctx context.Context, lease store.Lease, base intent.Sequence, attempt string) (*preparation, error) {
	p := &preparation{attempt: attempt, base: base}
	err := s.read(ctx, attempt, func(q querier) error {
		now, err := s.fence(q, lease)
		if err != nil {
			return err
		}
		p.stage = now.stageRevision
		if err := p.check(now); err != nil {
			return err
		}
		return q.queryEach(changedBuckets, []any{string(lease.Partition), int64(base) + 1}, func(row scanner) error {
			var bucket int
			err := row.Scan(&bucket)
			p.buckets = append(p.buckets, bucket)
			return err
		})
	})
	return p, err
}

// changedBuckets counts those in that an attempt before this one has written:
// what it found staged may have been taken back since.
const changedBuckets = `SELECT bucket FROM member WHERE partition = $1 AND from_seq = $2
	UNION SELECT bucket FROM member WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807
	UNION SELECT bucket FROM bucket WHERE partition = $1 AND from_seq = $2`

// check is Conflict when head or what is staged moved since the beginning.
func (p *preparation) check(now standing) error {
	switch {
	case now.head != p.base:
		return fault.New(fault.Conflict, "%s: head is at %d, not at %d", p.attempt, now.head, p.base)
	case now.stageRevision != p.stage:
		return fault.New(fault.Conflict, "%s: something was staged meanwhile", p.attempt)
	}
	return nil
}

const membersOfBucket = `SELECT asset, digest FROM member
	WHERE partition = $1 AND bucket = $2 AND to_seq = 9223372036854775807 ORDER BY asset`

// updateBucket makes the bucket's digest as of next that of its members: the
// open rows, once all is staged.
func updateBucket(t *transaction, partition intent.PartitionID, next int64, bucket int) error {
	var members []intent.MemberDigest
	err := t.queryEach(membersOfBucket, []any{string(partition), bucket}, func(row scanner) error {
		var m intent.MemberDigest
		err := row.Scan(&m.Asset, digestColumn{&m.Digest})
		members = append(members, m)
		return err
	})
	if err != nil {
		return err
	}
	digest := intent.BucketDigest(members)
	_, err = t.exec(`UPDATE bucket SET to_seq = $3 WHERE partition = $1 AND bucket = $2
		AND to_seq = 9223372036854775807 AND from_seq < $3`, string(partition), bucket, next)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO bucket (partition, bucket, from_seq, to_seq, digest) VALUES ($1, $2, $3, 9223372036854775807, $4)
		ON CONFLICT (partition, bucket, from_seq) DO UPDATE SET digest = excluded.digest`, string(partition), bucket, next, digest[:])
	return err
}

// membershipDigest is that of all open rows.
func membershipDigest(t *transaction, partition intent.PartitionID) (intent.Digest, error) {
	var buckets [intent.Buckets]intent.Digest
	err := t.queryEach("SELECT bucket, digest FROM bucket WHERE partition = $1 AND to_seq = 9223372036854775807 ORDER BY bucket",
		[]any{string(partition)}, func(row scanner) error {
			var bucket int
			var digest intent.Digest
			err := row.Scan(&bucket, digestColumn{&digest})
			if err == nil && (bucket < 0 || bucket >= intent.Buckets) {
				return fault.New(fault.Internal, "partition %q has a bucket %d", partition, bucket)
			}
			if err == nil {
				buckets[bucket] = digest
			}
			return err
		})
	return intent.MembershipDigest(&buckets), err
}

// Cover records that head is also what these source revisions generate.
func (s *Store) Cover(ctx context.Context, lease store.Lease, head intent.IncarnationID, sources []intent.SourceRevision) error {
	attempt := "recording what " + head.String() + " covers"
	covered, err := encode(sources)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", attempt, err)
	}
	return s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
		if head.Sequence != now.head {
			return fault.New(fault.Conflict, "%s: head is %s@%d", attempt, lease.Partition, now.head)
		}
		changed, err := t.exec("UPDATE partitions SET covered = $2 WHERE id = $1 AND covered <> $2", string(lease.Partition), covered)
		if changed > 0 {
			t.audit(lease.Partition, t.now, serverActor(lease), "cover", head.String(), "also generated from "+sourceNames(sources))
		}
		return err
	})
}

// sourceNames says which sources, at which revisions.
func sourceNames(sources []intent.SourceRevision) string {
	names := make([]string, len(sources))
	for i, source := range sources {
		names[i] = source.Source + " at " + source.Revision
	}
	return strings.Join(names, ", ")
}
