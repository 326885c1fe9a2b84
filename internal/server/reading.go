package server

import (
	"context"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/preview"
)

// reading is the snapshot that a request names, and where it is read: an incarnation,
// or a candidate, which reads as if it were one.
type reading struct {
	// id by which the store below knows it; a candidate's is supposed, and shown to
	// nobody.
	id      intent.IncarnationID
	store   query.Store
	queries *query.Reader
	// candidate, if it is one, as it is shown.
	candidate *intent.Candidate
	snapshot  *preview.Snapshot
}

// stored reads an incarnation.
func (s *Server) stored(id intent.IncarnationID) reading {
	return reading{id: id, store: s.store, queries: s.queries}
}

// name is what people call it.
func (r reading) name() string {
	if r.candidate != nil {
		return r.candidate.ID.String()
	}
	return r.id.String()
}

// toAsset shows a member of it.
func (r reading) toAsset(member intent.Member, report *intent.Report) *apipb.Asset {
	asset := toAsset(r.id.Partition, member, report)
	if r.candidate != nil && member.Since == r.id.Sequence {
		asset.Since = r.name()
	}
	return asset
}

// reading is that of an incarnation or a candidate that a request names, by its id, a
// time or a label; else of head.
func (s *Server) reading(ctx context.Context, partition string, m moment) (reading, error) {
	named, _, isCandidate := strings.Cut(m.incarnation, "@~")
	if !isCandidate || m.at != nil || m.label != "" {
		id, err := s.snapshot(ctx, partition, m)
		return s.stored(id), err
	}
	registered, err := s.registered(ctx, partition)
	if err == nil && named != string(registered.ID) {
		err = fault.New(fault.Invalid, "candidate %.200s is not of partition %s", m.incarnation, registered.ID)
	}
	if err != nil {
		return reading{}, err
	}
	return s.readCandidate(ctx, registered.ID, m.incarnation, preview.First)
}

// readCandidate shows a candidate as if it were published with a sequence. What it is made of is
// verified as it is read (S7).
func (s *Server) readCandidate(ctx context.Context, partition intent.PartitionID, name string, sequence intent.Sequence) (reading, error) {
	_, digest, _ := strings.Cut(name, "@~")
	candidate, err := s.store.Candidate(ctx, partition, digest)
	if err != nil {
		return reading{}, err
	}
	if candidate.Schema.IsZero() {
		return reading{}, fault.New(fault.Conflict, "candidate %s has no content that can be read: it was not generated to its end, or kept by an older version", candidate.ID).
			WithHint("lehr describe candidate %s shows its findings", candidate.ID.Digest.Short())
	}
	delta, err := s.store.CandidateDelta(ctx, candidate.ID)
	if err != nil {
		return reading{}, err
	}
	snapshot := preview.NewSnapshot(s.store, preview.Supposed{
		Incarnation: intent.Incarnation{
			ID: intent.IncarnationID{Partition: partition}, Parent: candidate.Base, Schema: candidate.Schema, Sources: candidate.Sources,
			Count: candidate.Count, Added: candidate.Added, Changed: candidate.Changed, Removed: candidate.Removed, Created: candidate.Created,
		},
		Changes: delta,
	}, sequence)
	return s.readSnapshot(snapshot, snapshot, candidate), nil
}

func (s *Server) readSnapshot(snapshot *preview.Snapshot, content preview.Stored, candidate intent.Candidate) reading {
	backing := candidateStore{Stored: content, real: s.store}
	return reading{id: snapshot.Head(), store: backing, queries: query.New(backing, s.schemas, s.runtime), candidate: &candidate, snapshot: snapshot}
}

// candidateStore is what is read of a candidate: its content, and the partition as it
// is.
type candidateStore struct {
	preview.Stored
	real Store
}

// Partition implements query.Store.
func (c candidateStore) Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error) {
	return c.real.Partition(ctx, id)
}

// Changed implements query.Store.
func (c candidateStore) Changed(partition intent.PartitionID) <-chan struct{} {
	return c.real.Changed(partition)
}

// comparing reads two snapshots beside each other, of which each may be a candidate.
func (s *Server) comparing(base, target reading) reading {
	switch {
	case base.candidate == nil:
		return target
	case target.candidate == nil:
		return base
	}
	return s.readSnapshot(target.snapshot, preview.NewBetween(base.snapshot, target.snapshot), *target.candidate)
}

// schemaOf a snapshot is the set that it was built with.
func (s *Server) schemaOf(ctx context.Context, r reading) (*schema.Set, error) {
	incarnation, err := r.store.Incarnation(ctx, r.id)
	if err != nil {
		return nil, err
	}
	return s.schemas.Schema(ctx, r.id.Partition, incarnation.Schema)
}

// described is a snapshot in the words of an incarnation. A candidate's digest is over
// what it would consist of, as that of the incarnation that it would become.
func (s *Server) described(ctx context.Context, r reading) (*apipb.Incarnation, error) {
	incarnation, err := r.store.Incarnation(ctx, r.id)
	if err != nil {
		return nil, err
	}
	if r.candidate == nil {
		return toIncarnation(incarnation), nil
	}
	if incarnation.Digest, err = membershipOf(ctx, r); err != nil {
		return nil, err
	}
	result := toIncarnation(incarnation)
	result.Id, result.State = r.name(), string(r.candidate.State)
	return result, nil
}

// membershipOf computes the digest of all that a snapshot consists of.
func membershipOf(ctx context.Context, r reading) (intent.Digest, error) {
	var sum intent.Summing
	for cursor := intent.AssetID(""); ; {
		page, err := r.store.Members(ctx, r.id, store.AssetFilter{After: cursor, Limit: mostPage})
		if err != nil {
			return intent.Digest{}, err
		}
		for _, member := range page {
			sum.Add(intent.MemberDigest{Asset: member.Asset, Digest: member.Digest})
			cursor = member.Asset
		}
		if len(page) < mostPage {
			return sum.Digest(), nil
		}
	}
}
