package server

import (
	"context"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/calendar"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

const usualWindows, mostWindows = 5, 100

// ListWindows says when the calendars of head's policy are open next.
func (s *Server) ListWindows(ctx context.Context, request *apipb.ListWindowsRequest) (*apipb.ListWindowsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	var asset intent.AssetID
	if request.Asset != "" {
		if asset, err = intent.ParseAssetID(request.Asset); err != nil {
			return nil, err
		}
		if partition.Head.IsZero() {
			return nil, fault.New(fault.NotFound, "there is no asset %s: partition %s has no incarnation yet", asset, partition.ID)
		}
		if _, err := s.store.Member(ctx, partition.Head, asset); err != nil {
			return nil, err
		}
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListWindowsResponse{}
	for _, c := range policy.GetChecks() {
		if c.GetCalendar() == nil {
			continue
		}
		if asset != "" {
			if applies, err := s.isAbout(ctx, partition.Head, c, asset); err != nil || !applies {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		windows, err := windows(c, page(request.Limit, usualWindows, mostWindows), s.runtime.Now())
		if err != nil {
			return nil, err
		}
		response.Windows = append(response.Windows, windows...)
	}
	return response, nil
}

// isAbout reports whether a check is about an asset as it is at an incarnation.
func (s *Server) isAbout(ctx context.Context, at intent.IncarnationID, c *intentpb.Check, asset intent.AssetID) (bool, error) {
	if c.Where == "" {
		return true, nil
	}
	// Of all with that beginning the asset itself comes first.
	matches, err := s.queries.Page(ctx, query.Wanted{Incarnation: at, Filter: c.Where, Index: store.AssetFilter{Prefix: string(asset), Limit: 1}})
	return err == nil && len(matches.Members) > 0 && matches.Members[0].Asset == asset, err
}

func windows(c *intentpb.Check, most int, now time.Time) (list []*apipb.CheckWindow, err error) {
	hours, err := calendar.New(c.GetCalendar())
	if err != nil {
		return nil, err
	}
	answer := hours.At(now)
	row := func() *apipb.CheckWindow {
		w := &apipb.CheckWindow{Check: c.Name, Zone: c.GetCalendar().Zone, Where: c.Where, State: "closed"}
		list = append(list, w)
		return w
	}
	for i, span := range hours.Next(now, most) {
		w := row()
		w.From = toTime(span.Start)
		if span.End.Before(now.Add(calendar.Search)) {
			w.Until = toTime(span.End)
		}
		switch {
		case i > 0:
		case answer.Open:
			w.State = "open"
		default:
			w.Reason = answer.Why
		}
	}
	if len(list) == 0 {
		w := row()
		w.State, w.Reason = "never", answer.Why
	}
	return list, nil
}
