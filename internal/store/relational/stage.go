package relational

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// chunk bounds the rows of one transaction, so that a large write holds up
// the small ones of others for a tenth of a second at most.
const chunk = 1000

// Unstage throws away what an earlier, unfinished publication left.
func (s *Store) Unstage(ctx context.Context, lease store.Lease) error {
	attempt := fmt.Sprintf("clearing what was staged for %q", lease.Partition)
	for {
		more := false
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			if err := markStage(t, lease.Partition); err != nil {
				return err
			}
			more = false
			var touched int64
			for _, clear := range []func(*transaction, intent.PartitionID, intent.Sequence) (int64, error){
				unstageMembers, unstageEdges, unstageFields, unstageBuckets,
			} {
				count, err := clear(t, lease.Partition, now.head+1)
				if err != nil {
					return err
				}
				touched += count
			}
			more = touched > 0
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
}

// markStage makes a publication that is being prepared notice that what is
// staged has changed.
func markStage(t *transaction, partition intent.PartitionID) error {
	_, err := t.exec("UPDATE partitions SET stage_revision = stage_revision + 1 WHERE id = $1", string(partition))
	return err
}

func unstageMembers(t *transaction, partition intent.PartitionID, next intent.Sequence) (int64, error) {
	var digests bodySet
	err := t.queryEach(`DELETE FROM member WHERE partition = $1 AND from_seq = $2 AND asset IN (
			SELECT asset FROM member WHERE partition = $1 AND from_seq = $2 LIMIT $3 + 0) RETURNING digest`,
		[]any{string(partition), int64(next), chunk}, digests.scan)
	if err != nil {
		return 0, err
	}
	if err := digests.drop(t); err != nil {
		return 0, err
	}
	reopened, err := t.exec(`UPDATE member SET to_seq = 9223372036854775807 WHERE partition = $1 AND to_seq = $2 AND asset IN (
			SELECT asset FROM member WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807 LIMIT $3 + 0)`,
		string(partition), int64(next), chunk)
	return int64(len(digests.all)) + reopened, err
}

func unstageEdges(t *transaction, partition intent.PartitionID, next intent.Sequence) (int64, error) {
	removed, err := t.exec(`DELETE FROM edge WHERE partition = $1 AND from_seq = $2 AND from_asset IN (
			SELECT from_asset FROM edge WHERE partition = $1 AND from_seq = $2 LIMIT $3 + 0)`, string(partition), int64(next), chunk)
	if err != nil {
		return 0, err
	}
	reopened, err := t.exec(`UPDATE edge SET to_seq = 9223372036854775807 WHERE partition = $1 AND to_seq = $2 AND from_asset IN (
			SELECT from_asset FROM edge WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807 LIMIT $3 + 0)`,
		string(partition), int64(next), chunk)
	return removed + reopened, err
}

// unstageBuckets takes one step: there are at most intent.Buckets of them.
func unstageBuckets(t *transaction, partition intent.PartitionID, next intent.Sequence) (int64, error) {
	removed, err := t.exec("DELETE FROM bucket WHERE partition = $1 AND from_seq = $2", string(partition), int64(next))
	if err != nil {
		return 0, err
	}
	reopened, err := t.exec("UPDATE bucket SET to_seq = 9223372036854775807 WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807",
		string(partition), int64(next))
	return removed + reopened, err
}

// Stage writes part of the delta on head. Rows get their bounds at head + 1,
// so that no read as of head or before sees them.
func (s *Store) Stage(ctx context.Context, lease store.Lease, base intent.IncarnationID, delta []store.Entry) error {
	attempt := fmt.Sprintf("staging %d assets on %s", len(delta), base)
	if err := checkDelta(attempt, delta); err != nil {
		return err
	}
	// In the order of the ids neighbours share pages. The last of several
	// entries of one asset counts, so the order among them stays.
	delta = slices.SortedStableFunc(slices.Values(delta), func(a, b store.Entry) int { return cmp.Compare(a.Asset, b.Asset) })
	for part := range parts(delta) {
		err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			if base.Sequence != now.head {
				return fault.New(fault.Conflict, "%s: head is %s@%d", attempt, lease.Partition, now.head)
			}
			if err := markStage(t, lease.Partition); err != nil {
				return err
			}
			stage := staging{transaction: t, partition: lease.Partition, next: int64(now.head) + 1}
			for _, entry := range part {
				if err := stage.entry(entry); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stageRows bounds the rows that one transaction of Stage inserts.
const stageRows = 5000

// parts cuts a delta by entries and by the rows that they make: an asset may
// have thousands of references or fields, and many such must not hold up the
// writes of others (S12).
func parts(delta []store.Entry) iter.Seq[[]store.Entry] {
	return func(yield func([]store.Entry) bool) {
		first, rows := 0, 0
		for i := range delta {
			more := 1 + len(delta[i].References) + len(delta[i].Fields)
			if i > first && (rows+more > stageRows || i-first == chunk) {
				if !yield(delta[first:i]) {
					return
				}
				first, rows = i, 0
			}
			rows += more
		}
		if first < len(delta) {
			yield(delta[first:])
		}
	}
}

// checkDelta verifies bodies before a transaction begins.
func checkDelta(attempt string, delta []store.Entry) error {
	for _, entry := range delta {
		switch {
		case entry.Asset == "":
			return fault.New(fault.Invalid, "%s: an entry names no asset", attempt)
		case entry.Removed || entry.Body == nil:
		case intent.BodyDigest(entry.Body) != entry.Member.Digest:
			return fault.New(fault.Invalid, "%s: the body of %q does not have the digest %s", attempt, entry.Asset, entry.Member.Digest)
		}
	}
	return nil
}

// staging writes entries with their bounds at next.
type staging struct {
	*transaction
	partition intent.PartitionID
	next      int64
}

const rowsOfAsset = "SELECT " + memberColumns + ", to_seq FROM member WHERE partition = $1 AND asset = $2 AND to_seq >= $3"

// stored is a row of an asset that is open, or was closed by this staging.
type stored struct {
	fromSeq, toSeq int64
	member         intent.Member
}

func (s staging) entry(entry store.Entry) error {
	var base, staged *stored
	err := s.queryEach(rowsOfAsset, []any{string(s.partition), string(entry.Asset), s.next}, func(row scanner) error {
		r := &stored{}
		m := &r.member
		err := row.Scan(&m.Asset, &m.Type, digestColumn{&m.Digest}, digestColumn{&m.Effective}, &r.fromSeq, &r.toSeq)
		if r.fromSeq == s.next {
			staged = r
		} else {
			base = r
		}
		return err
	})
	if err != nil {
		return err
	}
	same := func(r *stored) bool {
		return r != nil && r.member.Type == entry.Member.Type &&
			r.member.Digest == entry.Member.Digest && r.member.Effective == entry.Member.Effective
	}
	switch {
	case entry.Removed:
		if err := s.close(base); err != nil {
			return err
		}
		if err := s.discard(staged); err != nil {
			return err
		}
		if _, err := s.exec(markAdrift, string(s.partition), string(entry.Asset)); err != nil {
			return err
		}
		return s.index(entry)
	case same(base):
		if err := s.reopen(base); err != nil {
			return err
		}
		if err := s.discard(staged); err != nil {
			return err
		}
	case same(staged):
	default:
		if err := s.close(base); err != nil {
			return err
		}
		if err := putBody(s.transaction, entry); err != nil {
			return err
		}
		if err := putSpilled(s.transaction, s.partition, entry); err != nil {
			return err
		}
		if err := s.insert(entry); err != nil {
			return err
		}
		if staged != nil && staged.member.Digest != entry.Member.Digest {
			if err := dropBody(s.transaction, staged.member.Digest); err != nil {
				return err
			}
		}
	}
	if entry.Body == nil && base != nil && base.member.Digest == entry.Member.Digest {
		return nil // only the effective digest moved
	}
	return s.index(entry)
}

// index makes references and fields those of the entry, none when it is
// removed.
func (s staging) index(entry store.Entry) error {
	if entry.Removed {
		entry.References, entry.Fields = nil, nil
	}
	if err := s.edges(entry.Asset, entry.References); err != nil {
		return err
	}
	return s.fields(entry.Asset, entry.Fields)
}

func (s staging) insert(entry store.Entry) error {
	m := entry.Member
	_, err := s.exec(`INSERT INTO member (partition, asset, from_seq, to_seq, type, digest, effective, bucket)
		VALUES ($1, $2, $3, 9223372036854775807, $4, $5, $6, $7)
		ON CONFLICT (partition, asset, from_seq) DO UPDATE SET type = excluded.type, digest = excluded.digest, effective = excluded.effective`,
		string(s.partition), string(entry.Asset), s.next, string(m.Type), m.Digest[:], m.Effective[:], intent.BucketOf(entry.Asset))
	return err
}

func (s staging) close(r *stored) error  { return s.end(r, s.next) }
func (s staging) reopen(r *stored) error { return s.end(r, open) }

func (s staging) end(r *stored, toSeq int64) error {
	if r == nil || r.toSeq == toSeq {
		return nil
	}
	_, err := s.exec("UPDATE member SET to_seq = $4 WHERE partition = $1 AND asset = $2 AND from_seq = $3",
		string(s.partition), string(r.member.Asset), r.fromSeq, toSeq)
	return err
}

func (s staging) discard(r *stored) error {
	if r == nil {
		return nil
	}
	_, err := s.exec("DELETE FROM member WHERE partition = $1 AND asset = $2 AND from_seq = $3",
		string(s.partition), string(r.member.Asset), r.fromSeq)
	if err != nil {
		return err
	}
	return dropBody(s.transaction, r.member.Digest)
}

// edges makes the asset's references as of next what they should be.
func (s staging) edges(asset intent.AssetID, want []intent.Reference) error {
	type key struct {
		field string
		to    intent.AssetID
		read  int
	}
	missing := make(map[key]bool, len(want))
	for _, reference := range want {
		k := key{field: reference.Field, to: reference.To}
		if reference.Read {
			k.read = 1
		}
		missing[k] = true
	}
	type storedEdge struct {
		key
		from, to int64
	}
	var rows []storedEdge
	err := s.queryEach("SELECT field, to_asset, is_read, from_seq, to_seq FROM edge WHERE partition = $1 AND from_asset = $2 AND to_seq >= $3",
		[]any{string(s.partition), string(asset), s.next}, func(row scanner) error {
			var h storedEdge
			err := row.Scan(&h.field, &h.key.to, &h.read, &h.from, &h.to)
			rows = append(rows, h)
			return err
		})
	if err != nil {
		return err
	}
	for _, h := range rows {
		wanted := missing[h.key]
		delete(missing, h.key)
		arguments := []any{string(s.partition), string(asset), h.field, string(h.key.to), h.from}
		switch {
		case wanted && h.to != open:
			_, err = s.exec(`UPDATE edge SET to_seq = 9223372036854775807
				WHERE partition = $1 AND from_asset = $2 AND field = $3 AND to_asset = $4 AND from_seq = $5`, arguments...)
		case !wanted && h.from == s.next:
			_, err = s.exec("DELETE FROM edge WHERE partition = $1 AND from_asset = $2 AND field = $3 AND to_asset = $4 AND from_seq = $5", arguments...)
		case !wanted && h.to == open:
			_, err = s.exec("UPDATE edge SET to_seq = $6 WHERE partition = $1 AND from_asset = $2 AND field = $3 AND to_asset = $4 AND from_seq = $5",
				append(arguments, s.next)...)
		}
		if err != nil {
			return err
		}
	}
	for k := range missing {
		_, err := s.exec(`INSERT INTO edge (partition, from_asset, field, to_asset, is_read, from_seq, to_seq)
			VALUES ($1, $2, $3, $4, $5, $6, 9223372036854775807)
			ON CONFLICT (partition, from_asset, field, to_asset, from_seq) DO UPDATE SET is_read = excluded.is_read, to_seq = excluded.to_seq`,
			string(s.partition), string(asset), k.field, string(k.to), k.read, s.next)
		if err != nil {
			return err
		}
	}
	return nil
}

// putBody stores the content of an entry, or makes sure that it is there.
func putBody(t *transaction, entry store.Entry) error {
	digest := entry.Member.Digest
	if entry.Body != nil {
		_, err := t.exec("INSERT INTO body (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING", digest[:], entry.Body)
		return err
	}
	var one int
	ok, err := t.one("SELECT 1 FROM body WHERE digest = $1", []any{digest[:]}, &one)
	if err == nil && !ok {
		return fault.New(fault.Invalid, "the entry of %q brings no body, and none with digest %s is stored", entry.Asset, digest)
	}
	return err
}

// dropBody removes a body that no row needs any more, in the transaction that
// removed the last such row (S17).
func dropBody(t *transaction, digest intent.Digest) error {
	_, err := t.exec(`DELETE FROM body WHERE digest = $1
		AND NOT EXISTS (SELECT 1 FROM member WHERE digest = $1)
		AND NOT EXISTS (SELECT 1 FROM candidate_entry WHERE digest = $1 AND has_body = 1)`, digest[:])
	return err
}

// bodySet gathers the digests of removed rows.
type bodySet struct{ all [][]byte }

func (b *bodySet) scan(row scanner) error {
	var digest []byte
	err := row.Scan(&digest)
	b.all = append(b.all, bytes.Clone(digest))
	return err
}

func (b *bodySet) drop(t *transaction) error {
	for _, digest := range b.all {
		if err := dropBody(t, intent.Digest(digest)); err != nil {
			return err
		}
	}
	return nil
}
