package server

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/store"
)

// ListCalendars lists when the checks of all partitions that the caller may read let pushes begin. The number of store
// calls does not grow with the partitions, and a calendar that many partitions share is computed once.
func (s *Server) ListCalendars(ctx context.Context, request *apipb.ListCalendarsRequest) (*apipb.ListCalendarsResponse, error) {
	visible, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	partitions, err := s.store.ListPartitions(ctx)
	if err != nil {
		return nil, err
	}
	var standings []store.Standing
	for _, p := range partitions {
		if visible(p.ID) && !p.Head.IsZero() {
			standings = append(standings, store.Standing{Partition: p})
		}
	}
	policies, err := s.headPolicies(ctx, standings)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListCalendarsResponse{Partitions: int32(len(standings))}
	listed := map[string]*apipb.CheckCalendar{}
	for _, p := range standings {
		for _, c := range policies[p.ID].GetChecks() {
			if c.GetCalendar() == nil {
				continue
			}
			key, err := calendarKey(c)
			if err != nil {
				return nil, err
			}
			if listed[key] == nil {
				listed[key] = s.toCalendar(c, page(request.Limit, usualWindows, mostWindows))
				response.Calendars = append(response.Calendars, listed[key])
			}
			listed[key].Partitions = append(listed[key].Partitions, string(p.ID))
		}
	}
	slices.SortStableFunc(response.Calendars, func(a, b *apipb.CheckCalendar) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Partitions[0], b.Partitions[0]))
	})
	return response, ctx.Err()
}

// calendarKey is equal for checks of which the same is listed.
func calendarKey(c *intentpb.Check) (string, error) {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&intentpb.Check{Name: c.GetName(), Where: c.GetWhere(), Kind: &intentpb.Check_Calendar{Calendar: c.GetCalendar()}})
	return string(content), err
}

// toCalendar lists the windows of a check and the freezes that are not over.
func (s *Server) toCalendar(c *intentpb.Check, most int) *apipb.CheckCalendar {
	now := s.runtime.Now()
	listed := &apipb.CheckCalendar{Check: c.GetName(), Zone: c.GetCalendar().GetZone(), Where: c.GetWhere()}
	var err error
	if listed.Windows, err = windows(c, most, now); err != nil {
		listed.Problem = err.Error()
	}
	for _, freeze := range c.GetCalendar().GetFreezes() {
		if freeze.GetUntil().AsTime().After(now) {
			listed.Freezes = append(listed.Freezes, &apipb.CheckFreeze{From: freeze.GetFrom(), Until: freeze.GetUntil(), Reason: freeze.GetReason()})
		}
	}
	slices.SortStableFunc(listed.Freezes, func(a, b *apipb.CheckFreeze) int { return a.From.AsTime().Compare(b.From.AsTime()) })
	return listed
}
