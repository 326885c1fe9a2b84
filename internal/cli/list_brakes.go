package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

func listPins(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "INCARNATION", "BY", "RANK", "AGE", "ENDS", "REASON"}}
	response, err := c.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, p := range response.Pins {
		result.add(p, p.Asset, p.Incarnation, p.Holder.GetName(), p.Rank, s.age(p.Created), s.ends(p.Until), p.Reason)
	}
	return result, nil
}

func listHolds(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "BY", "AGE", "ENDS", "REASON"}}
	response, err := c.Brakes.ListHolds(ctx, &apipb.ListHoldsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, h := range response.Holds {
		result.add(h, h.Asset, h.Owner.GetName(), s.age(h.Created), s.ends(h.Until), h.Reason)
	}
	return result, nil
}

// listStops lists those in force: of one partition, those that stop it.
func listStops(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"STOPPED", "BY", "AGE", "REASON", "ENDED BY"}}
	response, err := c.Brakes.ListStops(ctx, &apipb.ListStopsRequest{})
	if err != nil {
		return result, err
	}
	if q.partition != "" {
		if _, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: q.partition}); err != nil {
			return result, err
		}
	}
	for _, stop := range response.Stops {
		if q.partition != "" && stop.Partition != "" && stop.Partition != q.partition {
			continue
		}
		result.add(stop, cmp.Or(stop.Partition, "all"), stop.Owner.GetName(), s.age(stop.Since), stop.Reason, stop.Ending)
	}
	return result, nil
}

func listApprovals(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "PLAN", "STATE", "BY", "AGE", "ENDS", "REASON"}}
	response, err := c.Approvals.ListApprovals(ctx, &apipb.ListApprovalsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, r := range response.Requests {
		need := max(1, int(r.Consent.GetNeed()))
		state := fmt.Sprintf("asked, %d of %d", min(len(r.Consent.GetApproved()), need), need)
		result.add(r, r.Asset, brief(r.Plan), state, strings.Join(r.Consent.GetApproved(), ", "), s.age(r.Since), "", r.Reason)
	}
	for _, a := range response.Approvals {
		result.add(a, a.Asset, brief(a.Plan), unlessExpired("approved", a.Expired), a.By.GetName(), s.age(a.Created), s.ends(a.Until), a.Reason)
	}
	for _, r := range response.Rejections {
		result.add(r, r.Asset, brief(r.Plan), unlessExpired("rejected", r.Expired), r.By.GetName(), s.age(r.Created), s.ends(r.Until), r.Reason)
	}
	result.more = response.More
	return result, nil
}

func unlessExpired(state string, expired bool) string {
	if expired {
		return state + ", expired"
	}
	return state
}

func overrideState(o *apipb.Override) string {
	if o.Expired {
		return "expired"
	}
	return "in force"
}

func listOverrides(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "CHECK", "STATE", "BY", "AGE", "ENDS", "REASON"}}
	response, err := c.Approvals.ListOverrides(ctx, &apipb.ListOverridesRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, o := range response.Overrides {
		result.add(o, o.Asset, o.Check, overrideState(o), o.By.GetName(), s.age(o.Created), s.ends(o.Until), o.Reason)
	}
	return result, nil
}
