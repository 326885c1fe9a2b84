package rule

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// NotedReportOf is a report as expressions of notifications and facts find it; of nil: without
// any field.
func NotedReportOf(r *intent.Report) *intentpb.NotedReport {
	if r == nil {
		return &intentpb.NotedReport{}
	}
	n := &intentpb.NotedReport{
		Asset: string(r.Asset), Type: string(r.Type), State: string(r.State), Health: string(r.Health.State), HealthReason: r.Health.Reason,
		Pinned: r.Pinned, Push: string(r.Push), PushNote: r.PushNote, At: notedTime(r.At),
	}
	if !r.Target.IsZero() {
		n.Target = r.Target.String()
	}
	for _, w := range r.Waiting {
		wait := &intentpb.NotedWait{Kind: string(w.Kind), Reason: w.Reason, Owner: w.Owner, Until: notedTime(w.Until)}
		for _, b := range w.Blockers {
			wait.Blockers = append(wait.Blockers, string(b))
		}
		n.Waiting = append(n.Waiting, wait)
	}
	return n
}

func notedTime(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
