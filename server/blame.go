package server

import (
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/prodspec/provenance"
	"lehr.dev/prodspec/query"
)

// BlameAsset says where an asset comes from, or one of its fields.
func (s *Server) BlameAsset(ctx context.Context, request *apipb.BlameAssetRequest) (*apipb.BlameAssetResponse, error) {
	asset, err := intent.ParseAssetID(request.Asset)
	if err != nil {
		return nil, err
	}
	from, err := s.reading(ctx, request.Partition, moment{incarnation: request.Incarnation})
	if err != nil {
		return nil, err
	}
	if _, err := from.store.Member(ctx, from.id, asset); err != nil {
		return nil, s.meant(ctx, from, asset, err)
	}
	b, err := from.queries.Blame(ctx, from.id, asset, request.Field)
	if err != nil {
		return nil, err
	}
	response := toBlame(b)
	response.Incarnation = from.name()
	return response, nil
}

// toBlame is a field's blame, and of what it comes from.
func toBlame(b query.Blame) *apipb.BlameAssetResponse {
	place := func(p provenance.Place) *apipb.Place {
		shown := &apipb.Place{File: p.File, Line: int32(p.Line), Under: p.Under}
		if at := slices.IndexFunc(b.Sources, func(r intent.SourceRevision) bool { return r.Source == p.Source }); at >= 0 {
			shown.Source = toSource(b.Sources[at])
		}
		change := func(name string) *apipb.SourceChange {
			known, is := b.Origin.Changes[name]
			if !is {
				return nil
			}
			commit := &apipb.Commit{Author: known.Author, Subject: known.Subject, Time: toTime(known.Time)}
			return &apipb.SourceChange{Revision: name, Commit: commit, Earlier: known.Earlier}
		}
		if shown.Changed = change(p.Change); shown.Changed != nil {
			shown.Changed.Line, shown.Changed.Old = p.OfLine, p.Old
		}
		for name := range strings.FieldsSeq(p.Others) {
			if other := change(name); other != nil {
				shown.Others = append(shown.Others, other)
			}
		}
		return shown
	}
	response := &apipb.BlameAssetResponse{
		Incarnation: b.Since.String(), Asset: string(b.Asset), Field: b.Field, Value: b.Value,
		Since: toIncarnationID(b.Since), Published: toTime(b.Published), Before: toIncarnationID(b.Before), Was: b.Was, Exact: b.Exact, Cut: b.Cut,
		Unknown: b.Unknown, Generator: b.Origin.Generator, Inputs: each(b.Origin.Inputs, place), MoreInputs: int32(b.Origin.More),
		Read: each(b.Origin.Assets, func(id intent.AssetID) string { return string(id) }),
		Derived: each(b.Origin.Derived, func(d provenance.Derived) *apipb.Derivation {
			return &apipb.Derivation{Name: d.Derivation, Addon: string(d.Addon), Place: place(d.Place), Field: d.Field, Was: d.Was, Reason: d.Reason, Reads: d.Reads}
		}),
		Sources: each(b.Sources, toSource), SourcesBefore: each(b.SourcesBefore, toSource), Because: b.Because,
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
