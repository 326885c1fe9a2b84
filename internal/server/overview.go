package server

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

const (
	// usualEnds is how long before its end a brake is listed.
	usualEnds = 24 * time.Hour
	// usualEvents and mostEvents bound the events of a partition; usualMatters and mostPage bound the
	// other lists.
	usualEvents, mostEvents, usualMatters = 5, 50, 50
	// fewPolicies is up to how many unknown policies are read one by one. More are read together.
	fewPolicies = 16
)

// headPolicies returns the policies of the partitions that have a head. Policies are cached by head, so
// only those of heads that moved are read.
func (s *Server) headPolicies(ctx context.Context, standings []store.Standing) (map[intent.PartitionID]*intentpb.Policy, error) {
	policies := map[intent.PartitionID]*intentpb.Policy{}
	var unknown []intent.IncarnationID
	for _, p := range standings {
		if known := s.delivered.KnownPolicy(p.Head); known != nil {
			policies[p.ID] = known
		} else if !p.Head.IsZero() {
			unknown = append(unknown, p.Head)
		}
	}
	if len(unknown) > fewPolicies {
		contents, err := s.store.HeadContents(ctx, intent.PolicyAsset)
		if err != nil {
			return nil, err
		}
		for _, content := range contents {
			// Reading it alone, below, reports what is wrong with it.
			if asset, err := schema.Decode(content.Body); err == nil {
				policy := &intentpb.Policy{}
				if schema.Payload(asset, policy) == nil {
					s.delivered.KeepPolicy(content.Head, policy)
				}
			}
		}
	}
	for _, head := range unknown {
		policy, err := s.delivered.Policy(ctx, head)
		if err != nil {
			return nil, err
		}
		policies[head.Partition] = policy
	}
	return policies, nil
}

// visibleStandings returns the standings of the partitions that the caller may read.
func (s *Server) visibleStandings(ctx context.Context) ([]store.Standing, error) {
	visible, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	standings, err := s.store.SurveyStandings(ctx)
	return slices.DeleteFunc(standings, func(p store.Standing) bool { return !visible(p.ID) }), err
}

// periodOr returns the period of a request, or the usual one if it is unset.
func periodOr(period *durationpb.Duration, usual time.Duration) (time.Duration, error) {
	if period == nil {
		return usual, nil
	}
	if period.CheckValid() != nil || period.AsDuration() < 0 {
		return 0, fault.New(fault.Invalid, "the period must not be negative")
	}
	return period.AsDuration(), nil
}

// GetOverview returns what waits, moves and happened in the partitions that the caller may read. The number of store
// calls does not grow with the partitions, only with those that deliver applications.
func (s *Server) GetOverview(ctx context.Context, request *apipb.GetOverviewRequest) (*apipb.GetOverviewResponse, error) {
	ends, err := periodOr(request.EndsWithin, usualEnds)
	if err != nil {
		return nil, err
	}
	happened, err := periodOr(request.HappenedWithin, 0)
	if err != nil {
		return nil, err
	}
	now, limit := s.runtime.Now(), page(request.Limit, usualMatters, mostPage)
	filter := store.MattersFilter{EndsAfter: now, EndsBefore: now.Add(ends), Limit: limit, Service: request.Service}
	if happened > 0 {
		filter.Since, filter.Events = now.Add(-happened), page(request.Events, usualEvents, mostEvents)
	}
	if request.Environment != "" {
		filter.Limit = mostPage // What is of other assets is left out afterwards.
	}
	standings, err := s.visibleStandings(ctx)
	if err != nil {
		return nil, err
	}
	policies, err := s.headPolicies(ctx, standings)
	if err != nil {
		return nil, err
	}
	found, err := s.store.SurveyMatters(ctx, filter)
	if err != nil {
		return nil, err
	}
	authority, err := s.store.Authority(ctx)
	if err != nil {
		return nil, err
	}
	deliveries := s.readDeliveries(ctx, standings, policies)
	scope := newEnvironmentScope(request.Environment, deliveries)
	response := &apipb.GetOverviewResponse{Environments: environmentNames(policies)}
	for _, p := range standings {
		matters, delivered := found[p.ID], deliveries[p.ID]
		isListed := matters != nil || delivered != nil
		if scope != nil {
			isListed = scope.partitions[p.ID]
		}
		if request.Service != "" {
			isListed = isListed && matters != nil && matters.States != nil
		}
		if !isListed {
			continue
		}
		overview := &apipb.PartitionOverview{Partition: string(p.ID), MayApprove: authority.May(intent.Approver, p.ID)}
		if matters != nil {
			scope.narrow(p.ID, matters, limit)
			fillOverview(overview, p, matters, policies[p.ID], now)
			if err := s.overviewRuns(overview, p, matters.Runs, policies[p.ID], authority); err != nil {
				overview.Problem = err.Error()
			}
		}
		if delivered != nil {
			environments := limit
			if request.EveryEnvironment {
				environments = mostPage
			}
			if err := delivered.fill(overview, environments, request); err != nil {
				overview.Problem = err.Error()
			}
		}
		response.Partitions = append(response.Partitions, overview)
	}
	return response, ctx.Err()
}

// environmentNames lists the environments that policies deliver to.
func environmentNames(policies map[intent.PartitionID]*intentpb.Policy) (names []string) {
	for _, policy := range policies {
		for _, delivery := range policy.GetDeliveries() {
			for _, e := range delivery.GetEnvironments() {
				names = append(names, e.GetName())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fillOverview adds what the store found in a partition.
func fillOverview(o *apipb.PartitionOverview, p store.Standing, matters *store.Matters, policy *intentpb.Policy, now time.Time) {
	o.More = matters.More
	for state, count := range matters.States {
		if o.States == nil {
			o.States = map[string]int64{}
		}
		o.States[string(state)] = int64(count)
	}
	if matters.Problem != nil {
		o.Problem = matters.Problem.Error()
	}
	for _, report := range matters.Asking {
		if request := toRequest(report); request != nil {
			o.Requests = append(o.Requests, request)
		}
	}
	for _, run := range matters.Rollouts {
		var spec *intentpb.Rollout
		if at := slices.IndexFunc(policy.GetRollouts(), func(r *intentpb.Rollout) bool { return r.Name == run.Name }); at >= 0 {
			spec = policy.Rollouts[at]
		}
		rollout := toRollout(p.ID, run.Name, spec)
		run.Events = nil
		rollout.Run = toRun(run)
		o.Rollouts = append(o.Rollouts, rollout)
	}
	o.Holds = convertEach(matters.Holds, func(h intent.Hold) *apipb.Hold { return toHold(p.ID, h, now) })
	o.Pins = convertEach(matters.Pins, func(pin intent.Pin) *apipb.Pin { return toPin(pin, now) })
	o.Overrides = convertEach(matters.Overrides, func(x intent.Override) *apipb.Override { return toOverride(x, now) })
	for _, incarnation := range matters.Incarnations {
		described := toIncarnation(incarnation)
		if described.State = "superseded"; incarnation.ID == p.Head {
			described.State = "head"
		}
		o.Incarnations = append(o.Incarnations, described)
	}
	o.Pushes = convertEach(matters.Pushes, toPush)
}

// overviewRuns adds the runs of workflows that go on in a partition.
func (s *Server) overviewRuns(o *apipb.PartitionOverview, p store.Standing, runs []intent.WorkflowRun, policy *intentpb.Policy, authority store.Authority) error {
	reader := runReader{newest: map[string]string{}}
	for _, one := range policy.GetWorkflows() {
		reader.newest[one.GetName()] = one.GetDigest()
	}
	for _, role := range intent.Roles() {
		if authority.May(role, p.ID) {
			reader.roles = append(reader.roles, role)
		}
	}
	for _, run := range runs {
		converted, err := workflowHandlers{s}.convertRun(run, reader)
		if err != nil {
			return err
		}
		o.Runs = append(o.Runs, converted)
	}
	return nil
}
