package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// mostRowsSearched for events are read by one call, the newest.
const mostRowsSearched = 20_000

// ListDeliveryEvents of a partition, of all applications or of one.
func (s *Server) ListDeliveryEvents(ctx context.Context, request *apipb.ListDeliveryEventsRequest) (*apipb.ListDeliveryEventsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.DeliveryRecords(ctx, partition.ID, store.DeliveryFilter{Application: request.Application, Newest: true, Limit: mostRowsSearched})
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualVersions, mostPage)
	response := &apipb.ListDeliveryEventsResponse{}
	for i := range rows {
		e, ok := deliveryhistory.EventOf(&rows[i])
		if !ok || request.Environment != "" && e.Environment != "" && e.Environment != request.Environment {
			continue
		}
		response.Events = append(response.Events, &apipb.DeliveryEvent{
			Number: e.Number, At: toTime(e.At), Event: string(e.Kind), Application: e.Application, Environment: e.Environment,
			Version: &apipb.VersionName{Name: e.Version.Name, Digest: e.Version.Digest}, Constraint: e.Constraint, By: e.By.Name, Text: e.Words(),
		})
		if len(response.Events) == limit {
			break
		}
	}
	return response, nil
}

// GetDeliveryFigures of one application or of all. Rows that were read before are not read again.
func (s *Server) GetDeliveryFigures(ctx context.Context, request *apipb.GetDeliveryFiguresRequest) (*apipb.GetDeliveryFiguresResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	since := now.Add(-deliveryhistory.Window)
	if request.Since != nil {
		since = request.Since.AsTime()
	}
	if !since.Before(now) {
		return nil, fault.New(fault.Invalid, "figures from %s on would be of no time: it is %s", since.Format(time.RFC3339), now.Format(time.RFC3339)).WithHint("name a time that is past")
	}
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	if request.Application != "" || len(specs) == 0 {
		a, err := s.application(ctx, partition, request.Application)
		if err != nil {
			return nil, err
		}
		specs = []*intentpb.Delivery{a.Spec}
	}
	response := &apipb.GetDeliveryFiguresResponse{Since: toTime(since), Until: toTime(now)}
	for _, spec := range specs {
		m, err := s.delivered.Read(ctx, partition, spec)
		if err != nil {
			return nil, err
		}
		for _, f := range m.Figures(since, now.Add(time.Nanosecond)) {
			response.Figures = append(response.Figures, toFigures(spec.GetName(), f))
		}
	}
	return response, nil
}

func toFigures(application string, f deliveryhistory.Figures) *apipb.DeliveryFigures {
	figures := &apipb.DeliveryFigures{
		Application: application, Environment: f.Environment, Promotions: int32(f.Promotions), Failed: int32(f.Failed),
		Lead: toDeliveryTimes(f.Lead), Restore: toDeliveryTimes(f.Restore),
	}
	for _, q := range f.Queues {
		figures.Queues = append(figures.Queues, &apipb.DeliveryQueue{Constraint: q.Constraint, Times: toDeliveryTimes(q.Times)})
	}
	return figures
}

func toDeliveryTimes(t deliveryhistory.Times) *apipb.DeliveryTimes {
	if t.Count == 0 {
		return &apipb.DeliveryTimes{}
	}
	return &apipb.DeliveryTimes{Count: int32(t.Count), Median: durationpb.New(t.Median), Longest: durationpb.New(t.Longest)}
}
