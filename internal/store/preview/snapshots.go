package preview

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Stored is what is read of the content beneath.
type Stored interface {
	store.Snapshots
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}

// Snapshot is the content that a partition would have, beside the incarnations that
// are stored. It is safe for concurrent use.
type Snapshot struct {
	stored   Stored
	supposed Supposed
	// entries by asset.
	entries map[intent.AssetID]store.Entry
}

// NewSnapshot shows what is supposed as an incarnation with this sequence.
func NewSnapshot(stored Stored, supposed Supposed, sequence intent.Sequence) *Snapshot {
	supposed.Changes = slices.Clone(supposed.Changes)
	slices.SortFunc(supposed.Changes, func(a, b store.Entry) int { return cmp.Compare(a.Asset, b.Asset) })
	supposed.Incarnation.ID.Sequence = sequence
	s := &Snapshot{stored: stored, supposed: supposed, entries: map[intent.AssetID]store.Entry{}}
	for i, entry := range supposed.Changes {
		entry.Member.Since = sequence
		s.supposed.Changes[i], s.entries[entry.Asset] = entry, entry
	}
	return s
}

// Head is the supposed incarnation.
func (s *Snapshot) Head() intent.IncarnationID { return s.supposed.Incarnation.ID }

func (s *Snapshot) base() intent.IncarnationID { return s.supposed.Incarnation.Parent }

// Incarnations are those that are stored.
func (s *Snapshot) Incarnations(ctx context.Context, partition intent.PartitionID, cursor intent.Sequence, limit int) ([]intent.Incarnation, error) {
	return s.stored.Incarnations(ctx, partition, cursor, limit)
}

// FindIncarnation finds one that is stored.
func (s *Snapshot) FindIncarnation(ctx context.Context, partition intent.PartitionID, lookup store.Lookup) (intent.Incarnation, error) {
	return s.stored.FindIncarnation(ctx, partition, lookup)
}

// Incarnation is a stored one, or what is supposed.
func (s *Snapshot) Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error) {
	if id == s.Head() {
		return s.supposed.Incarnation, nil
	}
	return s.stored.Incarnation(ctx, id)
}

// Member implements store.Snapshots.
func (s *Snapshot) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	if id != s.Head() {
		return s.stored.Member(ctx, id, asset)
	}
	entry, changed := s.entries[asset]
	switch {
	case changed && entry.Removed, !changed && s.base().IsZero():
		return intent.Member{}, fault.New(fault.NotFound, "%s is not in what is planned", asset)
	case changed:
		return entry.Member, nil
	}
	return s.stored.Member(ctx, s.base(), asset)
}

// Body implements store.Snapshots.
func (s *Snapshot) Body(ctx context.Context, digest intent.Digest) ([]byte, error) {
	for _, entry := range s.supposed.Changes {
		if entry.Body != nil && entry.Member.Digest == digest {
			return bytes.Clone(entry.Body), nil
		}
	}
	return s.stored.Body(ctx, digest)
}

// Content implements store.Snapshots.
func (s *Snapshot) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	entry, changed := s.entries[asset]
	if id != s.Head() || !changed && !s.base().IsZero() {
		if id == s.Head() {
			id = s.base()
		}
		return s.stored.Content(ctx, id, asset)
	}
	member, err := s.Member(ctx, id, asset)
	if err != nil {
		return member, nil, err
	}
	if entry.Body != nil {
		return member, bytes.Clone(entry.Body), nil
	}
	body, err := s.stored.Body(ctx, member.Digest)
	return member, body, err
}

// Contents implements store.Snapshots.
func (s *Snapshot) Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	bodies := map[intent.AssetID][]byte{}
	for _, asset := range assets {
		_, body, err := s.Content(ctx, id, asset)
		if err == nil {
			bodies[asset] = body
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	return bodies, nil
}

// Members implements store.Snapshots.
func (s *Snapshot) Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error) {
	if id != s.Head() {
		return s.stored.Members(ctx, id, filter)
	}
	limit := pageSize(filter.Limit)
	members := make([]intent.Member, 0, 16)
	for _, entry := range s.supposed.Changes {
		if entry.Body != nil && entry.Asset > filter.After && matches(entry, filter) {
			members = append(members, entry.Member)
		}
	}
	if s.base().IsZero() {
		return members[:min(limit, len(members))], nil
	}
	for stored := 0; stored < limit; {
		page, err := s.stored.Members(ctx, s.base(), filter)
		if err != nil {
			return nil, err
		}
		for _, member := range page {
			filter.After = member.Asset
			entry, changed := s.entries[member.Asset]
			if changed && (entry.Removed || entry.Body != nil) {
				continue // It was told above, or is gone.
			}
			if changed {
				member = entry.Member
			}
			members = append(members, member)
			stored++
		}
		if len(page) < limit {
			break
		}
	}
	slices.SortFunc(members, func(a, b intent.Member) int { return cmp.Compare(a.Asset, b.Asset) })
	return members[:min(limit, len(members))], nil
}

// matches reports whether an entry with a body is what a filter selects.
func matches(entry store.Entry, filter store.AssetFilter) bool {
	field := func(f intent.Field) bool {
		return f.Path == filter.Field && (filter.Value == "" || f.Value == filter.Value)
	}
	refers := func(r intent.Reference) bool { return r.To == filter.RefersTo }
	return strings.HasPrefix(string(entry.Asset), filter.Prefix) &&
		(filter.Type == "" || entry.Member.Type == filter.Type) &&
		(filter.Field == "" || slices.ContainsFunc(entry.Fields, field)) &&
		(filter.RefersTo == "" || slices.ContainsFunc(entry.References, refers))
}

// Changes lists what differs between two of the stored incarnations, nothing, and
// what is supposed.
func (s *Snapshot) Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error) {
	switch {
	case base == s.Head() && target == s.Head():
		return nil, nil
	case base == s.Head():
		changes, err := s.Changes(ctx, target, base, cursor, limit)
		for i := range changes {
			changes[i].Before, changes[i].After = changes[i].After, changes[i].Before
		}
		return changes, err
	case target != s.Head():
		return s.stored.Changes(ctx, base, target, cursor, limit)
	}
	limit = pageSize(limit)
	var changes []store.Change
	if !s.base().IsZero() && base != s.base() {
		page, err := s.stored.Changes(ctx, base, s.base(), cursor, limit)
		if err != nil {
			return nil, err
		}
		changes = page
	}
	// Beyond a full page nothing is known yet.
	last, more := intent.AssetID(""), len(changes) == limit
	if more {
		last = changes[len(changes)-1].Asset
	}
	positions := map[intent.AssetID]int{}
	for i := range changes {
		positions[changes[i].Asset] = i
	}
	for _, entry := range s.supposed.Changes {
		if entry.Asset <= cursor || more && entry.Asset > last {
			continue
		}
		at, ok := positions[entry.Asset]
		if !ok {
			previous, err := s.memberBefore(ctx, base, entry.Asset)
			if err != nil {
				return nil, err
			}
			at = len(changes)
			changes = append(changes, store.Change{Asset: entry.Asset, Before: previous})
		}
		changes[at].After = nil
		if !entry.Removed {
			member := entry.Member
			changes[at].After = &member
		}
	}
	changes = slices.DeleteFunc(changes, func(c store.Change) bool { return c.Before == nil && c.After == nil })
	slices.SortFunc(changes, func(a, b store.Change) int { return cmp.Compare(a.Asset, b.Asset) })
	if more && len(changes) < limit {
		rest, err := s.Changes(ctx, base, target, last, limit-len(changes))
		return append(changes, rest...), err
	}
	return changes[:min(limit, len(changes))], nil
}

func (s *Snapshot) memberBefore(ctx context.Context, base intent.IncarnationID, asset intent.AssetID) (*intent.Member, error) {
	if base.IsZero() {
		return nil, nil
	}
	member, err := s.stored.Member(ctx, base, asset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &member, err
}

// EdgesFrom implements store.Snapshots.
func (s *Snapshot) EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	if id != s.Head() {
		return s.stored.EdgesFrom(ctx, id, asset)
	}
	entry, changed := s.entries[asset]
	switch {
	case changed && entry.Body != nil:
		return edges(entry, func(intent.AssetID) bool { return true }), nil
	case changed && entry.Removed, s.base().IsZero():
		return nil, nil
	}
	return s.stored.EdgesFrom(ctx, s.base(), asset)
}

// EdgesTo implements store.Snapshots.
func (s *Snapshot) EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	if id != s.Head() {
		return s.stored.EdgesTo(ctx, id, asset)
	}
	var all []store.Edge
	if !s.base().IsZero() {
		stored, err := s.stored.EdgesTo(ctx, s.base(), asset)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(stored, func(e store.Edge) bool {
			entry, changed := s.entries[e.From]
			return changed && (entry.Removed || entry.Body != nil)
		})
	}
	for _, entry := range s.supposed.Changes {
		all = append(all, edges(entry, func(target intent.AssetID) bool { return target == asset })...)
	}
	return all, nil
}

func edges(entry store.Entry, include func(intent.AssetID) bool) (list []store.Edge) {
	for _, r := range entry.References {
		if include(r.To) {
			list = append(list, store.Edge{From: entry.Asset, To: r.To, Field: r.Field, Read: r.Read})
		}
	}
	return list
}

// GetBlob implements store.Blobs.
func (s *Snapshot) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	if s.supposed.Blob != nil {
		if content, ok := s.supposed.Blob(kind, name); ok {
			return bytes.Clone(content), nil
		}
	}
	return s.stored.GetBlob(ctx, partition, kind, name)
}

// pageSize as store.AssetFilter says.
func pageSize(limit int) int {
	if limit <= 0 {
		return 1000
	}
	return min(limit, 10_000)
}
