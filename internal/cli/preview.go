package cli

import (
	"context"
	"fmt"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

// listPreviews lists the environments of branches and pull requests, and what has none and why.
func listPreviews(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"RULE", "PREVIEW", "BRANCH", "STATE", "ASSETS", "EXPIRES", "NOTE"}}
	response, err := c.Previews.ListPreviews(ctx, &apipb.ListPreviewsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, p := range response.Previews[:min(len(response.Previews), q.limit)] {
		name, branch, assets, expires, note := p.Name, p.Branch, fmt.Sprintf("%d of %d", p.Good, p.Assets), "-", p.Reason
		if p.PullRequest != 0 {
			branch = fmt.Sprintf("#%d %s", p.PullRequest, p.Branch)
		}
		if p.State == "ending" {
			assets = fmt.Sprintf("%d of %d gone", p.Gone, p.Assets)
		} else if p.Expires != nil {
			expires = p.Expires.AsTime().Format(time.RFC3339)
		}
		if name == "" {
			name, assets = "-", "-"
		}
		if note == "" {
			note = p.Url
		}
		result.add(p, p.Rule, name, branch, p.State, assets, expires, note)
	}
	for _, r := range response.Rules {
		if r.Problem != "" {
			result.notes = append(result.notes, fmt.Sprintf("Rule %s cannot list, and nothing ends by that, for %s: %s", r.Rule, s.age(r.Since), r.Problem))
		}
		if r.MoreWaiting > 0 {
			result.notes = append(result.notes, fmt.Sprintf("Of rule %s %d more wait", r.Rule, r.MoreWaiting))
		}
	}
	result.more = len(response.Previews) > q.limit
	return result, nil
}
