package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/annealing/explain"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
)

const (
	// mostPastPushes of an asset are looked at, mostPastCandidates of a partition, and
	// mostPastRecords of its audit: those before the time that is asked for.
	mostPastPushes     = 500
	mostPastCandidates = 100
	mostPastRecords    = 5000
)

// whyThen answers as it would have been then, from what was kept.
func (s *Server) whyThen(ctx context.Context, partition store.Partition, request *apipb.WhyRequest) (*apipb.WhyResponse, error) {
	if request.Asset == "" || request.Subject != "" && request.Subject != subjectAsset {
		return nil, fault.New(fault.Invalid, "of the past, only why of an asset is known").WithHint("lehr why ASSET --at TIME; lehr timeline --incarnation ID tells of all that an incarnation changed")
	}
	asset, err := intent.ParseAssetID(request.Asset)
	if err != nil {
		return nil, err
	}
	at := request.At.AsTime()
	if now := s.runtime.Now(); at.After(now) {
		return nil, fault.New(fault.Invalid, "%s is in the future", at.UTC().Format(time.RFC3339)).WithHint("name a time that is over, such as 2h for two hours ago")
	}
	incarnation, err := s.store.FindIncarnation(ctx, partition.ID, store.Lookup{At: at})
	if err != nil {
		return nil, err
	}
	facts := explain.Facts{
		Asset: asset, Partition: partition.ID, Head: incarnation.ID, Covered: incarnation.Sources, Now: at, Past: true,
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
	if err := s.follow(ctx, &facts, asset); err != nil {
		return nil, err
	}
	answer := explain.Explain(facts)
	if answer.Root.Kind == explain.KindNoAsset && answer.State == "" {
		return nil, s.meant(ctx, incarnation.ID, asset, fault.New(fault.NotFound, "%s", answer.Summary))
	}
	response := toWhy(facts, answer)
	response.Hint, response.Unknown = "", unknown
	forgetHints(append(response.Reasons, response.Root))
	if response.Report != nil && response.Report.Plan != nil {
		response.Unknown = append(response.Unknown, "the changes of the plan")
	}
	return response, nil
}

// forgetHints: what a person could have done is over.
func forgetHints(reasons []*apipb.Reason) {
	for _, r := range reasons {
		if r == nil {
			continue
		}
		r.Hint = ""
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
	past, err := s.store.ReportHistory(ctx, partition, store.HistoryFilter{Asset: asset, Until: at, Limit: 1})
	if err != nil {
		return nil, err
	}
	var report *intent.Report
	if len(past) > 0 {
		report = &past[0].Report
	}
	pushes, err := s.store.Pushes(ctx, partition, asset, mostPastPushes)
	if err != nil {
		return nil, err
	}
	begun := slices.IndexFunc(pushes, func(p store.PushRecord) bool { return !p.Admitted.After(at) })
	if begun < 0 {
		return report, nil
	}
	return afterPush(report, pushes[begun], partition, at), nil
}

// afterPush is the report of a time, where the newest push that began by then tells
// more than what was kept: nothing was in its way.
func afterPush(report *intent.Report, push store.PushRecord, partition intent.PartitionID, at time.Time) *intent.Report {
	told := &intent.Report{Partition: partition, Asset: push.Asset, Target: push.Target, Effective: push.Effective, PlanDigest: push.Plan, ResourceKey: push.ResourceKey, Push: push.Push}
	if report != nil {
		told.Type = report.Type
	}
	switch runs := push.Ended.IsZero() || push.Ended.After(at); {
	case runs && (report == nil || report.At.Before(push.Admitted)):
		told.State, told.At = intent.StatePushing, push.Admitted
	case !runs && push.Ending == pushed && (report == nil || !report.At.After(push.Ended)):
		told.State, told.At, told.PushNote = intent.StateInSync, push.Ended, "push "+string(push.Push)
	default:
		return report
	}
	return told
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
		told := first
		for _, r := range slices.Backward(records) {
			if r.Verb == "stop" || r.Verb == "resume" {
				if told = true; r.Verb == "stop" && stop == nil {
					stop = &intent.Stop{Partition: scope, Owner: r.By, Reason: r.Reason, Since: r.At}
				}
				break
			}
		}
		whole = whole && told
	}
	return stop, whole, nil
}

// recordsBefore are the last records of the audit up to a time. First: there are none
// before them.
func (s *Server) recordsBefore(ctx context.Context, scope intent.PartitionID, at time.Time) (records []store.AuditRecord, first bool, err error) {
	ends, err := s.store.AuditEnds(ctx)
	if err != nil {
		return nil, false, err
	}
	var low, high uint64 // Records up to low are not after the time, those after high are.
	for _, end := range ends {
		if end.Partition == scope {
			high = end.Number
		}
	}
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
	after := low - min(low, mostPastRecords)
	for after < low {
		page, err := s.store.AuditRecords(ctx, scope, after, int(min(low-after, mostPage)))
		if err != nil || len(page) == 0 {
			return records, false, err
		}
		records = append(records, page...)
		after = page[len(page)-1].Number
	}
	return records, low <= mostPastRecords, nil
}
