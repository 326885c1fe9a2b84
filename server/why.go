package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/annealing/explain"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/schema"
	"lehr.dev/store"
)

// maxFollowed bounds how many reports one answer reads.
const maxFollowed = 500

// Why reads what explain.Explain needs, and puts its answer into a message.
func (s *Server) Why(ctx context.Context, request *apipb.WhyRequest) (*apipb.WhyResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	if request.At != nil {
		return s.whyThen(ctx, partition, asset, request.At.AsTime())
	}
	facts := explain.Facts{
		Asset: asset, Partition: partition.ID, Head: partition.Head, Covered: partition.Covered, Now: s.runtime.Now(),
		Reports: map[intent.AssetID]intent.Report{}, After: map[intent.AssetID][]intent.AssetID{}, Members: map[intent.AssetID]intent.Member{},
	}
	if facts.Stop, err = s.stopOf(ctx, partition.ID); err != nil {
		return nil, err
	}
	if facts.Blocked, err = s.blocked(ctx, partition.ID); err != nil {
		return nil, err
	}
	if facts.Pins, err = s.store.Pins(ctx, partition.ID); err != nil {
		return nil, err
	}
	for _, health := range s.health() {
		if health.Partition == partition.ID {
			facts.Turn = health.Waiting
			if !health.Acting {
				facts.Problem = health.problem(partition)
			}
		}
	}
	now := func(asset intent.AssetID) (*intent.Report, error) { return s.report(ctx, partition.ID, asset) }
	if err := s.follow(ctx, &facts, now); err != nil {
		return nil, err
	}
	if facts.Approvers, err = s.approvers(ctx, partition.ID, facts); err != nil {
		return nil, err
	}
	answer := explain.Explain(facts)
	if answer.Root.Kind == explain.KindNoAsset && answer.State == "" {
		return nil, s.meant(ctx, partition.Head, asset, fault.New(fault.NotFound, "%s", answer.Summary).WithHint("%s", answer.Root.Hint))
	}
	return toWhy(facts, answer), nil
}

func toWhy(facts explain.Facts, answer explain.Answer) *apipb.WhyResponse {
	response := &apipb.WhyResponse{
		Partition: string(facts.Partition), Asset: string(facts.Asset), State: string(answer.State),
		Summary: answer.Summary, Hint: answer.Root.Hint, Reasons: each(answer.Reasons, toReason),
	}
	if report, ok := facts.Reports[facts.Asset]; ok {
		response.Report = toReport(report)
	}
	return response
}

// approvers are who may approve, where somebody's approval is waited for.
func (s *Server) approvers(ctx context.Context, partition intent.PartitionID, facts explain.Facts) (list []string, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(facts.Reports)), func(r intent.Report) bool {
		return slices.ContainsFunc(r.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitApproval })
	}) {
		return nil, nil
	}
	grants, err := s.store.Grants(ctx)
	for _, g := range grants {
		if !g.Role.Includes(intent.Approver) || g.Partition != "" && g.Partition != partition {
			continue
		}
		name := strings.TrimPrefix(g.Subject, intent.UserPrefix)
		if g.Settling(facts.Now) {
			name += " (from " + g.Since.Add(store.ApproverSettles).UTC().Format(time.DateTime) + " UTC on)"
		}
		list = append(list, name)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if over := len(list) - mostApprovers; over > 0 {
		list = append(list[:mostApprovers], fmt.Sprintf("%d more", over))
	}
	return list, err
}

// mostApprovers are named.
const mostApprovers = 10

// follow reads the reports of the asset and of all that it waits on, level by
// level.
func (s *Server) follow(ctx context.Context, facts *explain.Facts, reportOf func(intent.AssetID) (*intent.Report, error)) error {
	seen := map[intent.AssetID]bool{facts.Asset: true}
	next := []intent.AssetID{facts.Asset}
	for len(next) > 0 && len(seen) <= maxFollowed {
		asset := next[0]
		next = next[1:]
		if err := s.readMember(ctx, facts, asset); err != nil {
			return err
		}
		report, err := reportOf(asset)
		if err != nil {
			return err
		}
		if report == nil {
			continue
		}
		facts.Reports[asset] = *report
		if facts.After[asset], err = s.after(ctx, facts.Head, *report); err != nil {
			return err
		}
		blockers := slices.Clone(facts.After[asset])
		for _, waiting := range report.Waiting {
			blockers = append(blockers, waiting.Blockers...)
		}
		for _, blocker := range blockers {
			if !seen[blocker] {
				seen[blocker] = true
				next = append(next, blocker)
			}
		}
	}
	return nil
}

// after lists what an asset comes after, if its difference is unknown.
func (s *Server) after(ctx context.Context, head intent.IncarnationID, report intent.Report) ([]intent.AssetID, error) {
	unknown := slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitUnknown })
	if !unknown || head.IsZero() {
		return nil, nil
	}
	_, body, err := s.store.Content(ctx, head, report.Asset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	dependencies := &intentpb.Dependencies{}
	if _, err := schema.Addon(asset, dependencies); err != nil {
		return nil, err
	}
	var found []intent.AssetID
	for _, dependency := range dependencies.Dependencies {
		if dependency.Rule == intentpb.Dependency_RULE_ORDER {
			found = append(found, intent.AssetID(dependency.On))
		}
	}
	return found, nil
}

func (s *Server) readMember(ctx context.Context, facts *explain.Facts, asset intent.AssetID) error {
	if facts.Head.IsZero() {
		return nil
	}
	member, err := s.store.Member(ctx, facts.Head, asset)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		facts.Members[asset] = member
	}
	return err
}

func toReason(r explain.Reason) *apipb.Reason {
	return &apipb.Reason{
		Kind: r.Kind, Asset: string(r.Asset), Text: r.Text, Hint: r.Hint, Owner: r.Owner,
		Since: toTime(r.Since), Until: toTime(r.Until),
		Findings: each(r.Findings, toFinding), Causes: each(r.Causes, toReason),
	}
}
