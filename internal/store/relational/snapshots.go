package relational

import (
	"context"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// incarnationAt is NotFound unless the incarnation is retained. Reads of its
// members ask it on the same view: what is not retained, or not published
// yet, has rows that are not to be seen.
func incarnationAt(q querier, id intent.IncarnationID) (incarnation intent.Incarnation, err error) {
	var text string
	ok, err := q.one("SELECT record FROM incarnation WHERE partition = $1 AND seq = $2",
		[]any{string(id.Partition), int64(id.Sequence)}, &text)
	if err != nil {
		return incarnation, err
	}
	if !ok {
		return incarnation, absent(q, id)
	}
	if err := decode("incarnation "+id.String(), text, &incarnation); err != nil {
		return incarnation, err
	}
	list := []intent.Incarnation{incarnation}
	err = addLabels(q, id.Partition, list)
	return list[0], err
}

// absent says whether an incarnation was collected, or never published.
func absent(q querier, id intent.IncarnationID) error {
	var oldest, newest intent.Sequence
	_, err := q.one("SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM incarnation WHERE partition = $1", []any{string(id.Partition)}, &oldest, &newest)
	switch {
	case err != nil:
		return err
	case newest == 0:
		return fault.New(fault.NotFound, "there is no incarnation %s", id).WithHint("none was published in %s", id.Partition)
	case id.Sequence == 0 || id.Sequence > newest:
		return fault.New(fault.NotFound, "there is no incarnation %s", id).WithHint("it was never published: the newest is %s@%d", id.Partition, newest)
	}
	return fault.New(fault.NotFound, "there is no incarnation %s any more: it is not retained", id).
		WithHint("the oldest that is retained is %s@%d; lehr get incarnations lists them", id.Partition, oldest)
}

func mustRetain(q querier, id intent.IncarnationID) error {
	var one int
	ok, err := q.one("SELECT 1 FROM incarnation WHERE partition = $1 AND seq = $2",
		[]any{string(id.Partition), int64(id.Sequence)}, &one)
	if err == nil && !ok {
		_, err = incarnationAt(q, id)
	}
	return err
}

const memberColumns = "asset, type, digest, effective, from_seq"

func scanMember(row scanner) (m intent.Member, err error) {
	err = row.Scan(&m.Asset, &m.Type, digestColumn{&m.Digest}, digestColumn{&m.Effective}, &m.Since)
	return m, err
}

// memberAt is NotFound when the asset is not in the incarnation.
func memberAt(q querier, id intent.IncarnationID, asset intent.AssetID) (m intent.Member, err error) {
	if err := mustRetain(q, id); err != nil {
		return m, err
	}
	ok, err := q.one("SELECT "+memberColumns+` FROM member
		WHERE partition = $1 AND asset = $2 AND from_seq <= $3 AND to_seq > $3`,
		[]any{string(id.Partition), string(asset), int64(id.Sequence)},
		&m.Asset, &m.Type, digestColumn{&m.Digest}, digestColumn{&m.Effective}, &m.Since)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "%s has no asset %q", id, asset)
	}
	return m, err
}

// Incarnation returns what is known of a retained incarnation.
func (s *Store) Incarnation(ctx context.Context, id intent.IncarnationID) (incarnation intent.Incarnation, err error) {
	err = s.read(ctx, "reading incarnation "+id.String(), func(q querier) error {
		incarnation, err = incarnationAt(q, id)
		return err
	})
	return incarnation, err
}

// Incarnations lists retained ones before a sequence (0: all), newest first.
func (s *Store) Incarnations(ctx context.Context, partition intent.PartitionID, cursor intent.Sequence, limit int) (list []intent.Incarnation, err error) {
	last := open
	if cursor > 0 {
		last = int64(cursor)
	}
	err = s.read(ctx, fmt.Sprintf("listing the incarnations of %q", partition), func(q querier) error {
		err := q.queryEach("SELECT record FROM incarnation WHERE partition = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3 + 0",
			[]any{string(partition), last, pageSize(limit)}, func(row scanner) error {
				var text string
				if err := row.Scan(&text); err != nil {
					return err
				}
				var incarnation intent.Incarnation
				err := decode("incarnation", text, &incarnation)
				list = append(list, incarnation)
				return err
			})
		if err != nil {
			return err
		}
		return addLabels(q, partition, list)
	})
	return list, err
}

// Member returns an asset's place in an incarnation.
func (s *Store) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (m intent.Member, err error) {
	err = s.read(ctx, fmt.Sprintf("reading %q in %s", asset, id), func(q querier) error {
		m, err = memberAt(q, id, asset)
		return err
	})
	return m, err
}

// Body returns canonical bytes, verified against the digest (S7).
func (s *Store) Body(ctx context.Context, digest intent.Digest) (body []byte, err error) {
	attempt := "reading the content " + digest.Short()
	err = s.read(ctx, attempt, func(q querier) error {
		var ok bool
		if body, ok, err = bodyOf(q, digest); err == nil && !ok {
			return fault.New(fault.NotFound, "%s: there is none", attempt)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Content returns a member and its body.
func (s *Store) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (m intent.Member, body []byte, err error) {
	attempt := fmt.Sprintf("reading %q in %s", asset, id)
	err = s.read(ctx, attempt, func(q querier) error {
		ok, err := q.one(contentOfMember, []any{string(id.Partition), string(asset), int64(id.Sequence)},
			&m.Asset, &m.Type, digestColumn{&m.Digest}, digestColumn{&m.Effective}, &m.Since, &body)
		if err != nil || ok && body != nil && intent.BodyDigest(body) == m.Digest {
			return err
		}
		// Step by step, to say what is missing or damaged.
		if m, err = memberAt(q, id, asset); err != nil {
			return err
		}
		if body, ok, err = bodyOf(q, m.Digest); err == nil && !ok {
			return fault.New(fault.Internal, "%s: its content with digest %s is not there", attempt, m.Digest)
		}
		return err
	})
	if err != nil {
		return intent.Member{}, nil, err
	}
	return m, body, nil
}

// contentOfMember reads all of it at once: what plugins are asked about most is read so.
const contentOfMember = `SELECT m.asset, m.type, m.digest, m.effective, m.from_seq, b.bytes FROM incarnation AS i
	JOIN member AS m ON m.partition = i.partition AND m.asset = $2 AND m.from_seq <= i.seq AND m.to_seq > i.seq
	JOIN body AS b ON b.digest = m.digest WHERE i.partition = $1 AND i.seq = $3`

// Contents implements store.Snapshots, in one view.
func (s *Store) Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	bodies := make(map[intent.AssetID][]byte, len(assets))
	err := s.read(ctx, fmt.Sprintf("reading %d assets of %s", len(assets), id), func(q querier) error {
		return eachSeveral(q, contentsOfMembers, []any{string(id.Partition), int64(id.Sequence)}, assets, func(row scanner) error {
			var asset intent.AssetID
			var digest intent.Digest
			var body []byte
			if err := row.Scan(&asset, digestColumn{&digest}, &body); err != nil {
				return err
			}
			if digest == intent.BodyDigest(body) {
				bodies[asset] = body
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return bodies, nil
}

var contentsOfMembers = `SELECT m.asset, m.digest, b.bytes FROM incarnation AS i
	JOIN member AS m ON m.partition = i.partition AND m.asset IN ` + severalAssets(3) + ` AND m.from_seq <= i.seq AND m.to_seq > i.seq
	JOIN body AS b ON b.digest = m.digest WHERE i.partition = $1 AND i.seq = $2`

// bodyOf reads and verifies. A body that does not match its digest is named
// with an asset that has it, and never returned.
func bodyOf(q querier, digest intent.Digest) (body []byte, ok bool, err error) {
	ok, err = q.one("SELECT bytes FROM body WHERE digest = $1", []any{digest[:]}, &body)
	if err != nil || !ok {
		return nil, false, err
	}
	if intent.BodyDigest(body) == digest {
		if body == nil {
			body = []byte{}
		}
		return body, true, nil
	}
	partition, asset := "no partition", "no asset"
	_, err = q.one("SELECT partition, asset FROM member WHERE digest = $1 ORDER BY to_seq DESC LIMIT 1", []any{digest[:]}, &partition, &asset)
	if err != nil {
		return nil, false, err
	}
	return nil, false, fault.New(fault.Internal, "the stored content with digest %s, of asset %q in %q, is damaged: its bytes have another digest",
		digest, asset, partition).WithHint("restore the store from a backup; nothing is pushed from damaged content")
}

// Members lists one page, in the order of the ids.
func (s *Store) Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) (members []intent.Member, err error) {
	err = s.read(ctx, "listing the assets of "+id.String(), func(q querier) error {
		if err := mustRetain(q, id); err != nil {
			return err
		}
		text, arguments := membersBy(id, filter)
		return q.queryEach(text, arguments, func(row scanner) error {
			m, err := scanMember(row)
			members = append(members, m)
			return err
		})
	})
	return members, err
}

// Changes join, for every asset with a bound between two sequences, what it was at
// the first with what it is at the last. Few are found by their sequences, all of
// them for each page. Many are passed in the order of the assets: a page costs what
// is passed for it, and all pages together one walk; + 0 keeps the database from the
// sequences' indexes.
const (
	wasAndIs = ` t.asset,
		coalesce(b.type, ''), b.digest, b.effective, coalesce(b.from_seq, 0),
		coalesce(a.type, ''), a.digest, a.effective, coalesce(a.from_seq, 0)`
	whereDiffers = `
	LEFT JOIN member b ON b.partition = $1 AND b.asset = t.asset AND b.from_seq <= $2 AND b.to_seq > $2
	LEFT JOIN member a ON a.partition = $1 AND a.asset = t.asset AND a.from_seq <= $3 AND a.to_seq > $3
	WHERE t.asset > $4 AND (a.effective IS DISTINCT FROM b.effective OR a.digest IS DISTINCT FROM b.digest OR a.type IS DISTINCT FROM b.type)`
	fewChanges = `WITH touched AS (
		SELECT asset FROM member WHERE partition = $1 AND from_seq > $2 AND from_seq <= $3
		UNION
		SELECT asset FROM member WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3 AND to_seq < 9223372036854775807)
	SELECT` + wasAndIs + " FROM touched t" + whereDiffers + " ORDER BY t.asset LIMIT $5 + 0"
	manyChanges = "SELECT DISTINCT" + wasAndIs + " FROM member t" + whereDiffers + ` AND t.partition = $1
		AND (t.from_seq + 0 > $2 AND t.from_seq + 0 <= $3 OR t.to_seq + 0 > $2 AND t.to_seq + 0 <= $3)
	ORDER BY t.asset LIMIT $5 + 0`
)

// countChanges counts bounds between two sequences, up to so many of each kind.
const countChanges = `SELECT
	(SELECT count(*) FROM (SELECT 1 FROM member WHERE partition = $1 AND from_seq > $2 AND from_seq <= $3 LIMIT $4 + 0) AS began) +
	(SELECT count(*) FROM (SELECT 1 FROM member WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3 AND to_seq < 9223372036854775807 LIMIT $4 + 0) AS ended)`

// leastMany changes are many, also where there are few assets.
const leastMany = 1000

// manyBetween reports whether more than a tenth of the assets of the newer
// incarnation may have changed since the older; 0: there was none before.
func manyBetween(q querier, newer intent.IncarnationID, older intent.Sequence) (bool, error) {
	if older == 0 {
		return true, nil
	}
	incarnation, err := incarnationAt(q, newer)
	if err != nil {
		return false, err
	}
	few, changed := max(incarnation.Count/10, leastMany), 0
	_, err = q.one(countChanges, []any{string(newer.Partition), int64(older), int64(newer.Sequence), few + 1}, &changed)
	return changed > few, err
}

// Changes lists one page of what differs between two incarnations, in either
// direction.
func (s *Store) Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) (list []store.Change, err error) {
	attempt := fmt.Sprintf("comparing %s with %s", base, target)
	partition := target.Partition
	if target.IsZero() {
		partition = base.Partition
	}
	if !base.IsZero() && !target.IsZero() && base.Partition != target.Partition {
		return nil, fault.New(fault.Invalid, "%s: they are of two partitions", attempt)
	}
	err = s.read(ctx, attempt, func(q querier) error {
		for _, id := range []intent.IncarnationID{base, target} {
			if !id.IsZero() {
				if err := mustRetain(q, id); err != nil {
					return err
				}
			}
		}
		older, newer := min(base.Sequence, target.Sequence), max(base.Sequence, target.Sequence)
		text := fewChanges
		many, err := manyBetween(q, intent.IncarnationID{Partition: partition, Sequence: newer}, older)
		if err != nil {
			return err
		}
		if many {
			text = manyChanges
		}
		return q.queryEach(text, []any{string(partition), int64(older), int64(newer), string(cursor), pageSize(limit)}, func(row scanner) error {
			change, err := scanChange(row)
			if base.Sequence > target.Sequence {
				change.Before, change.After = change.After, change.Before
			}
			list = append(list, change)
			return err
		})
	})
	return list, err
}

func scanChange(row scanner) (change store.Change, err error) {
	var older, newer intent.Member
	err = row.Scan(&change.Asset,
		&older.Type, digestColumn{&older.Digest}, digestColumn{&older.Effective}, &older.Since,
		&newer.Type, digestColumn{&newer.Digest}, digestColumn{&newer.Effective}, &newer.Since)
	older.Asset, newer.Asset = change.Asset, change.Asset
	if older.Since > 0 {
		change.Before = &older
	}
	if newer.Since > 0 {
		change.After = &newer
	}
	return change, err
}

// EdgesFrom lists the references of an asset.
func (s *Store) EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	return s.edges(ctx, id, "from_asset", asset)
}

// EdgesTo lists the references to an asset.
func (s *Store) EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	return s.edges(ctx, id, "to_asset", asset)
}

// edgesOf selects by the column that names one end.
func edgesOf(end string) string {
	return "SELECT from_asset, to_asset, field, is_read FROM edge WHERE partition = $1 AND " + end +
		" = $2 AND from_seq <= $3 AND to_seq > $3 ORDER BY from_asset, field, to_asset"
}

func (s *Store) edges(ctx context.Context, id intent.IncarnationID, end string, asset intent.AssetID) (edges []store.Edge, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the references of %q in %s", asset, id), func(q querier) error {
		if err := mustRetain(q, id); err != nil {
			return err
		}
		return q.queryEach(edgesOf(end), []any{string(id.Partition), string(asset), int64(id.Sequence)}, func(row scanner) error {
			var edge store.Edge
			var read int
			err := row.Scan(&edge.From, &edge.To, &edge.Field, &read)
			edge.Read = read == 1
			edges = append(edges, edge)
			return err
		})
	})
	return edges, err
}
