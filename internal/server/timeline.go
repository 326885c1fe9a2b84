package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/store"
)

// mostVersions of an asset are looked for by one call.
const mostVersions = 100

// GetTimeline tells what became of an asset. Each part is read as far back as the page
// needs, and no further than its bound.
func (s *Server) GetTimeline(ctx context.Context, request *apipb.GetTimelineRequest) (*apipb.GetTimelineResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	t := timeline{server: s, partition: partition, asset: asset, until: s.runtime.Now().Add(time.Nanosecond), limit: page(request.Limit, usualPage, mostPage)}
	if request.Before != nil {
		t.until = request.Before.AsTime()
	}
	for _, part := range []func(context.Context) error{t.reports, t.versions, t.candidates, t.records} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	if len(t.events) == 0 && request.Before == nil {
		return nil, s.suggestNearest(ctx, s.stored(partition.Head), asset, fault.New(fault.NotFound, "nothing is known of %s in %s", asset, partition.ID).WithHint("lehr get assets lists what there is"))
	}
	return t.answer(), nil
}

type timeline struct {
	server    *Server
	partition store.Partition
	asset     intent.AssetID
	until     time.Time
	limit     int
	events    []explain.Event
	unknown   []string
	// since is from when on every part is whole.
	since time.Time
}

// answer is the newest page of what was gathered, from where all parts are whole.
func (t *timeline) answer() *apipb.GetTimelineResponse {
	t.events = slices.DeleteFunc(t.events, func(e explain.Event) bool { return !e.At.Before(t.until) || e.At.Before(t.since) })
	explain.InOrder(t.events)
	response := &apipb.GetTimelineResponse{Unknown: t.unknown}
	first := max(0, len(t.events)-t.limit)
	// Events of one moment stay together, so that the page before begins before it.
	for first > 0 && first < len(t.events)-1 && t.events[first-1].At.Equal(t.events[first].At) {
		first++
	}
	if t.events = t.events[first:]; len(t.events) > 0 && (first > 0 || !t.since.IsZero()) {
		response.Older = toTime(t.events[0].At)
	}
	response.Events = convertEach(t.events, func(e explain.Event) *apipb.TimelineEvent {
		return &apipb.TimelineEvent{
			At: toTime(e.At), Until: toTime(e.Until), Kind: e.Kind, Text: e.Text, By: e.By, Incarnation: toIncarnationID(e.Incarnation), Push: string(e.Push),
			PlanRecord: toPlanRecord(listedPlan(e.Plan)),
		}
	})
	return response
}

// cut says that a part tells of nothing before a time that others may tell of.
func (t *timeline) cut(at time.Time) {
	if at.After(t.since) {
		t.since = at
	}
}

// reports that were kept, the current one, and pushes.
func (t *timeline) reports(ctx context.Context) error {
	history, err := t.server.store.ReportHistory(ctx, t.partition.ID, store.HistoryFilter{Asset: t.asset, Until: t.until, Limit: t.limit})
	if err != nil {
		return err
	}
	slices.Reverse(history)
	pastReports := convertEach(history, func(p store.PastReport) intent.Report { return p.Report })
	if len(history) == t.limit {
		t.cut(history[0].At)
	}
	current, err := t.server.report(ctx, t.partition.ID, t.asset)
	if err != nil {
		return err
	}
	if current != nil && (len(pastReports) == 0 || current.At.After(pastReports[len(pastReports)-1].At)) {
		pastReports = append(pastReports, *current)
	}
	reports := explain.Reports(pastReports)
	pushes, err := t.server.store.Pushes(ctx, t.partition.ID, t.asset, mostPage)
	if err != nil {
		return err
	}
	var spans []explain.PushSpan
	for _, p := range pushes {
		if !p.Ended.IsZero() {
			spans = append(spans, explain.PushSpan{Push: p.Push, Target: p.Target, From: p.Admitted, To: p.Ended, Done: p.Ending == string(plugin.Pushed)})
		}
	}
	t.events = append(t.events, explain.EndPushes(reports, spans)...)
	return t.pushes(pushes)
}

// pushes are an admission and an end each.
func (t *timeline) pushes(pushes []store.PushRecord) error {
	for _, p := range pushes {
		t.events = append(t.events, explain.Admitted(explain.Event{At: p.Admitted, Incarnation: p.Target, Push: p.Push, Plan: p.PlanRecord}, p.Effective, p.OpenPush.Plan))
		if !p.Ended.IsZero() {
			text := "after " + p.Ended.Sub(p.Admitted).Round(time.Millisecond).String()
			if p.Reason != "" {
				text += ": " + p.Reason
			}
			t.events = append(t.events, explain.Event{At: p.Ended, Kind: p.Ending, Text: text, Incarnation: p.Target, Push: p.Push})
		}
	}
	if len(pushes) == mostPage {
		t.cut(pushes[len(pushes)-1].Admitted)
	}
	return nil
}

// versions are the incarnations that changed the asset.
func (t *timeline) versions(ctx context.Context) error {
	id := t.partition.Head
	for range mostVersions {
		if id.IsZero() {
			return nil
		}
		member, err := t.server.store.Member(ctx, id, t.asset)
		older := id.Sequence
		if err == nil {
			older = member.Since
			if err := t.version(ctx, intent.IncarnationID{Partition: id.Partition, Sequence: member.Since}); err != nil {
				return err
			}
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
		previous, err := t.server.store.Incarnations(ctx, id.Partition, older, 1)
		if err != nil || len(previous) == 0 {
			return err
		}
		id = previous[0].ID
	}
	t.unknown = append(t.unknown, fmt.Sprintf("incarnations before %s", id))
	return nil
}

func (t *timeline) version(ctx context.Context, id intent.IncarnationID) error {
	published, origin, err := provenance.Read(ctx, t.server.store, id, t.asset)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	producer := origin.Generator
	for _, input := range origin.Inputs {
		producer += ", read " + input.File
		break
	}
	incarnation, err := t.server.store.Incarnation(ctx, id)
	if fault.Is(err, fault.NotFound) { // It is no longer retained, and its contents are.
		incarnation, err = intent.Incarnation{ID: id, Created: published.At, Sources: published.Sources}, nil
	}
	if err != nil || incarnation.Created.IsZero() {
		return err
	}
	var sources []intent.SourceRevision
	if previous, err := t.server.store.Incarnations(ctx, id.Partition, id.Sequence, 1); err != nil {
		return err
	} else if len(previous) > 0 {
		sources = previous[0].Sources
	}
	t.events = append(t.events, explain.Published(incarnation, sources, producer)...)
	return nil
}

// candidates that were not served: those that say something of the asset, or of the whole.
func (t *timeline) candidates(ctx context.Context) error {
	candidates, err := t.server.store.ListCandidates(ctx, t.partition.ID, mostPastCandidates)
	if err != nil {
		return err
	}
	for _, c := range candidates {
		isRelevant := slices.ContainsFunc(c.Findings, func(f intent.Finding) bool {
			return f.Severity != intent.Warning && (f.Asset == "" || f.Asset == t.asset || f.Alike > 0)
		})
		if c.State != intent.CandidatePublished && isRelevant {
			t.events = append(t.events, explain.Judged(c))
		}
	}
	if len(candidates) == mostPastCandidates {
		t.unknown = append(t.unknown, "candidates before "+candidates[mostPastCandidates-1].Created.UTC().Format(time.RFC3339))
	}
	return nil
}

// toldElsewhere are verbs of records that the journal tells of too.
var toldElsewhere = []string{"admit", "close", "publish", "cover", "save-candidate", "acquire", "release", "collect"}

// records of the audit about the asset, or that stop and resume the partition.
func (t *timeline) records(ctx context.Context) error {
	for _, scope := range []intent.PartitionID{"", t.partition.ID} {
		records, first, err := t.server.recordsBefore(ctx, scope, t.until)
		if err != nil {
			return err
		}
		if !first && len(records) > 0 {
			t.unknown = append(t.unknown, "what people did before "+records[0].At.UTC().Format(time.RFC3339)+"; lehr get audit lists it")
		}
		for _, r := range records {
			braked := r.Verb == "stop" || r.Verb == "resume"
			if !braked && (scope == "" || r.Subject != string(t.asset) || slices.Contains(toldElsewhere, r.Verb)) {
				continue
			}
			text := r.Reason
			if r.Detail != "" {
				text = r.Detail
				if r.Reason != "" {
					text += ": " + r.Reason
				}
			}
			t.events = append(t.events, explain.Event{At: r.At, Kind: r.Verb, Text: text, By: r.By.Name})
		}
	}
	return nil
}

// mostSpread is how many changes of an incarnation are counted.
const mostSpread = 20_000

// GetSpread tells which of the assets that an incarnation changed got it, and when.
func (s *Server) GetSpread(ctx context.Context, request *apipb.GetSpreadRequest) (*apipb.GetSpreadResponse, error) {
	id, err := s.snapshot(ctx, request.Partition, moment{incarnation: request.Incarnation})
	if err != nil {
		return nil, err
	}
	incarnation, err := s.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	older, err := s.store.Incarnations(ctx, id.Partition, id.Sequence, 1)
	if err != nil {
		return nil, err
	}
	var base intent.IncarnationID
	if len(older) > 0 {
		base = older[0].ID
	}
	response := &apipb.GetSpreadResponse{Incarnation: id.String(), Published: toTime(incarnation.Created)}
	limit := page(request.Limit, usualPage, mostPage)
	var first, last time.Time
	for cursor := intent.AssetID(""); ; {
		changes, err := s.store.Changes(ctx, base, id, cursor, mostPage)
		if err != nil {
			return nil, err
		}
		var assets []intent.AssetID
		for _, c := range changes {
			if cursor = c.Asset; c.After == nil {
				response.Removed++
			} else {
				assets = append(assets, c.Asset)
			}
		}
		arrivals, err := s.store.Arrivals(ctx, id, assets)
		if err != nil {
			return nil, err
		}
		for _, asset := range assets {
			response.Assets++
			got, ok := arrivals[asset]
			if ok {
				response.Arrived++
				if first.IsZero() || got.At.Before(first) {
					first = got.At
				}
				if got.At.After(last) {
					last = got.At
				}
			}
			if string(asset) <= request.After || response.Next != "" {
				continue
			}
			if len(response.Page) == limit {
				response.Next = response.Page[limit-1].Asset
				continue
			}
			row, err := s.arrival(ctx, id, asset, got, ok)
			if err != nil {
				return nil, err
			}
			response.Page = append(response.Page, row)
		}
		response.Cut = response.Assets+response.Removed >= mostSpread && len(changes) == mostPage
		if len(changes) < mostPage || response.Cut {
			response.First, response.Last = toTime(first), toTime(last)
			return response, nil
		}
	}
}

// arrival of an incarnation at an asset, or what is in its way.
func (s *Server) arrival(ctx context.Context, id intent.IncarnationID, asset intent.AssetID, got store.Arrival, arrived bool) (*apipb.Arrival, error) {
	row := &apipb.Arrival{Asset: string(asset)}
	if arrived {
		row.At, row.Push = toTime(got.At), string(got.Push)
		if got.Incarnation != id {
			row.Instead = got.Incarnation.String()
		}
		return row, nil
	}
	report, err := s.report(ctx, id.Partition, asset)
	if err != nil || report == nil {
		return row, err
	}
	row.State = string(report.State)
	if len(report.Waiting) > 0 {
		row.Reason = report.Waiting[0].Reason
	}
	return row, nil
}
