package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/store"
)

// ListRollouts lists those of head's policy, and those that only their runs tell of.
func (s *Server) ListRollouts(ctx context.Context, request *apipb.ListRolloutsRequest) (*apipb.ListRolloutsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	runs, err := s.store.Rollouts(ctx, partition.ID, store.RolloutFilter{Newest: true, Limit: mostPage})
	if err != nil {
		return nil, err
	}
	named := map[string]*apipb.Rollout{}
	for _, spec := range policy.GetRollouts() {
		named[spec.Name] = toRollout(partition.ID, spec.Name, spec)
	}
	for _, run := range runs {
		if named[run.Name] == nil {
			named[run.Name] = toRollout(partition.ID, run.Name, nil)
		}
		run.Events = nil
		named[run.Name].Run = s.toRun(ctx, run)
	}
	return &apipb.ListRolloutsResponse{Rollouts: inOrder(named)}, nil
}

// inOrder lists each rollout after those that it comes after, else by name.
func inOrder(named map[string]*apipb.Rollout) (list []*apipb.Rollout) {
	listed := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		rollout := named[name]
		if rollout == nil || listed[name] {
			return
		}
		listed[name] = true
		for _, predecessor := range slices.Sorted(slices.Values(rollout.After)) {
			add(predecessor)
		}
		list = append(list, rollout)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		add(name)
	}
	return list
}

// toRun is a run with the commits of what it brings.
func (s *Server) toRun(ctx context.Context, run intent.Rollout) *apipb.RolloutRun {
	result := toRun(run)
	if run.To.IsZero() {
		return result
	}
	target, err := s.store.Incarnation(ctx, run.To)
	if err != nil {
		return result // It is kept no more.
	}
	parent := intent.Incarnation{}
	if !target.Parent.IsZero() {
		if parent, err = s.store.Incarnation(ctx, target.Parent); err != nil {
			return result
		}
	}
	for _, revision := range target.Sources {
		same := func(r intent.SourceRevision) bool {
			return r.Source == revision.Source && r.Revision == revision.Revision
		}
		if !slices.ContainsFunc(parent.Sources, same) {
			result.Changed = append(result.Changed, toSource(revision))
		}
	}
	return result
}

func (s *Server) ListRuns(ctx context.Context, request *apipb.ListRunsRequest) (*apipb.ListRunsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.standing(ctx, partition, request.Rollout); err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	runs, err := s.store.Rollouts(ctx, partition.ID, store.RolloutFilter{Name: request.Rollout, Before: request.Before, Limit: limit})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListRunsResponse{}
	for _, run := range runs {
		run.Events = nil
		response.Runs = append(response.Runs, s.toRun(ctx, run))
	}
	if len(runs) == limit {
		response.Next = runs[limit-1].Run
	}
	return response, nil
}

func (s *Server) GetRollout(ctx context.Context, request *apipb.GetRolloutRequest) (*apipb.GetRolloutResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	rollout, err := s.rollout(ctx, partition, request.Rollout, request.Run)
	return &apipb.GetRolloutResponse{Rollout: rollout}, err
}

// rollout is one by its name, with one of its runs; 0: the newest.
func (s *Server) rollout(ctx context.Context, partition store.Partition, name string, number uint64) (*apipb.Rollout, error) {
	standing, spec, err := s.standing(ctx, partition, name)
	if err != nil {
		return nil, err
	}
	run := standing.Run
	if number != 0 && (run == nil || run.Run != number) {
		runs, err := s.store.Rollouts(ctx, partition.ID, store.RolloutFilter{Name: name, Run: number, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(runs) == 0 {
			return nil, fault.New(fault.NotFound, "rollout %s of %s has no run %d", name, partition.ID, number).WithHint("lehr rollout history %s lists them", name)
		}
		run = &runs[0]
	}
	rollout := toRollout(partition.ID, name, spec)
	rollout.Pins = int64(standing.Pins)
	rollout.Pending = convertEach(standing.Pending, toOrder)
	if run == nil {
		return rollout, nil
	}
	rollout.Run = s.toRun(ctx, *run)
	if spec != nil && run.State.Open() {
		// What cannot be told of each asset hides nothing of the run.
		if way, err := s.wayOf(ctx, partition, standing, spec, mostStaged); err == nil && !way.more {
			way.stageAssets(rollout.Run, s.runtime.Now())
		}
	}
	return rollout, nil
}

// standing reads what orders to a rollout rest on, and what head's policy says of
// it; NotFound when nothing knows the name.
func (s *Server) standing(ctx context.Context, partition store.Partition, name string) (intent.RolloutStanding, *intentpb.Rollout, error) {
	standing := intent.RolloutStanding{Name: name}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return standing, nil, err
	}
	spec := specOf(policy, name)
	standing.Governs, standing.ByField = spec != nil, spec.GetField() != nil
	standing.Supersedes = spec.GetNewer() == intentpb.Rollout_NEWER_SUPERSEDES
	standing.Held = spec.GetNewer() == intentpb.Rollout_NEWER_IS_HELD
	standing.Emergency = len(spec.GetEmergency()) > 0
	runs, err := s.store.Rollouts(ctx, partition.ID, store.RolloutFilter{Name: name, Limit: 1})
	if err != nil {
		return standing, nil, err
	}
	lastOrder := uint64(0)
	if len(runs) > 0 && name != "" {
		standing.Run, lastOrder = &runs[0], runs[0].Orders
	}
	if !standing.Governs {
		pins, err := s.store.Pins(ctx, partition.ID)
		if err != nil {
			return standing, nil, err
		}
		for _, pin := range pins {
			if name != "" && pin.Rollout() == name {
				standing.Pins++
			}
		}
	}
	if !standing.Governs && standing.Run == nil && standing.Pins == 0 {
		return standing, nil, noRollout(partition, policy, name)
	}
	orders, err := s.store.RolloutOrders(ctx, partition.ID, lastOrder)
	for _, order := range orders {
		if order.Name == name {
			standing.Pending = append(standing.Pending, order)
		}
	}
	return standing, spec, err
}

// judgedBad says how much of what a rollout brought was judged bad, and whether head has such
// content for what it keeps, by whichever rollout it was judged.
func (s *Server) judgedBad(ctx context.Context, partition store.Partition, spec *intentpb.Rollout, standing *intent.RolloutStanding) error {
	judged, err := s.store.Judgements(ctx, partition.ID, nil)
	if err != nil {
		return err
	}
	pins, err := s.store.Pins(ctx, partition.ID)
	if err != nil {
		return err
	}
	keeps := map[intent.AssetID]bool{}
	for _, pin := range pins {
		keeps[pin.Asset] = keeps[pin.Asset] || pin.Rollout() == standing.Name
	}
	for _, j := range judged {
		if j.Good {
			continue
		}
		if j.Rollout == standing.Name {
			standing.Bad++
		}
		if standing.BadNow != "" || !keeps[j.Asset] || len(spec.GetAfter()) > 0 {
			continue // What comes after others does not bring head.
		}
		current, err := s.contentAt(ctx, partition.Head, j.Asset)
		if err != nil {
			return err
		}
		if current == j.Effective {
			standing.BadNow = j.Asset
		}
	}
	return nil
}

func specOf(policy *intentpb.Policy, name string) *intentpb.Rollout {
	for _, spec := range policy.GetRollouts() {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

func noRollout(partition store.Partition, policy *intentpb.Policy, name string) error {
	hint := "lehr get rollouts lists them; they are defined in lehr.yaml, under rollouts"
	names := convertEach(policy.GetRollouts(), (*intentpb.Rollout).GetName)
	if nearest := spell.Nearest(name, names); nearest != "" && len(name) <= 63 {
		hint = fmt.Sprintf("did you mean %s? %s", nearest, hint)
	}
	return fault.New(fault.NotFound, "partition %s has no rollout %.100q", partition.ID, name).WithHint("%s", hint)
}

// WatchRollout sends what there is, and again when it is something else.
func (s *Server) WatchRollout(ctx context.Context, request *apipb.WatchRolloutRequest, stream *connect.ServerStream[apipb.WatchRolloutResponse]) error {
	var sent *apipb.Rollout
	for {
		startedAt := s.runtime.Now()
		changed := s.store.Changed(intent.PartitionID(request.Partition))
		partition, err := s.registered(ctx, request.Partition)
		if err != nil {
			return err
		}
		rollout, err := s.rollout(ctx, partition, request.Rollout, request.Run)
		if err != nil {
			return err
		}
		if !proto.Equal(rollout, sent) {
			if err := stream.Send(&apipb.WatchRolloutResponse{Rollout: rollout}); err != nil {
				return err
			}
			sent = rollout
		}
		pause := max(watchPeriod, watchShare*s.runtime.Now().Sub(startedAt))
		if err := s.runtime.Wait(ctx, pause, changed); err != nil {
			return err
		}
	}
}

// OrderRollout keeps what a person asks, if it makes sense now.
func (s *Server) OrderRollout(ctx context.Context, request *apipb.OrderRolloutRequest) (*apipb.OrderRolloutResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	kind := intent.OrderKind(request.Kind)
	standing, spec, err := s.standing(ctx, partition, request.Rollout)
	if err != nil {
		return nil, err
	}
	if kind == intent.OrderForgive || kind == intent.OrderStart && spec.GetField() == nil {
		if err := s.judgedBad(ctx, partition, spec, &standing); err != nil {
			return nil, err
		}
	}
	value := json.RawMessage(request.Value)
	if canonical, err := document.Canonicalize(value); err == nil {
		value = canonical
	}
	if err := standing.Refuse(kind, value); err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("an order to %s the rollout %s of partition %s", kind, request.Rollout, partition.ID), request.Reason)
	if err != nil {
		return nil, err
	}
	order := intent.RolloutOrder{Partition: partition.ID, Name: request.Rollout, Kind: kind, Reason: reason, By: actorOf(ctx), At: s.runtime.Now().UTC().Truncate(time.Microsecond)}
	if request.Value != "" {
		order.Value = value
	}
	if order, err = s.store.OrderRollout(ctx, order); err != nil {
		return nil, err
	}
	rollout := toRollout(partition.ID, request.Rollout, spec)
	if standing.Run != nil {
		rollout.Run = toRun(*standing.Run)
	}
	return &apipb.OrderRolloutResponse{Order: toOrder(order), Rollout: rollout}, nil
}
