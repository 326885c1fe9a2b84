package web

import (
	"context"

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
	pageData.Parts = []part{makePart("push", "push", view), makePart("changed", "plan-record", view), makePart("grounds", "grounds", view)}
	return pageData, nil
}
