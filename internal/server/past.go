package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	// mostPastPushes of an asset are looked at, mostPastCandidates of a partition, and
	// mostPastRecords of its audit: those before the time that is asked for. Of its
	// reports the newest are, mostPastReports.
	mostPastPushes     = 500
	mostPastCandidates = 100
	mostPastRecords    = 5000
	mostPastReports    = 200_000
)

// whyThen answers as it would have been then, from what was kept.
func (s *Server) whyThen(ctx context.Context, partition store.Partition, request *apipb.WhyRequest) (*apipb.WhyResponse, error) {
	at := request.At.AsTime()
	if now := s.runtime.Now(); at.After(now) {
		return nil, fault.New(fault.Invalid, "%s is in the future", at.UTC().Format(time.RFC3339)).WithHint("name a time that is over, such as 2h for two hours ago")
	}
	incarnation, err := s.store.FindIncarnation(ctx, partition.ID, store.Lookup{At: at})
	if err != nil {
		return nil, err
	}
	facts := explain.Facts{
		Partition: partition.ID, Head: incarnation.ID, Covered: incarnation.Sources, Now: at, Past: true,
		Reports: map[intent.AssetID]intent.Report{}, After: map[intent.AssetID][]intent.AssetID{},
		Members: map[intent.AssetID]intent.Member{}, Owners: map[intent.AssetID]string{},
	}
	unknown := []string{"whether the server worked, and which sources could not be read"}
	if facts.Blocked, err = s.blockedThen(ctx, partition.ID, incarnation, at); err != nil {
		return nil, err
	}
	var whole bool
	if facts.Stop, whole, err = s.stopThen(ctx, partition.ID, at); err != nil {
		return nil, err
	}
	if !whole {
		unknown = append(unknown, fmt.Sprintf("stops that were set more than %d audit records before", mostPastRecords))
	}
	response, err := s.subjectThen(ctx, request, incarnation, facts)
	if err != nil {
		return nil, err
	}
	response.Hint, response.Unknown = "", append(unknown, response.Unknown...)
	forgetHints(append(response.Reasons, response.Root))
	for _, cause := range response.Causes {
		forgetHints(append(cause.Chain, cause.Root))
	}
	return response, nil
}

// subjectThen answers for the asset of a name, else the group of then, else the partition.
func (s *Server) subjectThen(ctx context.Context, request *apipb.WhyRequest, incarnation intent.Incarnation, facts explain.Facts) (*apipb.WhyResponse, error) {
	name := request.Asset
	switch request.Subject {
	case "":
		if name == "" {
			return s.partitionThen(ctx, incarnation, facts)
		}
	case subjectAsset:
		return s.assetThen(ctx, name, facts)
	case subjectGroup:
		return s.groupThen(ctx, name, incarnation, facts)
	case subjectPartition:
		return s.partitionThen(ctx, incarnation, facts)
	default:
		return nil, noSubject(request.Subject)
	}
	asset, err := s.assetThen(ctx, name, facts)
	if err == nil && !isAbsent(asset) {
		return asset, nil
	}
	group, failed := s.groupThen(ctx, name, incarnation, facts)
	switch {
	case failed == nil || !fault.Is(failed, fault.NotFound):
		return group, failed
	case name == string(facts.Partition):
		return s.partitionThen(ctx, incarnation, facts)
	}
	return asset, err
}

func (s *Server) assetThen(ctx context.Context, name string, facts explain.Facts) (*apipb.WhyResponse, error) {
	asset, err := intent.ParseAssetID(name)
	if err != nil {
		return nil, err
	}
	facts.Asset = asset
	if err := s.follow(ctx, &facts, asset); err != nil {
		return nil, err
	}
	answer := explain.Explain(facts)
	if answer.Root.Kind == explain.KindNoAsset && answer.State == "" {
		return nil, s.suggestNearest(ctx, s.stored(facts.Head), asset, fault.New(fault.NotFound, "%s", answer.Summary))
	}
	response := toWhy(facts, answer)
	if response.Report != nil && response.Report.Plan != nil {
		response.Unknown = append(response.Unknown, "the changes of the plan")
	}
	return response, nil
}

// groupThen answers for those that were in a group.
func (s *Server) groupThen(ctx context.Context, name string, incarnation intent.Incarnation, facts explain.Facts) (*apipb.WhyResponse, error) {
	for _, group := range intent.GroupsNamed(name) {
		members, err := s.membersThen(ctx, incarnation.ID, "service", group.Service)
		if err != nil {
			return nil, err
		}
		if group.Instance != "" && len(members) > 0 {
			instance, err := s.membersThen(ctx, incarnation.ID, "instance", group.Instance)
			if err != nil {
				return nil, err
			}
			maps.DeleteFunc(members, func(asset intent.AssetID, _ bool) bool { return !instance[asset] })
		}
		if len(members) > 0 {
			response, err := s.rollThen(ctx, name, len(members), func(asset intent.AssetID) bool { return members[asset] }, facts)
			if err != nil {
				return nil, err
			}
			response.Subject, response.Asset = subjectGroup, name
			return response, nil
		}
	}
	return nil, fault.New(fault.NotFound, "no asset of %s was in a group %.100q", incarnation.ID, name).WithHint("lehr get groups lists those of now")
}

// membersThen are those with a value in a field of the addon Group.
func (s *Server) membersThen(ctx context.Context, incarnation intent.IncarnationID, field, value string) (map[intent.AssetID]bool, error) {
	members, filter := map[intent.AssetID]bool{}, store.AssetFilter{Field: "lehr.intent.v1.Group." + field, Value: value, Limit: mostPage}
	for {
		page, err := s.store.Members(ctx, incarnation, filter)
		if err != nil {
			return nil, err
		}
		for _, member := range page {
			members[member.Asset], filter.After = true, member.Asset
		}
		if len(page) < mostPage {
			return members, nil
		}
	}
}

// partitionThen answers for all that was in the partition.
func (s *Server) partitionThen(ctx context.Context, incarnation intent.Incarnation, facts explain.Facts) (*apipb.WhyResponse, error) {
	response, err := s.rollThen(ctx, "", incarnation.Count, func(intent.AssetID) bool { return true }, facts)
	if err != nil {
		return nil, err
	}
	response.Subject, response.Asset = subjectPartition, string(facts.Partition)
	return response, nil
}

// rollThen follows what waited then, of those that are meant, to its causes.
func (s *Server) rollThen(ctx context.Context, name string, total int, include func(intent.AssetID) bool, facts explain.Facts) (*apipb.WhyResponse, error) {
	stateByAsset, ill, whole, err := s.statesThen(ctx, facts.Partition, facts.Now)
	if err != nil {
		return nil, err
	}
	var read, followed []intent.AssetID
	states, waits := map[intent.State]int{}, 0
	for asset, state := range stateByAsset {
		switch {
		case !include(asset):
		case state == intent.StateWaiting, state == intent.StatePushing, ill[asset]:
			read = append(read, asset) // The journal may tell more.
		default:
			states[state]++
		}
	}
	slices.SortFunc(read, func(a, b intent.AssetID) int {
		return cmp.Or(cmp.Compare(stateByAsset[b], stateByAsset[a]), cmp.Compare(a, b)) // What waited first.
	})
	for i, asset := range read {
		if i >= maxRolled {
			states[stateByAsset[asset]]++
			continue
		}
		report, err := s.reportThen(ctx, facts.Partition, asset, facts.Now)
		if err != nil {
			return nil, err
		}
		if report == nil {
			continue // The collector was quicker.
		}
		states[report.State]++
		switch {
		case report.State == intent.StateWaiting:
			waits++
		case report.State != intent.StateInSync || report.Health.State != intent.Unhealthy:
			continue
		}
		facts.Reports[asset] = *report
		followed = append(followed, asset)
	}
	for _, n := range states {
		total -= n
	}
	quiet := max(total, 0)
	states[intent.StateUnseen] += quiet
	response, err := s.rolled(ctx, name, states, followed, facts)
	if err != nil {
		return nil, err
	}
	if states[intent.StateWaiting] > waits {
		response.Followed = int64(waits)
	}
	delete(response.States, string(intent.StateUnseen))
	delete(response.Standing.Members, string(explain.CurrentUnseen))
	if quiet > 0 {
		response.Unknown = append(response.Unknown, fmt.Sprintf("how the other %d were: nothing that was in their way is kept, so they were in sync, being pushed, or not looked at yet", quiet))
	}
	if !whole {
		response.Unknown = append(response.Unknown, fmt.Sprintf("what was told before the newest %d reports that are kept", mostPastReports))
	}
	return response, nil
}

// statesThen is what each asset was reported to be, and which were unhealthy, where that
// was kept; whether all that was kept was read.
func (s *Server) statesThen(ctx context.Context, partition intent.PartitionID, at time.Time) (stateByAsset map[intent.AssetID]intent.State, ill map[intent.AssetID]bool, whole bool, err error) {
	stateByAsset, ill = map[intent.AssetID]intent.State{}, map[intent.AssetID]bool{}
	take := func(r intent.Report) {
		if !r.At.After(at) {
			stateByAsset[r.Asset], ill[r.Asset] = r.State, r.Health.State == intent.Unhealthy
		}
	}
	// They are so since then.
	for _, filter := range []store.ReportFilter{{State: intent.StateWaiting, Limit: mostPage}, {Unhealthy: true, Limit: mostPage}} {
		for page := mostPage; page == mostPage; {
			reports, err := s.store.ListReports(ctx, partition, filter)
			if err != nil {
				return nil, nil, false, err
			}
			for _, r := range reports {
				filter.After = r.Asset
				take(r)
			}
			page = len(reports)
		}
	}
	last, err := s.store.LastReport(ctx, partition)
	if err != nil {
		return nil, nil, false, err
	}
	cursor := last - min(last, mostPastReports)
	whole = cursor == 0
	for {
		history, err := s.store.ReportsAfter(ctx, partition, cursor, mostPage)
		if err != nil {
			return nil, nil, false, err
		}
		for _, r := range history {
			cursor = r.Number
			take(r.Report)
		}
		if len(history) < mostPage || history[0].At.After(at) {
			return stateByAsset, ill, whole, nil
		}
	}
}

// forgetHints: what a person could have done is over, and so is the next look.
func forgetHints(reasons []*apipb.Reason) {
	for _, r := range reasons {
		if r == nil {
			continue
		}
		r.Hint, r.Next = "", nil
		for _, f := range r.Findings {
			f.Hint = ""
		}
		forgetHints(r.Causes)
	}
}

// reportThen is what was reported of an asset, as far as that was kept: nil is that
// nothing was in its way that was.
func (s *Server) reportThen(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, at time.Time) (*intent.Report, error) {
	current, err := s.report(ctx, partition, asset)
	if err != nil || current != nil && !current.At.After(at) {
		return current, err // It is so since then.
	}
	history, err := s.store.ReportHistory(ctx, partition, store.HistoryFilter{Asset: asset, Until: at, Limit: 1})
	if err != nil {
		return nil, err
	}
	var report *intent.Report
	if len(history) > 0 {
		report = &history[0].Report
	}
	pushes, err := s.store.Pushes(ctx, partition, asset, mostPastPushes)
	if err != nil {
		return nil, err
	}
	latest := slices.IndexFunc(pushes, func(p store.PushRecord) bool { return !p.Admitted.After(at) })
	if latest < 0 {
		return report, nil
	}
	return afterPush(report, pushes[latest], partition, at), nil
}

// afterPush is the report of a time, where the newest push that began by then tells
// more than what was kept: nothing was in its way.
func afterPush(report *intent.Report, push store.PushRecord, partition intent.PartitionID, at time.Time) *intent.Report {
	result := &intent.Report{Partition: partition, Asset: push.Asset, Target: push.Target, Effective: push.Effective, PlanDigest: push.Plan, ResourceKey: push.ResourceKey, Push: push.Push}
	if report != nil {
		result.Type = report.Type
	}
	switch runs := push.Ended.IsZero() || push.Ended.After(at); {
	case runs && (report == nil || report.At.Before(push.Admitted)):
		result.State, result.At = intent.StatePushing, push.Admitted
	case !runs && push.Ending == pushed && (report == nil || !report.At.After(push.Ended)):
		result.State, result.At, result.PushNote = intent.StateInSync, push.Ended, "push "+string(push.Push)
	default:
		return report
	}
	return result
}

// pushed is the ending of a push that was carried out.
const pushed = "pushed"

// blockedThen is the candidate that was made last, when it was not served.
func (s *Server) blockedThen(ctx context.Context, partition intent.PartitionID, head intent.Incarnation, at time.Time) (*intent.Candidate, error) {
	candidates, err := s.store.ListCandidates(ctx, partition, mostPastCandidates)
	if err != nil {
		return nil, err
	}
	for i, c := range candidates {
		if c.Created.After(at) {
			continue
		}
		if c.Created.Before(head.Created) || c.State == intent.CandidatePublished {
			return nil, nil
		}
		if c.State == intent.CandidateSuperseded {
			candidates[i].State = intent.CandidateHeld // Only those that were held are.
		}
		return &candidates[i], nil
	}
	return nil, nil
}

// stopThen is the stop that was in force, by the audit: that of all, else the
// partition's own. Whole: its records go far enough back to tell.
func (s *Server) stopThen(ctx context.Context, partition intent.PartitionID, at time.Time) (stop *intent.Stop, whole bool, err error) {
	whole = true
	for _, scope := range []intent.PartitionID{"", partition} {
		records, first, err := s.recordsBefore(ctx, scope, at)
		if err != nil {
			return nil, false, err
		}
		conclusive := first
		for _, r := range slices.Backward(records) {
			if r.Verb == "stop" || r.Verb == "resume" {
				if conclusive = true; r.Verb == "stop" && stop == nil {
					stop = &intent.Stop{Partition: scope, Owner: r.By, Reason: r.Reason, Since: r.At}
				}
				break
			}
		}
		whole = whole && conclusive
	}
	return stop, whole, nil
}

// recordsBefore are the last records of the audit up to a time. First: there are none
// before them.
func (s *Server) recordsBefore(ctx context.Context, scope intent.PartitionID, at time.Time) (records []intent.AuditRecord, first bool, err error) {
	high, err := s.auditEnd(ctx, scope)
	if err != nil {
		return nil, false, err
	}
	var low uint64 // Records up to low are not after the time, those after high are.
	for low < high {
		middle := low + (high-low+1)/2
		one, err := s.store.AuditRecords(ctx, scope, middle-1, 1)
		if err != nil {
			return nil, false, err
		}
		if len(one) == 0 || one[0].At.After(at) {
			high = middle - 1
		} else {
			low = middle
		}
	}
	cursor := low - min(low, mostPastRecords)
	for cursor < low {
		page, err := s.store.AuditRecords(ctx, scope, cursor, int(min(low-cursor, mostPage)))
		if err != nil || len(page) == 0 {
			return records, false, err
		}
		records = append(records, page...)
		cursor = page[len(page)-1].Number
	}
	return records, low <= mostPastRecords, nil
}
