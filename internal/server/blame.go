package server

import (
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/prodspec/query"
)

// BlameAsset says where an asset comes from, or one of its fields.
func (s *Server) BlameAsset(ctx context.Context, request *apipb.BlameAssetRequest) (*apipb.BlameAssetResponse, error) {
	asset, err := intent.ParseAssetID(request.Asset)
	if err != nil {
		return nil, err
	}
	source, err := s.reading(ctx, request.Partition, moment{incarnation: request.Incarnation})
	if err != nil {
		return nil, err
	}
	if _, err := source.store.Member(ctx, source.id, asset); err != nil {
		return nil, s.suggestNearest(ctx, source, asset, err)
	}
	b, err := source.queries.Blame(ctx, source.id, asset, request.Field)
	if err != nil {
		return nil, err
	}
	response := toBlame(b)
	response.Incarnation = source.name()
	return response, nil
}

// toBlame is a field's blame, and of what it comes from.
func toBlame(b query.Blame) *apipb.BlameAssetResponse {
	place := func(p provenance.Place) *apipb.Place {
		result := &apipb.Place{File: p.File, Line: int32(p.Line), Under: p.Under}
		if at := slices.IndexFunc(b.Sources, func(r intent.SourceRevision) bool { return r.Source == p.Source }); at >= 0 {
			result.Source = toSource(b.Sources[at])
		}
		change := func(name string) *apipb.SourceChange {
			revision, ok := b.Origin.Changes[name]
			if !ok {
				return nil
			}
			commit := &apipb.Commit{Author: revision.Author, Subject: revision.Subject, Time: toTime(revision.Time)}
			return &apipb.SourceChange{Revision: name, Commit: commit, Earlier: revision.Earlier}
		}
		if result.Changed = change(p.Change); result.Changed != nil {
			result.Changed.Line, result.Changed.Old = p.OfLine, p.Old
		}
		for name := range strings.FieldsSeq(p.Others) {
			if other := change(name); other != nil {
				result.Others = append(result.Others, other)
			}
		}
		return result
	}
	response := &apipb.BlameAssetResponse{
		Incarnation: b.Since.String(), Asset: string(b.Asset), Field: b.Field, Value: b.Value,
		Since: toIncarnationID(b.Since), Published: toTime(b.Published), Before: toIncarnationID(b.Before), Was: b.Was, Exact: b.Exact, Cut: b.Cut,
		Unknown: b.Unknown, Generator: b.Origin.Generator, Inputs: convertEach(b.Origin.Inputs, place), MoreInputs: int32(b.Origin.More),
		Read: convertEach(b.Origin.Assets, func(id intent.AssetID) string { return string(id) }),
		Derived: convertEach(b.Origin.Derived, func(d provenance.Derived) *apipb.Derivation {
			return &apipb.Derivation{Name: d.Derivation, Addon: string(d.Addon), Place: place(d.Place), Field: d.Field, Was: d.Was, Reason: d.Reason, Reads: d.Reads}
		}),
		Sources: convertEach(b.Sources, toSource), SourcesBefore: convertEach(b.SourcesBefore, toSource), Because: b.Because,
	}
	if !b.Unknown {
		response.Made = place(b.Origin.Made)
	}
	if b.Line != nil {
		response.Line = place(*b.Line)
	}
	if b.From != nil {
		response.From = toBlame(*b.From)
	}
	return response
}
