package server

import (
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/prodspec/query"
	"lehr.dev/schema"
	"lehr.dev/store"
)

// moment is how a request names an incarnation: by id, by the time when it was
// head, or by a label; by none of them, head.
type moment struct {
	incarnation string
	at          *timestamppb.Timestamp
	label       string
}

// snapshot is the incarnation that a request names.
func (s *Server) snapshot(ctx context.Context, partition string, m moment) (intent.IncarnationID, error) {
	registered, err := s.registered(ctx, partition)
	if err != nil {
		return intent.IncarnationID{}, err
	}
	named := 0
	for _, given := range []bool{m.incarnation != "", m.at != nil, m.label != ""} {
		if given {
			named++
		}
	}
	switch {
	case named > 1:
		return intent.IncarnationID{}, fault.New(fault.Invalid, "the incarnation is named in %d ways", named).
			WithHint("name it by its id, by a time, or by a label")
	case m.incarnation != "":
		id, err := intent.ParseIncarnationID(m.incarnation)
		if err == nil && id.Partition != registered.ID {
			err = fault.New(fault.Invalid, "incarnation %s is not of partition %s", id, registered.ID)
		}
		return id, err
	case named == 1:
		found, err := s.find(ctx, registered.ID, m)
		return found.ID, err
	case registered.Head.IsZero():
		return intent.IncarnationID{}, fault.New(fault.NotFound, "partition %s has no incarnation yet", registered.ID).
			WithHint("lehr get candidates shows what generation made of its sources")
	}
	return registered.Head, nil
}

// find looks an incarnation up by time or label.
func (s *Server) find(ctx context.Context, partition intent.PartitionID, m moment) (intent.Incarnation, error) {
	lookup := store.Lookup{}
	lookup.Label, lookup.Value, _ = strings.Cut(m.label, "=")
	if m.label != "" && lookup.Label == "" {
		return intent.Incarnation{}, fault.New(fault.Invalid, "label %.100q has no key", m.label).WithHint("write KEY or KEY=VALUE")
	}
	if m.at != nil {
		if err := m.at.CheckValid(); err != nil {
			return intent.Incarnation{}, fault.New(fault.Invalid, "the time is not valid: %w", err)
		}
		lookup.At = m.at.AsTime()
	}
	return s.store.FindIncarnation(ctx, partition, lookup)
}

func (s *Server) ListAssets(ctx context.Context, request *apipb.ListAssetsRequest) (*apipb.ListAssetsResponse, error) {
	id, err := s.snapshot(ctx, request.Partition, moment{request.Incarnation, request.At, request.Label})
	if err != nil {
		return nil, err
	}
	index, err := s.assetFilter(ctx, id, request)
	if err != nil {
		return nil, err
	}
	index.After, index.Limit = intent.AssetID(request.After), page(request.Limit, usualPage, mostPage)
	found, err := s.queries.Page(ctx, query.Wanted{Incarnation: id, Filter: request.Filter, Index: index})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListAssetsResponse{Incarnation: id.String(), Next: string(found.Next)}
	reports, err := s.reportsOf(ctx, id.Partition, found.Members)
	if err != nil {
		return nil, err
	}
	for i, member := range found.Members {
		response.Assets = append(response.Assets, toAsset(id.Partition, member, reports[i]))
	}
	return response, nil
}

// assetFilter resolves the short names of a request with the incarnation's own
// schema.
func (s *Server) assetFilter(ctx context.Context, id intent.IncarnationID, request *apipb.ListAssetsRequest) (filter store.AssetFilter, err error) {
	filter = store.AssetFilter{Prefix: request.Prefix, Value: request.Value}
	if request.Value != "" && request.Field == "" {
		return filter, fault.New(fault.Invalid, "value %.300q is of no field", request.Value).WithHint("name the field that should have it")
	}
	if request.RefersTo != "" {
		if filter.RefersTo, err = intent.ParseAssetID(request.RefersTo); err != nil {
			return filter, err
		}
	}
	if request.Type == "" && request.Field == "" {
		return filter, nil
	}
	set, err := s.schema(ctx, id)
	if err != nil {
		return filter, err
	}
	if request.Type != "" {
		if filter.Type, err = set.Resolve(request.Type); err != nil {
			return filter, err
		}
	}
	if request.Field != "" {
		filter.Field, err = set.FieldPath(request.Field)
	}
	return filter, err
}

// schema is the set that an incarnation was published with.
func (s *Server) schema(ctx context.Context, id intent.IncarnationID) (*schema.Set, error) {
	incarnation, err := s.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.schemas.Schema(ctx, id.Partition, incarnation.Schema)
}

// reportsOf reads the reports of a page of members, nil for those without.
// Where members are neighbours their reports are read in one go: more ahead
// after each that was wanted, one again after those that were not.
func (s *Server) reportsOf(ctx context.Context, partition intent.PartitionID, members []intent.Member) ([]*intent.Report, error) {
	reports := make([]*intent.Report, len(members))
	var near []intent.Report
	ahead := 1
	for i, member := range members {
		for len(near) > 0 && near[0].Asset < member.Asset {
			near = near[1:]
		}
		if len(near) == 0 || near[0].Asset > member.Asset {
			report, err := s.report(ctx, partition, member.Asset)
			if err != nil {
				return nil, err
			}
			if reports[i] = report; report == nil || i+1 == len(members) || len(near) > 0 {
				continue
			}
			near, err = s.store.ListReports(ctx, partition, store.ReportFilter{After: member.Asset, Limit: min(ahead, len(members)-i-1)})
			if err != nil {
				return nil, err
			}
			ahead = 1
			continue
		}
		reports[i] = &near[0]
		ahead = min(2*ahead, len(members))
	}
	return reports, nil
}

func toAsset(partition intent.PartitionID, m intent.Member, report *intent.Report) *apipb.Asset {
	asset := &apipb.Asset{
		Id: string(m.Asset), Type: string(m.Type), Digest: toDigest(m.Digest), Effective: toDigest(m.Effective),
		Since: toIncarnationID(intent.IncarnationID{Partition: partition, Sequence: m.Since}),
	}
	if report != nil {
		asset.State = string(report.State)
		asset.Current = report.Effective == m.Effective || report.Pinned != "" || report.State == intent.StateModel
		asset.AfterPush = report.Health.IsAfterPush()
	}
	return asset
}

func (s *Server) GetAsset(ctx context.Context, request *apipb.GetAssetRequest) (*apipb.GetAssetResponse, error) {
	asset, err := intent.ParseAssetID(request.Asset)
	if err != nil {
		return nil, err
	}
	id, err := s.snapshot(ctx, request.Partition, moment{request.Incarnation, request.At, request.Label})
	if err != nil {
		return nil, err
	}
	member, err := s.store.Member(ctx, id, asset)
	if err != nil {
		return nil, s.meant(ctx, id, asset, err)
	}
	report, err := s.report(ctx, id.Partition, asset)
	if err != nil {
		return nil, err
	}
	response := &apipb.GetAssetResponse{Incarnation: id.String(), Asset: toAsset(id.Partition, member, report)}
	if report != nil {
		response.Report = toReport(*report)
	}
	if err := s.fillContent(ctx, response, id, member); err != nil {
		return nil, err
	}
	from, err := s.store.EdgesFrom(ctx, id, asset)
	if err != nil {
		return nil, err
	}
	to, err := s.store.EdgesTo(ctx, id, asset)
	if err != nil {
		return nil, err
	}
	response.References, response.ReferencedBy = each(from, toReference), each(to, toReference)
	return response, nil
}

// fillContent decodes payload and addons with the incarnation's own schema.
func (s *Server) fillContent(ctx context.Context, response *apipb.GetAssetResponse, id intent.IncarnationID, member intent.Member) error {
	body, err := s.store.Body(ctx, member.Digest)
	if err != nil {
		return err
	}
	set, err := s.schema(ctx, id)
	if err != nil {
		return err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return err
	}
	text, err := set.JSON(asset)
	if err != nil {
		return err
	}
	var content struct {
		Payload *structpb.Struct            `json:"payload"`
		Addons  map[string]*structpb.Struct `json:"addons"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return fault.New(fault.Internal, "cannot render asset %s: %w", member.Asset, err)
	}
	response.Payload, response.Addons = content.Payload, content.Addons
	return nil
}

func toReference(e store.Edge) *apipb.Reference {
	return &apipb.Reference{From: string(e.From), To: string(e.To), Field: e.Field, Read: e.Read}
}

// report is nil before the asset's first pass.
func (s *Server) report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (*intent.Report, error) {
	report, err := s.store.Report(ctx, partition, asset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &report, nil
}
