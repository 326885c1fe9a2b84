package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// ListGroups lists the instances of services, with their members by state.
func (s *Server) ListGroups(ctx context.Context, request *apipb.ListGroupsRequest) (*apipb.ListGroupsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if request.Group != "" {
		groups, err := s.groupsNamed(ctx, partition, request.Group)
		if err == nil && len(groups) == 0 {
			return nil, noGroup(partition, request.Group)
		}
		return &apipb.ListGroupsResponse{Groups: convertEach(groups, toGroup)}, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	groups, err := s.store.ListGroups(ctx, partition.Head, store.GroupFilter{After: request.After, Limit: limit})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListGroupsResponse{Groups: convertEach(groups, toGroup)}
	services := map[string]bool{}
	for _, group := range groups {
		services[group.Service] = true
	}
	if len(services) == limit {
		response.Next = groups[len(groups)-1].Service
	}
	return response, nil
}

func toGroup(g store.GroupStates) *apipb.Group {
	return &apipb.Group{Name: g.Name(), Service: g.Service, Instance: g.Instance, State: string(intent.Worst(g.States)), States: counts(g.States), Unhealthy: int64(g.Unhealthy)}
}

func counts(states map[intent.State]int) map[string]int64 {
	result := map[string]int64{}
	for state, n := range states {
		if n > 0 {
			result[string(state)] = int64(n)
		}
	}
	return result
}

func noGroup(partition store.Partition, name string) error {
	return fault.New(fault.NotFound, "no asset of %s is in a group %.100q", partition.ID, name).
		WithHint("lehr get groups lists them; the addon Group, which lehr.yaml can derive, puts assets into one")
}

// groupsNamed lists the instances of the service, or the one instance, of that name;
// none: there is no such group.
func (s *Server) groupsNamed(ctx context.Context, partition store.Partition, name string) ([]store.GroupStates, error) {
	for _, group := range intent.GroupsNamed(name) {
		groups, err := s.store.ListGroups(ctx, partition.Head, store.GroupFilter{Of: group})
		if err != nil || len(groups) > 0 {
			return groups, err
		}
	}
	return nil, nil
}

// whyGroup answers for the members of a group.
func (s *Server) whyGroup(ctx context.Context, partition store.Partition, name string, groups []store.GroupStates, facts explain.Facts) (*apipb.WhyResponse, error) {
	group, states := groups[0].Group, map[intent.State]int{}
	if name == group.Service {
		group.Instance = ""
	}
	for _, g := range groups {
		for state, n := range g.States {
			states[state] += n
		}
	}
	response, err := s.roll(ctx, partition, name, store.ReportFilter{Group: group}, states, facts)
	if err != nil {
		return nil, err
	}
	response.Subject, response.Asset = subjectGroup, name
	response.Standing.TargetBy, err = s.pinnedOf(ctx, partition.Head, group, facts)
	return response, err
}

// whyPartition answers for all that is in a partition.
func (s *Server) whyPartition(ctx context.Context, partition store.Partition, facts explain.Facts) (*apipb.WhyResponse, error) {
	states, err := s.store.CountReports(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	if !partition.Head.IsZero() {
		head, err := s.store.Incarnation(ctx, partition.Head)
		if err != nil {
			return nil, err
		}
		unseen := head.Count + states[intent.StateGone]
		for _, n := range states {
			unseen -= n
		}
		states[intent.StateUnseen] = max(unseen, 0)
	}
	response, err := s.roll(ctx, partition, "", store.ReportFilter{}, states, facts)
	if err != nil {
		return nil, err
	}
	response.Subject, response.Asset = subjectPartition, string(partition.ID)
	pins, err := s.store.Pins(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	response.Standing.TargetBy = pinnedWords(len(pins), false)
	response.FailingTargets, err = s.failingTargets(ctx, partition.ID)
	return response, err
}

// roll follows what waits of the filter to its causes.
func (s *Server) roll(ctx context.Context, partition store.Partition, name string, filter store.ReportFilter, states map[intent.State]int, facts explain.Facts) (*apipb.WhyResponse, error) {
	filter.State, filter.Limit = intent.StateWaiting, maxRolled
	reports, err := s.store.ListReports(ctx, partition.ID, filter)
	if err != nil {
		return nil, err
	}
	waits := len(reports)
	if room := maxRolled - waits; room > 0 {
		filter.State, filter.Unhealthy, filter.Limit = "", true, room
		ill, err := s.store.ListReports(ctx, partition.ID, filter)
		if err != nil {
			return nil, err
		}
		reports = append(reports, ill...)
	}
	var troubled []intent.AssetID
	for _, report := range reports {
		troubled = append(troubled, report.Asset)
		facts.Reports[report.Asset] = report
	}
	response, err := s.rolled(ctx, name, states, troubled, facts)
	if err == nil && states[intent.StateWaiting] > waits {
		response.Followed = int64(waits)
	}
	return response, err
}

// rolled follows what waits, or is unhealthy, to its causes, and puts the answer into a
// message.
func (s *Server) rolled(ctx context.Context, name string, states map[intent.State]int, waiting []intent.AssetID, facts explain.Facts) (*apipb.WhyResponse, error) {
	roots := slices.Clone(waiting)
	for _, name := range slices.Sorted(maps.Keys(facts.Rollouts)) {
		if facts.Rollouts[name].State == intent.RolloutRunning {
			roots = append(roots, facts.Follow(name)...)
		}
	}
	if err := s.follow(ctx, &facts, roots...); err != nil {
		return nil, err
	}
	if !facts.Past {
		if err := s.readApproval(ctx, &facts); err != nil {
			return nil, err
		}
	}
	rolled := explain.Roll(facts, name, states, waiting)
	if err := s.readOwners(ctx, facts, rolled.Causes); err != nil {
		return nil, err
	}
	facts.Answer(rolled.Causes)
	response := &apipb.WhyResponse{
		Partition: string(facts.Partition), State: string(rolled.State), Summary: rolled.Summary, States: counts(rolled.Counts),
		Standing: &apipb.Standing{Desired: toIncarnationID(facts.Head), Target: toIncarnationID(facts.Head), Members: rolled.Standing()},
	}
	for _, current := range explain.Currents() {
		if response.Standing.Current == "" && response.Standing.Members[string(current)] > 0 {
			response.Standing.Current = string(current)
		}
	}
	for i, cause := range rolled.Causes {
		if i == 0 {
			response.Hint, response.Root = cause.Root.Hint, toRoot(cause.Root)
		}
		response.Causes = append(response.Causes, toCause(cause))
	}
	return response, nil
}

// readOwners reads who owns what the causes and their examples are about; of the
// members that wait they were not read.
func (s *Server) readOwners(ctx context.Context, facts explain.Facts, causes []explain.Cause) error {
	read := 0
	var walk func(reasons []explain.Reason) error
	walk = func(reasons []explain.Reason) error {
		for _, r := range reasons {
			if _, ok := facts.Members[r.Asset]; !ok && r.Asset != "" && read < maxFollowed {
				read++
				if err := s.readMember(ctx, &facts, r.Asset); err != nil {
					return err
				}
			}
			if err := walk(r.Causes); err != nil {
				return err
			}
		}
		return nil
	}
	for _, cause := range causes {
		if err := walk(append([]explain.Reason{cause.Root}, cause.Chain...)); err != nil {
			return err
		}
	}
	return nil
}

// pinnedOf says how many members of a group are pinned.
func (s *Server) pinnedOf(ctx context.Context, head intent.IncarnationID, group intent.Group, facts explain.Facts) (string, error) {
	pins, err := s.store.Pins(ctx, facts.Partition)
	if err != nil {
		return "", err
	}
	pins = slices.DeleteFunc(pins, func(p intent.Pin) bool { return intent.Expired(p.Until, facts.Now) })
	pinned := 0
	for _, pin := range pins[:min(len(pins), mostPinned)] {
		groupAddon := &intentpb.Group{}
		if _, err := s.addon(ctx, head, pin.Asset, groupAddon); err != nil {
			return "", err
		}
		if groupAddon.Service != "" && group.Includes(intent.Group{Service: groupAddon.Service, Instance: groupAddon.Instance}) {
			pinned++
		}
	}
	return pinnedWords(pinned, len(pins) > mostPinned), nil
}

func pinnedWords(pinned int, more bool) string {
	switch {
	case more:
		return fmt.Sprintf("head, but for %d that are pinned, or more: lehr get pins", pinned)
	case pinned > 0:
		return fmt.Sprintf("head, but for %d pinned: lehr get pins", pinned)
	default:
		return "head"
	}
}

func toCause(c explain.Cause) *apipb.Cause {
	cause := &apipb.Cause{
		Sort: string(c.Sort), Summary: c.Summary, Root: toRoot(c.Root), Assets: int64(len(c.Assets)), Example: string(c.Example),
		Chain: convertEach(c.Chain, toReason), Shared: c.Root.Shared,
	}
	for _, asset := range c.Assets[:min(len(c.Assets), maxNamed)] {
		cause.Names = append(cause.Names, string(asset))
	}
	return cause
}
