package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
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
	for _, isSet := range []bool{m.incarnation != "", m.at != nil, m.label != ""} {
		if isSet {
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
		incarnation, err := s.find(ctx, registered.ID, m)
		return incarnation.ID, err
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
	source, err := s.reading(ctx, request.Partition, moment{request.Incarnation, request.At, request.Label})
	if err != nil {
		return nil, err
	}
	index, err := s.assetFilter(ctx, source, request)
	if err != nil {
		return nil, err
	}
	index.After, index.Limit = intent.AssetID(request.After), page(request.Limit, usualPage, mostPage)
	matches, err := source.queries.Page(ctx, query.Wanted{Incarnation: source.id, Filter: request.Filter, Index: index})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListAssetsResponse{Incarnation: source.name(), Next: string(matches.Next)}
	reports, err := s.reportsOf(ctx, source.id.Partition, matches.Members)
	if err != nil {
		return nil, err
	}
	for i, member := range matches.Members {
		response.Assets = append(response.Assets, source.toAsset(member, reports[i]))
	}
	if request.Content {
		err = s.fillContents(ctx, source, matches.Members, response)
	}
	return response, err
}

// mostListed bounds the bytes of content that one page shows.
const mostListed = 2 << 20

// fillContents adds payloads and addons to a page, which ends early where they are
// large.
func (s *Server) fillContents(ctx context.Context, source reading, members []intent.Member, response *apipb.ListAssetsResponse) error {
	schemaSet, err := s.schemaOf(ctx, source)
	if err != nil {
		return err
	}
	bytes := 0
	for i, member := range members {
		content, size, err := contentOf(ctx, source, schemaSet, member)
		if err != nil {
			return err
		}
		response.Assets[i].Payload, response.Assets[i].Addons = content.Payload, content.Addons
		if bytes += size; bytes > mostListed && i+1 < len(members) {
			response.Assets, response.Next = response.Assets[:i+1], string(member.Asset)
			return nil
		}
	}
	return nil
}

// assetFilter resolves the short names of a request with the incarnation's own
// schema.
func (s *Server) assetFilter(ctx context.Context, source reading, request *apipb.ListAssetsRequest) (filter store.AssetFilter, err error) {
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
	schemaSet, err := s.schemaOf(ctx, source)
	if err != nil {
		return filter, err
	}
	if request.Type != "" {
		if filter.Type, err = schemaSet.Resolve(request.Type); err != nil {
			return filter, err
		}
	}
	if request.Field != "" {
		filter.Field, err = schemaSet.FieldPath(request.Field)
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
	var batch []intent.Report
	batchSize := 1
	for i, member := range members {
		for len(batch) > 0 && batch[0].Asset < member.Asset {
			batch = batch[1:]
		}
		if len(batch) == 0 || batch[0].Asset > member.Asset {
			report, err := s.report(ctx, partition, member.Asset)
			if err != nil {
				return nil, err
			}
			if reports[i] = report; report == nil || i+1 == len(members) || len(batch) > 0 {
				continue
			}
			batch, err = s.store.ListReports(ctx, partition, store.ReportFilter{After: member.Asset, Limit: min(batchSize, len(members)-i-1)})
			if err != nil {
				return nil, err
			}
			batchSize = 1
			continue
		}
		reports[i] = &batch[0]
		batchSize = min(2*batchSize, len(members))
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
		asset.Current = report.Effective == m.Effective || report.Pinned != "" || report.State.IsUncompared()
		asset.AfterPush = report.Health.IsAfterPush()
	}
	return asset
}

func (s *Server) GetAsset(ctx context.Context, request *apipb.GetAssetRequest) (*apipb.GetAssetResponse, error) {
	asset, err := intent.ParseAssetID(request.Asset)
	if err != nil {
		return nil, err
	}
	at, err := s.reading(ctx, request.Partition, moment{request.Incarnation, request.At, request.Label})
	if err != nil {
		return nil, err
	}
	member, err := at.store.Member(ctx, at.id, asset)
	if err != nil {
		return nil, s.suggestNearest(ctx, at, asset, err)
	}
	report, err := s.report(ctx, at.id.Partition, asset)
	if err != nil {
		return nil, err
	}
	response := &apipb.GetAssetResponse{Incarnation: at.name(), Asset: at.toAsset(member, report)}
	if report != nil {
		response.Report = toReport(*report)
	}
	schemaSet, err := s.schemaOf(ctx, at)
	if err != nil {
		return nil, err
	}
	content, _, err := contentOf(ctx, at, schemaSet, member)
	if err != nil {
		return nil, err
	}
	response.Payload, response.Addons = content.Payload, content.Addons
	references, err := at.store.EdgesFrom(ctx, at.id, asset)
	if err != nil {
		return nil, err
	}
	referrers, err := at.store.EdgesTo(ctx, at.id, asset)
	if err != nil {
		return nil, err
	}
	response.References, response.ReferencedBy = convertEach(references, toReference), convertEach(referrers, toReference)
	if request.Uses {
		response.Uses, response.MoreUses, err = s.uses(ctx, at, asset)
	}
	return response, err
}

// shownContent is what an asset consists of, without its secrets (S13).
type shownContent struct {
	Payload *structpb.Struct            `json:"payload"`
	Addons  map[string]*structpb.Struct `json:"addons"`
}

// contentOf decodes payload and addons with the snapshot's own schema. It says how
// many bytes they are, too.
func contentOf(ctx context.Context, source reading, schemaSet *schema.Set, member intent.Member) (content shownContent, size int, err error) {
	body, err := source.store.Body(ctx, member.Digest)
	if err != nil {
		return content, 0, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return content, 0, err
	}
	text, err := schemaSet.JSON(asset)
	if err != nil {
		return content, 0, err
	}
	if err := content.read(text); err != nil {
		return content, 0, fault.New(fault.Internal, "cannot render asset %s: %w", member.Asset, err)
	}
	return content, len(text), nil
}

// read takes what Set.JSON renders.
func (c *shownContent) read(text []byte) error {
	var rendered struct {
		Payload json.RawMessage            `json:"payload"`
		Addons  map[string]json.RawMessage `json:"addons"`
	}
	if err := json.Unmarshal(text, &rendered); err != nil {
		return err
	}
	var err error
	if c.Payload, err = structOf(rendered.Payload); err != nil || len(rendered.Addons) == 0 {
		return err
	}
	c.Addons = map[string]*structpb.Struct{}
	for name, addon := range rendered.Addons {
		if c.Addons[name], err = structOf(addon); err != nil {
			return err
		}
	}
	return nil
}

// structOf reads the JSON of a message. That of well-known types, such as
// google.protobuf.Value, may be no object: then it is the field "value" of one, as in the
// JSON of google.protobuf.Any (https://protobuf.dev/programming-guides/json/).
func structOf(text json.RawMessage) (*structpb.Struct, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		text = slices.Concat([]byte(`{"value":`), text, []byte("}"))
	}
	result := &structpb.Struct{}
	return result, result.UnmarshalJSON(text)
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
