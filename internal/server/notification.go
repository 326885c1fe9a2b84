package server

import (
	"context"
	"maps"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/notify"
)

// ListNotifications reads what the partition's notifier stored last.
func (s *Server) ListNotifications(ctx context.Context, request *apipb.ListNotificationsRequest) (*apipb.ListNotificationsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListNotificationsResponse{}
	state, err := s.notificationState(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	assets := map[string]int64{}
	for _, byAsset := range state.Active {
		for _, active := range byAsset {
			if active.Left.IsZero() {
				assets[active.Group]++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(state.Groups)) {
		g := state.Groups[key]
		response.Open = append(response.Open, &apipb.OpenNotification{
			Name: g.Rule, Cause: g.Cause, Since: toTime(g.Opened), Told: toTime(g.Told), Times: int64(g.Times), Assets: assets[key], Id: g.ID,
		})
	}
	response.Targets = toTargets(state)
	return response, nil
}

// notificationState is what the partition's notifier remembers.
func (s *Server) notificationState(ctx context.Context, partition intent.PartitionID) (*notify.State, error) {
	return notify.Load(ctx, s.store, partition)
}

// toTargets is how deliveries to each target go.
func toTargets(state *notify.State) (list []*apipb.NotificationTarget) {
	waiting := map[string]int64{}
	for _, d := range state.Outbox {
		waiting[d.Target]++
		if state.Targets[d.Target] == nil {
			state.Targets[d.Target] = &notify.Target{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.Targets)) {
		t := state.Targets[name]
		list = append(list, &apipb.NotificationTarget{
			Name: name, Sent: int64(t.Sent), Last: toTime(t.Last), Waiting: waiting[name], Dropped: int64(t.Dropped), Problem: t.Problem, FailingSince: toTime(t.Since),
		})
	}
	return list
}

// failingTargets are those that the last message did not reach.
func (s *Server) failingTargets(ctx context.Context, partition intent.PartitionID) ([]*apipb.NotificationTarget, error) {
	state, err := notify.LoadDeliveries(ctx, s.store, partition)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(toTargets(state), func(t *apipb.NotificationTarget) bool { return t.Problem == "" }), nil
}

// usualRehearsal is how far back a rehearsal goes unless it is told.
const usualRehearsal = 24 * time.Hour

// ListRehearsal goes through the past with head's policy.
func (s *Server) ListRehearsal(ctx context.Context, request *apipb.ListRehearsalRequest) (*apipb.ListRehearsalResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	start := now.Add(-usualRehearsal)
	if request.Since != nil {
		start = request.Since.AsTime()
	}
	rehearsal, err := notify.Rehearse(ctx, s.store, partition.ID, start, now)
	if err != nil {
		return nil, err
	}
	return &apipb.ListRehearsalResponse{
		Problems: rehearsal.Problems, Unknown: rehearsal.Unknown,
		Messages: convertEach(rehearsal.Messages, func(m notify.Message) *apipb.NotificationMessage {
			return &apipb.NotificationMessage{At: toTime(m.At), Name: m.Name, Status: m.Status, Title: m.Title, Assets: int64(m.Count), Id: m.ID}
		}),
	}, nil
}
