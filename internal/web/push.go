package web

import (
	"context"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// pushView is one push, with what it was to change and what it was decided on.
type pushView struct {
	*apipb.Push
	Partition string
}

// Took is how long it ran; empty: its end is not known.
func (p pushView) Took() string {
	if p.Ended == nil {
		return ""
	}
	return p.Ended.AsTime().Sub(p.Admitted.AsTime()).Round(1e6).String()
}

// Lines of what its plugin told, the newest first.
func (p pushView) Lines() []*apipb.ProgressLine {
	lines := slices.Clone(p.Progress.GetLines())
	slices.Reverse(lines)
	return lines
}

// progress is what the plugin tells of the push of an asset that is under way; without one the part is empty.
func (r *reader) progress(ctx context.Context, partition string, report *apipb.Report) part {
	if report.GetPush() == "" {
		return makePart("progress", "progress", nil)
	}
	response, err := r.Journal.GetPush(ctx, &apipb.GetPushRequest{Partition: partition, Push: report.Push})
	if err != nil {
		return problem("progress", err)
	}
	return makePart("progress", "progress", &pushView{response.Push, partition})
}

// showPush is what one push did, and what let it begin.
func showPush(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Push "+at.name)
	if err != nil {
		return page{}, err
	}
	response, err := r.Journal.GetPush(ctx, &apipb.GetPushRequest{Partition: at.partition, Push: at.name})
	if err != nil {
		return page{}, err
	}
	view := pushView{response.Push, at.partition}
	pageData.Back = crumb{view.Asset, link(at.partition, "asset", view.Asset)}
	pageData.Fixed = view.Ended != nil
	pageData.Parts = []part{makePart("push", "push", view), makePart("progress", "progress", &view), makePart("changed", "plan-record", view), makePart("grounds", "grounds", view)}
	return pageData, nil
}
